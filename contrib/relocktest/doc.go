// Package relocktest helps to test code that uses locks of relock. It provides a Redis, and faults to
// test the code under. A unit test needs no server, no network and no sleep:
//
//	func TestBusy(t *testing.T) {
//		locks := relocktest.New(t)
//		relocktest.Hold(t, locks, "invoice:42")
//		err := Pay(t.Context(), locks, 42)
//		if !errors.Is(err, ErrBusy) {
//			t.Fatal(err)
//		}
//	}
//
// docs/testing.md in the repository is the guide.
//
// # The Redis
//
// [New] uses a Redis in memory, which the library's own tests compare with real servers command by
// command. Its clients are the same as relock.New's: locks wait, linger, are renewed, handed over and
// lost as in production, by the same scripts. [Redis] starts a real redis-server instead. All functions
// of this package work with its clients too.
//
// # Trouble
//
//   - [Hold]: another process has the lock.
//   - [Lose]: the lock is lost while code runs under it.
//   - [RedisDown] and [RedisUp]: Redis cannot be reached.
//   - [Crash]: the holder's process dies.
//   - [Want]: another process wants the lock; [Beside] makes such a process by hand.
//
// # Time
//
// Leases last seconds. In a bubble of testing/synctest they pass in fake time, at once: a Redis in
// memory uses the bubble's clock, waits only on channels, and leaves no goroutine behind. Make the
// client inside the bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		first := relocktest.New(t)
//		second := relocktest.Beside(t, first)
//		...
//	})
//
// # What it does not show
//
//   - How long anything takes. In memory an answer comes at once.
//   - Answers that are lost, late or doubled, and a Redis that hangs. RedisDown refuses connections.
//   - A Redis that forgets: failover, a restart without its data, eviction.
//   - A Cluster, Sentinel, a quorum of several masters (relock.NewRedlock), Redisson beside you.
//   - Rights, TLS, passwords, and production's client library. In memory there is no client library.
//   - A process that was stopped and goes on past its lease. Only the fencing token protects against
//     that: test that your store refuses a token that is lower than the last.
//
// The library itself is tested under these faults (docs/testing-the-lock.md). Your code sees the same
// few errors.
package relocktest
