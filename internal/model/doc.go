// Package model explores six lock protocols exhaustively at small scope: everything that a few processes, messages and servers
// can do in any order, with a check of every state that can be reached. It is run by its tests and has no other user.
//
// Nothing here reads the code: whoever changes a protocol changes its model with it. So only those are kept that show what no
// test of the code is seen to show, or that guard what a test shows one order of: what fencing tokens, forgetful nodes, cached
// leases, hand-overs, read-write locks and semaphores promise in every order. Eleven more systems stood here up to 5997e2c:
// one Redis with its waiters (Node), hold counts, the goroutines of a process, renewals in a batch, split votes, forced
// unlocks, write-backs, tokens by clocks that are apart, cached leases on a quorum, Once, and several locks. Of their 72
// broken variants 62 fail a test of the library by name, 6 have no place in the code, and two, Forced.HeldAlone and
// WriteBack.SkipListening, are found by the simulation, in the scenes forced and behind. The last two do no harm in the code: a
// hold count that a renewal writes later, and a livelock that pauses drawn by chance end. When they went, 14 of the 62 were
// tried again, six by a flaw made by hand: each was seen. upkeep.tsv has the figures.
//
// # Systems
//
// Tokens is one lock's fencing counter as a hybrid logical clock: grants under the server's clock, or from what is
// proposed ahead of it; counters that expire, are evicted, lost with all there is or taken back to an older copy; and
// what is answered to an acquire that is sent again and to a waiter.
//
// Fence is clients that hold quorums of three nodes: fencing tokens with guarded write-backs, releases to every node,
// and nodes that lose their memory, with quarantine and re-seeding from what was asked after the loss was heard of, by
// contenders and by holders; nodes may be taken from a holder by force, without its knowing.
//
// Linger is a lock that a process keeps after its last Unlock, for its own next Lock: who may take it from there and for
// how long, the messages that others want it, Redisson's waiters, which send none, and processes that were stopped.
//
// RW is a read-write lock of one Redis: its hash as Redisson keeps it, with a timeout key for each reader, the lines of
// readers and of writers, and the phase by which the readers that waited at a writer's end come before the next writer.
// The readers of a process share a hold, writers become readers, and one of Redisson's threads reads or writes beside
// them. Questions, releases, answers and messages are lost, late and doubled, and processes crash. Tickets are above all
// in both lines and above the phase, whatever the server's clock says. In some scopes no message grants, as on a Cluster
// without sharded channels: waiters then come in by their questions, and the dead keep their places for a while.
//
// Move is an acquisition that its process hands over to another, on one Redis: a giver, whose trust ends before its first
// command; the handle that the lock stands for meanwhile; two takers with it, one of which may give up and try again; a
// contender, and one of Redisson's, whose second thread waits beside it. Moves are lost, doubled and late, and so are the
// giver's renewals and an acquire of its own. The lock may be forced. Anyone may stop between any two steps.
//
// Permits is a semaphore of one Redis, kept as Redisson's RPermitExpirableSemaphore: a counter of free permits, and a
// set of those that are held, with a member for each. Entries of one permit or two wait in one strict line, with
// several processes, goroutines that pass a hold on in memory or keep it idle, and one caller of Redisson's, which
// reaps one member at a time by its own clock. Questions, releases, renewals, answers and messages are lost, late and
// doubled, a process crashes, the counter is deleted, and the size is set. In some scopes what a command leaves free
// is told to Redisson's caller only; in the others relock's waiters ask then, too. What has to stay possible is that all
// are served, and all permits are back.
//
// # What is abstracted
//
// Small scope is evidence, not proof: two or three processes, three nodes, one fault or two.
//
// A script is one step. One that Redis refuses half way, for a right or for want of memory, is left to tests and to the
// simulation. So is Close. A hold that WithMaxHold ends is one that is lost at any time.
//
// Tokens: one unit is a tick of the server's clock and a token, and the lease is longer than the lead that a block may
// have. The ticks are bounded.
//
// Fence: a client that believes in a node owns it, as the tests of one Redis show. A belief ends at any time, and the node's
// lease any time after. The end of a quarantine is when no belief from before it is left. Losing memory is losing all of it;
// a node that is back with an older file has another run id, and has lost its memory. An idle client is a contender that was
// granted nothing. Tokens are counted from the lowest in use, and how far counters may be apart is bounded, so that runs
// have no end and states do. More than three nodes are argued: the rules speak of quorums that meet in a node, and of three
// the meeting is the tightest. The first use of a quorum, and yields beside other sharers of an owner, are the simulation's.
//
// Linger: a tick passes only while nothing is under way, but for a fault; one goroutine locks in each of two processes; a
// process has two acquisitions at a time, the one it uses and the one that is being released; and a grant's message that is
// older than an answer "queued" is dropped. Waiting is counted in ticks, as long as a hold may be kept.
//
// RW: ticks pass as in Linger, and a grant's message that is older than an answer "queued" is dropped, too. At each gate of
// readers one goroutine waits at most, and a process has two acquisitions for its readers: the one that they share or ask
// by, and the one that drains. Writers wait for nobody at their gate. One thread of Redisson's comes once, waits and is told,
// and its lease does not run out. Its turn ends at any time, but before a tick does. Left out: TryLock and TryRLock, which take by
// the script's same conditions; ForceUnlock; a release that queues the writer's next acquisition; lines and a phase that
// expire; Redisson's re-entry and its downgrade; how long a writer of Redisson's waits.
//
// Move: the contender's own commands are answered at once. The giver has one hold count and no shared owner. Count writes
// are like its renewals. A taker neither renews nor hands over in its turn. Releases are one at a time.
//
// Permits: ticks and old messages as in Linger. A waiter does not keep its ticket: one that was granted, lost that unheard
// and asks again stands last. All leases are as long as one another, and an entry has two permits at most, so that "member 1
// stands for all" has one other member to be wrong about. The goroutines of a process that want as many permits stand behind
// a gate of their own, and the first of them asks Redis beside the holds of the others. How many are passed in memory is counted
// in times, not in ticks. Redisson's caller takes one permit and does not renew it; its turn ends before a tick does. Two
// things are excused, and shown to happen: a JVM whose clock is ahead takes permits that are relied on, until the holder's next
// renewal is answered, and the permit of one whose clock is behind is reaped before its time. Left out: TryAcquire,
// ForceUnlock, Extend and fixed leases; waiters that no message can grant; a caller that holds permits and asks for more; a set
// that is deleted; and Redisson's trySetPermits while the counter is gone.
//
// # Reading a trace
//
// A broken rule comes with a shortest run that breaks it. Each line is what happened and the state after it:
//
//	tokens rise: a holder got a token that is not above all that were given out before
//	   1  n1 grants to A, number 1                 n1 A:1 n2 -:0 n3 -:0
//	   2  A hears that it owns n1, number 1        n1 A:1 n2 -:0 n3 -:0 | A believes [1 0 0]
//
// Processes and clients are A, B and C, nodes n1 to n3. In Fence "n1 A:2" is a node owned by A with its counter at 2, "a" an
// attempt of A that is over, "-" nobody. In RW A to D are acquisitions, "waits at 2" is a place among all tickets, "phase 2"
// that readers up to it come before the next writer, and "open" a hold that those who come may share. In Permits "A has 1 of
// 2 for 0" is an entry that has lost a member, and whose lease is past; "KEEPS" is an idle hold. In Move A is the giver, B and C
// are takers, B.2 is B's second attempt, and D is the contender, with E beside it.
//
// The rules of each system have switches that break one of them. The tests turn each on and require the trace that
// this makes possible, so that a check that sees nothing would be noticed. variants.tsv says of each switch what sees the
// same flaw in the code.
//
// Larger scopes take minutes and gigabytes: go test ./internal/model -large -timeout 1h.
package model
