package model

import "testing"

// The scopes of the read-write system.
var (
	rwPlain = RWScope{
		Side: [4]int8{reads, reads, writes}, Proc: [4]int8{0, 1, 2}, Calls: [4]int8{1, 1, 1}, Lease: 2, Batch: 2,
	}
	rwWriters = RWScope{
		Side: [4]int8{reads, writes, writes}, Proc: [4]int8{0, 1, 2}, Calls: [4]int8{1, 1, 1}, Lease: 2, Batch: 2,
	}
	rwBoth = RWScope{
		Side: [4]int8{reads, writes, reads}, Proc: [4]int8{0, 0, 1}, Calls: [4]int8{1, 2, 1}, Lease: 2, Batch: 1,
	}
	rwShares = RWScope{
		Side: [4]int8{reads, reads, writes}, Proc: [4]int8{0, 0, 1}, Calls: [4]int8{3, 0, 1},
		Lease: 3, Window: 2, Linger: true, Batch: 2,
	}
	rwSharesTwo = RWScope{
		Side: [4]int8{reads, reads, reads, writes}, Proc: [4]int8{0, 0, 1, 2}, Calls: [4]int8{2, 0, 1, 1},
		Lease: 3, Window: 1, Linger: true, Batch: 1,
	}
	rwDown = RWScope{
		Side: [4]int8{reads, writes, writes}, Proc: [4]int8{0, 0, 1}, Calls: [4]int8{0, 1, 1},
		Lease: 2, Batch: 2, Down: true,
	}
	rwJavaWrites = RWScope{
		Side: [4]int8{reads, reads, writes}, Proc: [4]int8{0, 0, 1}, Calls: [4]int8{2, 0, 1},
		Lease: 3, Window: 1, Linger: true, Batch: 2, Java: writes, Comes: 1,
	}
	rwJavaReads = RWScope{
		Side: [4]int8{reads, reads, writes}, Proc: [4]int8{0, 1, 2}, Calls: [4]int8{1, 1, 1},
		Lease: 2, Dog: 1, Batch: 1, Java: reads, Comes: 1,
	}
	rwWriters3 = RWScope{
		Side: [4]int8{reads, writes, writes, writes}, Proc: [4]int8{0, 1, 2, 3}, Calls: [4]int8{1, 1, 1, 1},
		Lease: 2, Batch: 2,
	}
	rwWritersShared = RWScope{
		Side: [4]int8{reads, writes, writes}, Proc: [4]int8{0, 1, 2}, Calls: [4]int8{1, 1, 1},
		Lease: 2, Window: 1, Batch: 2,
	}
	rwSharesOwn = RWScope{
		Side: [4]int8{reads, reads, writes}, Proc: [4]int8{0, 0, 0}, Calls: [4]int8{2, 0, 1},
		Lease: 3, Window: 2, Linger: true, Batch: 2,
	}
	rwJavaRenews = RWScope{
		Side: [4]int8{reads, reads}, Proc: [4]int8{0, 0}, Calls: [4]int8{2, 0},
		Lease: 3, Window: 2, Linger: true, Renews: true, Batch: 2, Java: writes, Comes: 1,
	}
	rwBack = RWScope{
		Side: [4]int8{reads, reads, writes}, Proc: [4]int8{0, 1, 2}, Calls: [4]int8{1, 1, 1}, Lease: 2, Batch: 2, Back: true,
	}
	rwDownAmong = RWScope{
		Side: [4]int8{reads, writes, reads}, Proc: [4]int8{0, 0, 1}, Calls: [4]int8{0, 1, 1},
		Lease: 2, Dog: 1, Batch: 1, Down: true, Java: reads, Comes: 1,
	}
	rwDownRenews = RWScope{
		Side: [4]int8{reads, writes, writes}, Proc: [4]int8{0, 0, 1}, Calls: [4]int8{1, 1, 1},
		Lease: 2, Batch: 1, Down: true, Renews: true,
	}
	rwSharesRenews = RWScope{
		Side: [4]int8{reads, reads, writes}, Proc: [4]int8{0, 0, 1}, Calls: [4]int8{2, 0, 1},
		Lease: 2, Window: 2, Linger: true, Renews: true, Batch: 2,
	}
	rwPair = RWScope{
		Side: [4]int8{reads, writes}, Proc: [4]int8{0, 1}, Calls: [4]int8{1, 1}, Lease: 2, Batch: 2, Crash: true,
	}
	rwRenewsJava = RWScope{
		Side: [4]int8{reads, writes}, Proc: [4]int8{0, 1}, Calls: [4]int8{1, 1},
		Lease: 3, Dog: 2, Batch: 2, Renews: true, Java: reads, Comes: 2,
	}
	rwRenews = RWScope{
		Side: [4]int8{reads, writes}, Proc: [4]int8{0, 1}, Calls: [4]int8{1, 1}, Lease: 2, Batch: 2, Renews: true,
	}
)

// failing is the scope with so many faults.
func (s RWScope) failing(faults int8) RWScope {
	s.Faults = faults
	return s
}

// polled is the scope where no message grants.
func (s RWScope) polled() RWScope {
	s.Polled = true
	return s
}

// crashing is the scope with one fault, which may be a crash.
func (s RWScope) crashing() RWScope {
	s.Faults, s.Crash = 1, true
	return s
}

func TestReadWriteHolds(t *testing.T) {
	one, two := rwShares, rwJavaReads
	one.Calls[0] = 2
	two.Calls[0] = 0
	hold(t, []run{
		all(RW(rwPlain, RWRules{})),
		all(RW(rwWriters, RWRules{})),
		all(RW(rwBoth, RWRules{})),
		all(RW(rwShares, RWRules{})),
		all(RW(rwDown.failing(1), RWRules{})),
		all(RW(rwJavaWrites, RWRules{})),
		all(RW(rwJavaReads, RWRules{})),
		all(RW(rwRenews.failing(1), RWRules{})),
		all(RW(rwRenews.crashing(), RWRules{})),
		all(RW(rwSharesRenews, RWRules{})),
		all(RW(rwDownRenews, RWRules{})),
		all(RW(rwPlain.polled(), RWRules{})),
		all(RW(rwWriters.polled(), RWRules{})),
		all(RW(rwBoth.polled(), RWRules{})),
		all(RW(rwDown.polled().failing(1), RWRules{})),
		all(RW(rwPair.polled().failing(2), RWRules{})),
		all(RW(rwPlain.polled().failing(1), RWRules{})),
		all(RW(rwWriters.polled().crashing(), RWRules{})),
		all(RW(rwWriters3.polled(), RWRules{})),
		all(RW(rwPair.failing(3), RWRules{})),
		all(RW(rwDownAmong.failing(1), RWRules{})),
		all(RW(rwPlain.crashing(), RWRules{})),
		all(RW(rwWriters.failing(1), RWRules{})),
		all(RW(one.failing(1), RWRules{})),
		all(RW(two.failing(1), RWRules{})),
	}, []run{
		all(RW(rwBoth.failing(1), RWRules{})),
		all(RW(rwShares.failing(1), RWRules{})),
		all(RW(rwSharesTwo, RWRules{})),
		all(RW(rwJavaWrites.failing(1), RWRules{})),
		all(RW(rwJavaReads.failing(1), RWRules{})),
		all(RW(rwRenewsJava.failing(2), RWRules{})),
		all(RW(rwShares.crashing(), RWRules{})),
	})
}

func readWrite(name, rule string, steps int, scope RWScope, rules RWRules) broken {
	return broken{name: name, run: one(RW(scope, rules), rule), rule: rule, steps: steps}
}

func TestBrokenReadWriteIsCaught(t *testing.T) {
	crowd := rwPlain
	crowd.Side[3], crowd.Proc[3], crowd.Calls[3] = reads, 3, 1
	crowd.Batch = 1
	catch(t, []broken{
		readWrite("a reader has no timeout key", "belief is ownership", 3, rwPlain, RWRules{NoKey: true}),
		readWrite("a reader that leaves frees the lock", "belief is ownership", 8, rwPlain,
			RWRules{LeaverDeletes: true}),
		readWrite("a writer does not look who reads", "exclusion", 6, rwPlain, RWRules{BlindWriter: true}),
		readWrite("a reader believes more than Redisson leaves it", "belief is ownership", 5, rwJavaReads,
			RWRules{BelieveLease: true}),
		readWrite("a reader believes from the answer on", "belief is ownership", 4, rwPlain.failing(1),
			RWRules{DateByReply: true}),
		readWrite("a late question is not swept", "no orphan", 5, rwPlain.failing(1), RWRules{NoSweep: true}),
		readWrite("a writer's end lets nobody in", "readers wait for one writer", 14, rwWriters3,
			RWRules{NoPhase: true}),
		readWrite("a sweep lets readers in", "no reader past a writer", 11, rwPlain.failing(1),
			RWRules{SweepPhase: true}),
		readWrite("the end of readers lets readers in", "no reader past a writer", 9, rwPlain,
			RWRules{ReadPhase: true}),
		readWrite("a ticket is the clock's", "no reader past a writer", 10, rwBack.failing(1), RWRules{TicketByClock: true}),
		readWrite("readers join while Redisson's writer waits", "no reader past a writer", 7, rwJavaWrites,
			RWRules{Unshut: true}),
		readWrite("the dead keep their place", "the dead keep nobody out", 7, rwPlain.crashing(),
			RWRules{DeadKept: true}),
		readWrite("who leaves the line serves nobody", "no sleeper", 18, rwPlain.failing(1),
			RWRules{QuietLeaver: true}),
		readWrite("nobody is told of a batch", "no sleeper", 14, crowd, RWRules{NoAnnounce: true}),
		readWrite("a late renewal writes what is gone", "the hash is Redisson's", 8, rwRenews,
			RWRules{Recreate: true}),
		readWrite("a downgrade leaves the mode", "the hash is Redisson's", 7, rwDown, RWRules{ModeLeft: true}),
		readWrite("a downgrade's end cuts the lock", "belief is ownership", 7, rwDown, RWRules{DownCuts: true}),
		readWrite("a downgrade releases first", "no gap", 12, rwDown, RWRules{Gap: true}),
		readWrite("a downgrade does not look at its writer", "no gap", 16, rwDown.failing(1),
			RWRules{DownBlind: true}),
		readWrite("a repeated question is shared by all who come", "wanted is minded", 14, rwWritersShared,
			RWRules{AnyAnswer: true}),
		readWrite("a grant by message is shared by all who come", "wanted is minded", 11, rwWritersShared,
			RWRules{Handed: true}),
		readWrite("wanted shuts nothing", "wanted is minded", 7, rwShares, RWRules{WantedIgnored: true}),
		readWrite("wanted before the grant is dropped", "wanted is minded", 7, rwShares, RWRules{WantedAwaits: true}),
		readWrite("wanted is not told to the asker's process", "wanted is minded", 6, rwSharesOwn,
			RWRules{OwnUnheard: true}),
		readWrite("a hold is shared without end", "no lease past the window", 6, rwJavaWrites,
			RWRules{NoWindow: true}),
		readWrite("a renewal begins the window anew", "no lease past the window", 10, rwJavaRenews,
			RWRules{RenewWindow: true}),
		readWrite("a hold does not await who was let in", "belief is ownership", 9, rwShares, RWRules{NoAwait: true}),
		readWrite("readers do not mind a writer that polls", "no reader past a writer", 6, rwPlain.polled(),
			RWRules{Unkept: true}),
		readWrite("writers that poll do not mind the phase", "readers wait for one writer", 14, rwWriters3.polled(),
			RWRules{Unyielding: true}),
		readWrite("no phase where waiters poll", "readers wait for one writer", 20, rwWriters3.polled(),
			RWRules{NoPhase: true}),
		readWrite("one that polls and leaves the line wakes nobody", "no sleeper", 13, rwPlain.polled().failing(1),
			RWRules{QuietLeaver: true}),
		readWrite("the end of a hold wakes nobody that polls", "no sleeper", 8, rwPlain.polled(), RWRules{NoAnnounce: true}),
		readWrite("the dead keep their place though they ask no more", "the dead keep nobody out", 9, rwPlain.polled().crashing(),
			RWRules{DeadKept: true}),
		readWrite("readers are not counted", "tokens rise", 3, rwPlain, RWRules{ReaderAsWriter: true}),
	})
}

func TestReadWriteReaches(t *testing.T) {
	reached(t, RW(rwShares, RWRules{}), "two leases of one hold while a writer waits", func(s rwState) bool {
		return s.id[0].phase == working && s.id[0].uses == 2 && s.id[2].place > 0
	})
	reached(t, RW(rwShares, RWRules{}), "an idle hold", func(s rwState) bool {
		return s.id[0].phase == working && s.id[0].uses == 0
	})
	reached(t, RW(rwShares, RWRules{}), "a hold that drains while the next reader of its process waits behind a writer",
		func(s rwState) bool {
			return s.id[0].phase == working && s.id[1].place > s.id[2].place && s.id[2].place > 0
		})
	reached(t, RW(rwPlain, RWRules{}), "readers that a writer's end let in together", func(s rwState) bool {
		return s.id[0].phase == working && s.id[1].phase == working && s.topWriter > 0
	})
	reached(t, RW(rwBoth, RWRules{}), "a reader behind a full batch that comes in past a writer",
		func(s rwState) bool {
			return s.id[0].in && s.id[2].in && s.id[1].place > 0 && s.topWriter > 0
		})
	reached(t, RW(rwDown, RWRules{}), "a writer that reads on while another waits", func(s rwState) bool {
		return s.id[0].phase == working && s.mode == readMode && s.id[2].place > 0
	})
	reached(t, RW(rwJavaReads, RWRules{}), "readers of both, whose lock Redisson has shortened", func(s rwState) bool {
		return s.id[0].phase == working && s.java == reads && s.ttl < s.id[0].key
	})
	reached(t, RW(rwJavaWrites, RWRules{}), "Redisson's turn while readers wait", func(s rwState) bool {
		return s.turn && s.id[0].place > 0
	})
	reached(t, RW(rwPlain.crashing(), RWRules{}), "a dead reader's field whose key is gone, beside one that reads",
		func(s rwState) bool {
			return s.crashed[0] && s.id[0].in && s.id[0].key == 0 && s.id[1].phase == working
		})
}
