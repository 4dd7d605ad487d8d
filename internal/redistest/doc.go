// Package redistest runs real redis-server processes on free loopback ports,
// for tests, benchmarks and the demo command.
//
// [Start] gives one server, [StartTLS] one that speaks TLS only,
// [StartSentinel] a master with two replicas watched by three sentinels, and
// [StartCluster] three masters with a replica each. Everything a Start function
// made is gone when the cleanup of its [TB] has run.
//
// # Which server
//
// The binary is redis-server from the PATH, or the one [ServerEnv] names, so
// that another version or Valkey can be tested. Cluster needs 6.2 or later. A
// machine without the binary fails the test: a lock library that was not tried
// on a server was not tested.
//
// # When the test dies
//
// On Linux the servers die with the process that started them, however it
// ends. Elsewhere they survive a test process that was killed.
//
// # Failures
//
// Methods without an error result call Fatalf, so they belong on the goroutine
// that runs the test; from other goroutines use [Server.Try].
package redistest

// TB is the part of testing.TB that the helpers need, so that a command can use
// them as well.
//
// Fatalf must not return to its caller. Functions given to Cleanup run in
// reverse order; a directory from TempDir outlives those registered after it.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	TempDir() string
}
