// Package relocktest helps to test code that uses locks of relock: it brings a Redis, and the trouble
// that such code is to be seen under. A unit test needs no server, no network and no sleep:
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
// command. Its clients are those of relock.New: locks wait, linger, are renewed, handed over and
// lost as in production, by the same scripts. [Redis] starts a real redis-server instead, for the
// tests that want one; all that this package does to clients it does there too.
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
// Leases last seconds. In a bubble of testing/synctest they are over in no time: a Redis in memory
// uses the bubble's clock, waits by channels alone, and leaves no goroutine behind. Make the client
// inside the bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		first := relocktest.New(t)
//		second := relocktest.Beside(t, first)
//		...
//	})
//
// # What it does not show
//
//   - How long anything takes. In memory an answer comes at once, and in a bubble in no time at all.
//   - Answers that are lost, late or doubled, and a Redis that hangs. RedisDown refuses connections.
//   - A Redis that forgets: failover, a restart without its data, eviction.
//   - A Cluster, Sentinel, a quorum of several masters (relock.NewRedlock), Redisson beside you.
//   - Rights, TLS, passwords, and the client library that production uses. In memory there is none.
//   - A process that was stopped and goes on past its lease. The fencing token is what stands against
//     that: test that your store refuses one that is lower than the last.
//
// The library is tested under those (docs/testing-the-lock.md); code above it sees the same few
// errors.
package relocktest
