// Package sim is a Redis server that is simulated: it runs the scripts of the locks, on a clock of its own, with what
// becomes of real servers at hand as methods.
//
// A [Server] has no goroutine, no mutex and no real time. Whoever drives it calls [Server.Exec] for one command after
// the other; messages are delivered inside of the Exec that published them, in the order in which a real server would
// write them to its connections. Lua runs in gopher-lua with the conversions, the errors and the number formats of
// Redis.
//
// The simulation in package world stands on it, and so does contrib/relocktest, by which users test their code.
//
// # How it is kept honest
//
// The tests send random commands, all scripts of the locks among them, to a simulated and to a real redis-server and
// compare every answer and every message. What is simulated is what they compare: a command that they do not send is
// not there.
//
// # What differs from a server
//
//   - Replies have the shape of RESP2, and a connection that has subscribed may send any command, as under RESP3.
//   - A hash beyond the limits of its compact form lists its fields in an order of its own, as a real one does, but not
//     in the same.
//   - Assigning to a global that exists is not refused in scripts, nor is a number written in octal read as decimal by
//     arithmetic on strings. The texts of Lua's own errors are gopher-lua's.
//   - There is one database, no transactions and no Cluster.
package sim
