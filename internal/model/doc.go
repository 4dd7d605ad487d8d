// Package model explores the lock protocols exhaustively at small scope: everything that a few processes, messages and
// servers can do in any order, with a check of every state that can be reached. It is run by its tests and has no
// other user.
//
// # Systems
//
// Node is one Redis with its waiters: the scripts acquire, release and renew with their queue, and what a process may
// believe, must poll for and has to sweep. Commands may be lost before they run, run with their answer lost, be sent
// again while the first copy is still on its way, and run late. Pushed grants may be lost. Processes may crash. With
// NodeScope.Yields it is one node of a quorum, where holders give grants back and every grant has a number.
//
// Count is the hold count of one acquisition through re-entry, inner unlocks and renewals that are repeated, lost or
// late.
//
// Local is one process: goroutines that lock one name, the gate that they wait behind, a hold that is passed from one to
// the next in memory or offered to it, re-entry under the contexts of leases that may be over by then, and Close beside
// all of it. The next block of tokens may be asked for before one is used up, and be answered at any time. How long one
// may be overtaken is left open, and so is when a hold has to be given back for others.
//
// Batch is the locks of one process that are renewed together, while one key is taken away or may not be touched any
// more, counts are unsure and Redis is out of memory.
//
// Tokens is one lock's fencing counter as a hybrid logical clock: grants under the server's clock, or from what is
// proposed ahead of it; counters that expire, are evicted, lost with all there is or taken back to an older copy; and
// what is answered to an acquire that is sent again and to a waiter.
//
// Split is contenders that divide the votes of three nodes, with compare-and-yield: each with a ticket of its own, or all
// with one, where only nudges tell them to yield. What has to come in every fair run is that somebody has a quorum.
//
// Fence is clients that hold quorums of three nodes: fencing tokens with guarded write-backs, releases to every node,
// and nodes that lose their memory, with quarantine and re-seeding from what was asked after the loss was heard of, by
// contenders and by holders; nodes may be taken from a holder by force, without its knowing.
//
// Forced is a forced unlock of a quorum's lock: the nodes are freed one by one, and may hand the lock over to the holder's own
// entry in their queues, beside contenders that queue, give back and leave. Commands are not heard, or run late.
//
// WriteBack is the loop of one contender whose quorum's counters differ: it writes its token back, and listens to
// votes, grants and its caller meanwhile. What has to come in every fair run is that it wins, or gives up with its
// caller.
//
// Spread is the tokens of a quorum by the nodes' clocks, which are apart, where nodes that forgot are told nothing.
//
// Linger is a lock that a process keeps after its last Unlock, for its own next Lock: who may take it from there and for
// how long, the messages that others want it, Redisson's waiters who send none, and processes that were stopped.
// LingerQuorum is the same on three nodes, for what they add: that such a hold ends at once, and at all of them.
//
// RW is a read-write lock of one Redis: its hash as Redisson keeps it, with a timeout key for each reader, the lines of
// readers and of writers, and the phase by which the readers that waited at a writer's end come before the next writer.
// The readers of a process share a hold, writers become readers, and one of Redisson's threads reads or writes beside
// them. Questions, releases, answers and messages are lost, late and doubled, and processes crash. Tickets are above all
// in both lines and above the phase, whatever the server's clock says. In some scopes no message grants, as on a Cluster
// without sharded channels: waiters then come in by their questions alone, and the dead keep their places for a while.
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
// is told to Redisson's caller alone; in the others relock's waiters ask then, too. What has to come is that all are
// served, and all permits are back.
//
// Once is the result of a function that runs once, beside its lock: two processes with two callers each, of which one leads
// and the other waits for what that brings. Forget comes, leases are lost, results expire, and what leaves a result runs
// twice, late or unheard. What may not be is that a caller gets a result from before a Forget that it came after, that a
// result of an earlier run comes behind the beginning of a later one, and, while nothing is lost, that two results are given.
//
// Several is callers of two locks at once, of one Redis: All, which waits for one after the other, in one order, and gives all
// back and begins anew if one is lost meanwhile; Any, which stands in all lines, keeps the first grant and leaves the others; and
// callers of one lock beside them. Both may ask for what is free in one command before, which takes all of All's or none, and one of
// Any's. It may be lost, late or doubled, and its answer may be lost. What has to stay possible is that all calls end, and
// nothing is left in Redis but what a copy of such a command took, until its lease ends.
//
// # What is abstracted
//
// Time in Node is ticks, and a lease is one or two of them. Beliefs are counted from when a command was sent, leases
// from when it ran; both end at tick boundaries, and any number of things may happen within a tick. Margins for clock
// drift come on top of what is shown here. An acquire is assumed gone when the limbo of its sweep ends; one that comes
// later costs a lease and is not explored. Of one id there are at most one late acquire and two releases on their way
// at a time, and a push that would exceed the scope's messages is lost. An id is used again once neither the server
// nor a message knows it, which stands for fresh ids without end. Queues are in the order of arrival; re-queueing at a
// known ticket, TryLock, foreign waiters, forced unlocks and shared owners are left out.
//
// Local has no time: a hold may be lost whenever it is watched, and a command is unanswered or not. Each goroutine
// locks and unlocks once. What a goroutine does under a hold's mutex is one step: so is passing on what a release was
// granted. In Batch Redis answers within a tick. In Tokens one unit is a tick of the server's clock and
// a token, and the lease is longer than the lead that a block may have.
//
// Tokens are renumbered by rank in Node and counted from the lowest in use in Fence, so that runs have no end and
// states do. Fence bounds how far counters may be apart instead. Tokens bounds the ticks, WriteBack the numbers.
//
// Split and Fence take from Node, explored with Yields, that who believes in a node owns it. Beliefs in them end at
// any time, and a node's lease any time after. The end of a quarantine is when no belief from before it is left.
// Losing memory is losing all of it. A client of Fence that is idle is a contender that was granted nothing. In
// WriteBack no lease ends by itself: a contender that gets on only by that is one that hangs.
//
// In Move the contender's own commands are answered at once: they are Node's. The giver has one hold count and no shared
// owner. Count writes are like its renewals. A taker neither renews nor hands over in its turn. Releases are one at a time. A
// crash is a process that stops for good. A script is one step: one that Redis refuses half way, for a right or for want
// of memory, is left to TestRefusedMoveLeavesNoLockWithoutAnEnd and the simulation, and Close to TestCloseEndsTakeOver.
//
// Small scope is evidence, not proof: two or three processes, three nodes, one fault or two.
//
// In Linger a tick passes only while nothing is under way, but for a fault; one goroutine locks in each of two processes;
// a process has two acquisitions at a time, the one it uses and the one that is being released; and a grant's message
// that is older than an answer "queued" is dropped, as Node shows. Waiting is counted in ticks, as long as a hold may be
// kept. LingerQuorum has no time: that a hold has been kept for long enough may be found at any time, and nothing relies
// on it. Grants there are Split's and Fence's.
//
// In RW ticks pass as in Linger, and a grant's message that is older than an answer "queued" is dropped, too. At each
// gate of readers no more than one goroutine waits, and a process has two acquisitions for its readers at most: the one
// that they share or ask by, and the one that drains. Writers wait for nobody at their gate: what is passed on there is
// Local's. One thread of Redisson's comes once, waits and is told, and its lease does not run out. Its turn ends at any
// time, but before a tick does.
//
// In Permits ticks pass as in Linger, and a grant's message that is older than an answer "queued" is dropped, too. A
// waiter does not keep its ticket: one that was granted, lost that unheard and asks again stands last. All leases are
// as long as one another, and an entry has two permits at most, so that "member 1 stands for all" has one other member
// to be wrong about. The goroutines of a process that want as many permits stand behind a gate of their own, and the
// first of them asks Redis beside the holds of the others. How many are passed in memory is counted in times, not in
// ticks. Redisson's caller takes one permit and does not renew it. Its turn ends at any time, but before a tick does.
// A command that finds a client dead finds all of them so. Two things are excused, and shown to happen: a JVM whose
// clock is ahead takes permits that are relied on, until the holder's next renewal is answered, and the permit of one
// whose clock is behind is reaped before its time.
//
// In Once the lock is given, lost and given back in single steps, and no lease ends that is trusted: that is Node's. Two
// callers of a process stand for all; Forget is one step, which no caller of the two processes takes.
//
// In Several an entry is put in line, granted and ended in one step each, and reliably: what a single wait may meet is
// Node's. A caller calls once. Its entries are ended before it asks anew, where the code asks under fresh ids at once.
//
// # What is left out
//
// Nothing here reads the code: that code and model do the same is for whoever changes one of them to see to. That is
// where defects were. A re-entry entered the next goroutine's hold while hand-over in memory was left out; a
// write-back that failed was sent 57,000 times in a lease while it had no goal here, only rules; a forgetful node was
// told of counters that had been heard long before while the model read them all at the moment of the seed; contenders with
// one ticket stood still while Split gave each its own. What is still left out, and why:
//
// Safe by what is explored. The hub, its connections and its subscriptions are messages that may be lost at any time.
// A failover and a restart are the loss of all, or of what was copied last. The sweeper is releases that are repeated
// until they are answered. Of several names none knows of another but in Batch. Who was deposed by force is a hold
// that is lost, and until it hears of that a second believer, which is what fencing is for.
//
// Argued. More than three nodes: the rules speak of quorums that meet in a node, and of three the meeting is the
// tightest. Margins for drift. That a lease outlasts every command that somebody still waits for. A grant's number and
// the node's incarnation in one belief. That contenders of a quorum whose attempts overlap are as safe under clocks as
// holds that follow each other, since Fence has them, and a clock only raises a node's counter. That a node which is
// back with an older file has lost its memory, since its run id is another. That a node which does not answer, or is
// quarantined, is not waited for where more nodes have forgotten than a quorum survives: in Fence a seed has all
// counters, and Spread has tokens rise by the clocks alone where nodes that forgot are told nothing. Nor is a seed in the
// model that is sent once more, since there it may come as late. By Spread a node may forget that it forgot, too, long
// after (docs/wire.md). That what nodes are told by a quorum is the
// same number for all: in Tokens each proposal is any, and only the work of write-backs depends on it.
//
// Of lingering: several goroutines, since what goes on at a gate is Local's, where an idle hold is one that is passed on
// to nobody yet, and ends once, under its mutex. A hold that is deposed by force while it lies idle, which is not used
// from the message of that on until Redis has confirmed it. A failover or a restart without data: others may be granted
// the lock until the next renewal, as beside a holder who works. That on a quorum one who waited before, with a higher
// ticket, may be found by its next poll only, where a lock was free with a queue: the time to linger ends it too.
//
// The first use of a quorum, where nodes that were all found fresh are asked once more and then declared new, each by a
// script that looks again; the simulation in internal/sim has it, with restarts in between. That a node is taken again
// only by a renewal that is a command time-out younger than the one which found the loss: it only delays a vote that
// Fence lets come at any time. Yields beside other sharers of the owner, and how those come back, as all of shared
// owners: the simulation has them, with lost and late commands, and found a livelock there.
//
// Of a forced unlock: that the holder asks for a node again only when a command timeout is over, as above; how it is told;
// and that a waiter which lost its place asks again. The simulation's scene forced has them.
//
// Of read-write locks: TryLock and TryRLock, which wait for nothing and take by the script's same conditions; ForceUnlock;
// a release that queues the writer's next acquisition; lines and a phase that expire or are evicted, after which the
// order is that of tickets; a waiter that polls too late and loses its place until it asks, which is such an expiry;
// Redisson's re-entry and its downgrade, which tells nobody; and how long a writer of Redisson's
// waits: what is shown is that no hold is shared past its window beside it, and that no reader of relock's who has not
// waited for a second comes in past it.
//
// Of semaphores: TryAcquire, which waits for nothing and takes by the script's same conditions; ForceRelease; Extend
// and fixed leases; waiters that no message can grant, as on a Cluster without sharded channels; a late acquire that
// comes after the limbo of its sweep, which may stand in line though no caller waits, and if it is a big one keeps smaller ones
// out until it fits; a process that was stopped and whose connection still listens, which is such a one; a caller that
// holds permits and asks for more, which waits for itself where others in line wait for what it holds; a set that is
// deleted, after which the size is less by what it held; and, while the counter is gone, Redisson's trySetPermits,
// which makes it anew without regard to what is held. Where Redisson's release or reaping meets a counter that is
// gone, the size is what they make of it. Java's single permits overtake a big waiter of relock's at any time.
//
// That acquires and releases of several locks go in one command. Each runs as by itself, under its own id, and is told
// its own answer; a command that is lost, late, doubled or refused is that of each of them, which the models of one lock
// have. What is new is that one's refusal ran for none, so that all are sent again in halves (TestFailuresOfACrowd,
// TestOneForbiddenLockAmongMany), and that the scripts of many and of one are two texts (TestManySayWhatEachSays). What
// a client says of itself in Redis: no lock depends on it.
//
// Renewals and Extend on a quorum beside a yield that comes late: Split has late yields and no renewals. A node that had
// such a vote on its way said that it kept the lock, was counted, and then gave it away; the simulation found that, in one
// of some ten thousand runs. Now a node confirms nothing that was sent before that vote was answered: so what is counted
// was said after the yield, and a vote that comes still later names a grant that stands no more.
//
// Covered by tests alone: the Lua itself with all formats, and old clients beside new; shared owners; Redisson's
// waiters and their turns; fixed leases and Extend; TryLock but for re-entry; Cluster slots and channels;
// a hold count that is unsure while the hold is passed on; a contender that yields while its write-back is out; a node
// that hangs while holds are counted; renewals of a quorum where nodes disagree; timers, back-off and every bound on
// goroutines, memory and commands in flight. Close waits for calls as long as they take here, and for two command
// timeouts in the code; a renewal that Redis refuses is split without end here, and into 64 commands in the code.
// WithMaxHold ends a lease before Redis does: to Node and Local that is a hold which is lost at any time, with its commands. What
// remains is when, which is a table in internal/tenure, and what the simulation's judge demands: that no lease is trusted beyond
// it, and none ends before it.
// Where those bounds are met, a lock stands for the rest of its lease, or locks fall with others that this client has
// lost the rights to.
//
// # Reading a trace
//
// A broken rule comes with a shortest run that breaks it. Each line is what happened and the state after it:
//
//	tokens rise: a holder got a token that is not above all that were given out before
//	   1  n1 grants to A, number 1                 n1 A:1 n2 -:0 n3 -:0
//	   2  A hears that it owns n1, number 1        n1 A:1 n2 -:0 n3 -:0 | A believes [1 0 0]
//
// Processes, clients and goroutines are A, B and C, nodes n1 to n3, holds h1 to h3. In Fence "n1 A:2" is a node owned
// by A with its counter at 2, "a" an attempt of A that is over, "-" nobody. In Split "n1 Abc" is owned by A with B and
// C in the queue. In RW A to D are acquisitions, "waits at 2" is a place among all tickets, "phase 2" that readers up to it
// come before the next writer, and "open" a hold that those who come may share. In Local "h1 live A B, ops B" is a hold with leases of A and B of whom B has ops. In Batch "A 3 of
// 4?" is a lock believed in for 3 ticks that Redis keeps for 4, its count unsure. Where the rule is that something
// must come, the run ends in a circle, marked "and again and again", or in a state that nothing leaves.
//
// In Permits "A has 1 of 2 for 0" is an entry that has lost a member, and whose lease is past; "KEEPS" is an idle hold.
//
// In Move A is the giver, B and C are takers, B.2 is B's second attempt, and D is the contender, with E beside it.
//
// The rules of each system have switches that break one of them. The tests turn each on and require the trace that
// this makes possible, so that a check that sees nothing would be noticed.
//
// Larger scopes take minutes and gigabytes: go test ./internal/model -large -timeout 1h.
package model
