// Package world runs real clients of the locks in a simulated world: simulated servers, a network
// between them that loses, delays and doubles what it carries, an operator, and a judge who knows
// all. Time is that of a testing/synctest bubble, and all that happens is drawn from one seed.
//
// # How a seed runs
//
// [Draw] makes a [Plan] of a seed: the topology, the processes, the leases, the rates of faults and
// the events. [Run] plays it. Actors call the public API at random; the [Kind] of lock says what
// they do. When all have done their rounds the faults end, and everybody must be served; then all
// clients are closed, and nothing may be left.
//
// # Faults have names
//
// What becomes of a command is not drawn from one stream: it follows from the seed, the process,
// the node, the script, the lock, and how often they met. So a run that goes slightly another way
// still meets most of its faults, and a run can be told which faults to leave out, by name: that is
// how a failing run is shrunk.
//
// # Mutexes
//
// The world's mutex guards servers and connections, the judge's what is known of leases. Neither is
// held while anything waits, nor while a client is called.
package world
