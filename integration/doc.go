// Package integration tests relock where things break: real servers, worker processes that are
// stopped and killed, connections that are cut or lose replies, failovers.
//
// A worker is this test binary, started again. It takes commands on its standard input and writes a
// journal of what happened to it to its standard output. Each entry has a time of the machine's
// monotonic clock, which all processes share. Tests judge the journals.
//
// The default run takes seven minutes. RELOCK_LONG=1 in the environment runs many more rounds; that
// takes half an hour, so give go test a -timeout. Each test logs what it measured: see go test -v.
package integration
