// Package model explores the lock protocols exhaustively at small scope: everything that a few processes, messages and
// servers can do in any order, with a check of every state that can be reached. It is run by its tests and has no other
// user.
//
// # Systems
//
// Node is one Redis with its waiters: the scripts acquire, release and renew with their queue, and what a process may
// believe, must poll for and has to sweep. Commands may be lost before they run, run with their answer lost, be sent
// again while the first copy is still on its way, and run late. Pushed grants may be lost. Processes may crash. With
// NodeRules.Yields it is one node of a quorum, where holders give grants back and every grant has a number.
//
// Count is the hold count of one acquisition through re-entry, inner unlocks and renewals that are repeated, lost or
// late.
//
// Local is one process: goroutines that lock one name, the gate that they wait behind, a hold that passes from one to
// the next in memory, re-entry under the contexts of leases that may be over by then, and Close beside all of it.
//
// Batch is the locks of one process that are renewed together, while one key is taken away or may not be touched any
// more, counts are unsure and Redis is out of memory.
//
// Split is contenders that divide the votes of three nodes, one ticket each, with compare-and-yield. What has to come
// in every fair run is that somebody has a quorum.
//
// Fence is clients that hold quorums of three nodes: fencing tokens with guarded write-backs, releases to every node,
// and nodes that lose their memory, with quarantine and re-seeding from what was asked after the loss was heard of.
//
// WriteBack is the loop of one contender whose quorum's counters differ: it writes its token back, and listens to
// votes, grants and its caller meanwhile. What has to come in every fair run is that it wins, or gives up with its caller.
//
// Tokens is one lock's fencing counter as a hybrid logical clock: grants under the server's clock, counters that expire,
// are evicted, lost with all there is or taken back to an older copy, and what is answered to an acquire that is sent
// again and to a waiter.
//
// # What is abstracted
//
// Time in Node is ticks, and a lease is one or two of them. Beliefs are counted from when a command was sent, leases
// from when it ran; both end at tick boundaries, and any number of things may happen within a tick. Margins for clock
// drift come on top of what is shown here. An acquire is assumed gone when the limbo of its sweep ends; one that comes
// later costs a lease and is not explored. Of one id there are at most one late acquire and two releases on their way
// at a time, and a push that would exceed the scope's messages is lost. An id is used again once neither the server nor
// a message knows it, which stands for fresh ids without end. Queues are in the order of arrival; re-queueing at a
// known ticket, TryLock, foreign waiters, forced unlocks and shared owners are left out.
//
// Tokens are renumbered by rank in Node and counted from the lowest in use in Fence, so that runs have no end and
// states do. Fence bounds how far counters may be apart instead.
//
// Split and Fence take from Node, explored with Yields, that who believes in a node owns it. Beliefs in them end at any
// time, and a node's lease any time after. The end of a quarantine is when no belief from before it is left. Losing
// memory is losing all of it: a node that comes back with an old snapshot is left out, and so are clocks that jump. A
// client of Fence that is idle is a contender that was granted nothing.
//
// Small scope is evidence, not proof: two or three processes, three nodes, one fault or two.
//
// # Reading a trace
//
// A broken rule comes with a shortest run that breaks it. Each line is what happened and the state after it:
//
//	tokens rise: a holder got a token that is not above all that were given out before
//	   1  n1 grants to A, number 1                 n1 A:1 n2 -:0 n3 -:0
//	   2  A hears that it owns n1, number 1        n1 A:1 n2 -:0 n3 -:0 | A believes [1 0 0]
//
// Processes and clients are A, B and C, nodes n1 to n3. In Fence "n1 A:2" is a node owned by A with its counter at 2,
// "a" an attempt of A that is over, "-" nobody. In Split "n1 Abc" is owned by A with B and C in the queue. Where the
// rule is that something must come, the run ends in a circle, marked "and again and again", or in a state that nothing
// leaves.
//
// The rules of each system have switches that break one of them. The tests turn each on and require the trace that this
// makes possible, so that a check that sees nothing would be noticed.
//
// Larger scopes take minutes and gigabytes: go test ./internal/model -large -timeout 1h.
package model
