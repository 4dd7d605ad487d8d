package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// The sweep of one lock whose key is of another type does not keep the others from being ended.
func TestSweepOfAForeignKeyStopsNoOther(t *testing.T) {
	s := redistest.Start(t)
	n, closes := nodeOf(overrueidis.New(s.Client()))
	defer closes()
	var batch []*Claim
	for i, name := range []string{"a", "foreign", "b"} {
		c := claimOf(t, n, name, i+1, time.Second)
		a, _, err := c.Ask(t.Context(), "")
		require.NoError(t, err)
		require.True(t, a.Mine)
		batch = append(batch, c)
	}
	s.Do("SET", "foreign", "x")
	got, err := n.sweeper.try(batch)
	require.NoError(t, err)
	require.Equal(t, []outcome{swept, stands, swept}, got)
	require.Equal(t, "0", s.Do("EXISTS", "a", "b"))
	for _, c := range batch {
		c.Forget()
	}
}

// kindred is a second kind of lock with a mutex's scripts, which messages name.
var kindred = func() *wire.Kind {
	is := *wire.Mutex
	return wire.Add(&is)
}()

// A grant that comes for an entry that is over is given back: as an entry of the lock's kind, which the message names,
// and with the time that the client gives a command, however short or long the lock's lease is.
func TestOrphanedGrantIsEnded(t *testing.T) {
	for _, c := range []struct {
		message string
		kind    *wire.Kind
		owner   string
		lease   time.Duration
	}{
		{"17 30000 c:9 0 k", wire.Mutex, "", 30 * time.Second},
		{"17:3 100 c:9 0 k", wire.Mutex, "", 100 * time.Millisecond},
		{"17:3 100 c:9 3 jobk", wire.Mutex, "job", 100 * time.Millisecond},
		{"17 30000:mutex c:9 0 k", kindred, "", 30 * time.Second},
		{"17:3 31622400000:mutex c:9 3 jobk", kindred, "job", wire.MaxLease},
	} {
		for _, votes := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				const timeout = 700 * time.Millisecond
				var n *Node
				ran := 0
				rdb := &faults.Stub{}
				rdb.OnRun = func(ctx context.Context, _ *driver.Script, keys, args []string) (driver.Value, error) {
					ran++
					end, bound := ctx.Deadline()
					require.True(t, bound)
					require.Equal(t, timeout, time.Until(end))
					require.Equal(t, "k", keys[0])
					require.Len(t, keys, 5)
					require.Equal(t, strconv.Itoa(len(args)-1), args[0], "one entry")
					for _, want := range []string{"c:9", c.owner, wire.MS(c.lease)} {
						require.Contains(t, args[1:], want)
					}
					w := n.sweeper.all[target{"c:9", "k"}]
					require.Same(t, c.kind, w.c.Entry.Names.Kind)
					require.Equal(t, timeout, w.c.Entry.Timeout)
					return driver.List(driver.Int(1)), nil
				}
				n, closes := nodeOf(rdb, func(cfg *Config) { cfg.Votes, cfg.Timeout = votes, timeout })
				defer closes()
				n.hub.Message(wire.InboxPrefix+"c", c.message)
				synctest.Wait()
				require.Equal(t, 1, ran)
				require.Zero(t, n.Debug().Sweeping)
			})
		}
	}
}

// A grant of a kind that this release does not know is left to its lease, and so is one for an entry of another client;
// news of another sort ends nothing.
func TestWhatIsNoOrphan(t *testing.T) {
	n, closes := nodeOf(&faults.Stub{})
	defer closes()
	n.sweeper.running = true
	for _, message := range []string{
		"17 30000:latch c:9 0 k", "17 30000 d:9 0 k", "0 0 c:9 0 k", "0 30000 c:9 0 k", "17 30000 c:9 0 k}",
	} {
		n.hub.Message(wire.InboxPrefix+"c", message)
		require.Zero(t, n.Debug().Sweeping, message)
	}
	c := claimOf(t, n, "k", 9, time.Second)
	n.hub.Message(wire.InboxPrefix+"c", "17 30000 c:9 0 k")
	require.Zero(t, n.Debug().Sweeping, "it is not over")
	c.Forget()
}

// Locks of two kinds are not swept with one command, nor too many of one.
func TestSweepsAreBatchedByKind(t *testing.T) {
	n, closes := nodeOf(&faults.Stub{})
	defer closes()
	n.sweeper.running = true // nothing is sent
	for i := range 2 * (sweepBatch + 1) {
		kind := []string{"", ":mutex"}[i%2]
		n.hub.Message(wire.InboxPrefix+"c", fmt.Sprintf("17 30000%s c:%d 0 k%d", kind, i, i))
	}
	sizes := make(map[*wire.Kind][]int)
	for _, batch := range n.sweeper.take(clock.Now()) {
		kind := batch[0].c.Entry.Names.Kind
		sizes[kind] = append(sizes[kind], len(batch))
		for _, w := range batch {
			require.Same(t, kind, w.c.Entry.Names.Kind)
		}
	}
	want := []int{sweepBatch, 1}
	require.Equal(t, map[*wire.Kind][]int{wire.Mutex: want, kindred: want}, sizes)
}

// What Redis answers, but refuses to end, is tried less and less often.
func TestRefusedSweepsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var swept atomic.Int32
		n, closes := nodeOf(&faults.Stub{
			OnRun: func(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
				time.Sleep(time.Millisecond)
				swept.Add(1)
				return driver.List(driver.Int(-1)), nil
			},
		})
		defer closes()
		n.hub.Message(wire.InboxPrefix+"c", "17 30000 c:9 0 k")
		time.Sleep(5 * time.Second)
		require.Greater(t, swept.Load(), int32(5))
		require.Less(t, swept.Load(), int32(20))
	})
}

// refusedSweeps ends so many claims of so many locks at a node that answers each sweep as said, and returns how many
// commands that takes in a second.
func refusedSweeps(t *testing.T, claims, locks int, answer func(keys []string) (driver.Value, error)) (commands int32) {
	synctest.Test(t, func(t *testing.T) {
		var swept atomic.Int32
		n, closes := nodeOf(&faults.Stub{
			OnRun: func(_ context.Context, _ *driver.Script, keys, _ []string) (driver.Value, error) {
				time.Sleep(time.Millisecond)
				swept.Add(1)
				return answer(keys)
			},
		})
		for i := range claims {
			n.hub.Message(wire.InboxPrefix+"c", fmt.Sprintf("17 30000 c:%d 0 k%d", i, i%locks))
		}
		time.Sleep(time.Second)
		commands = swept.Load()
		require.Equal(t, claims, n.Debug().Sweeping, "it may be allowed again")
		closes()
	})
	return commands
}

// A refusal that is about the node is one answer for all, and no reason to ask for each lock by itself.
func TestSweepsThatANodeRefusesStayTogether(t *testing.T) {
	for _, said := range []string{
		"NOPERM this user has no permissions to run the 'evalsha' command", "READONLY You can't write against a read only replica.",
	} {
		n := refusedSweeps(t, 32, 32, func([]string) (driver.Value, error) {
			return driver.Value{}, &driver.ReplyError{Text: said}
		})
		require.LessOrEqual(t, n, int32(40), said) // to halve them once takes more
	}
}

// What the script itself cannot end of a batch stays in batches.
func TestSweepsThatScriptsRefuseStayTogether(t *testing.T) {
	n := refusedSweeps(t, 32, 32, func(keys []string) (driver.Value, error) {
		var got []driver.Value
		for range len(keys) / 5 {
			got = append(got, driver.Int(-1))
		}
		return driver.List(got...), nil
	})
	require.LessOrEqual(t, n, int32(40))
}

// Locks whose keys are forbidden keep no other from being ended, and are told apart once.
func TestForbiddenKeysAreSweptApart(t *testing.T) {
	const locks = 8
	for _, claims := range []int{locks, 4 * locks} {
		n := refusedSweeps(t, claims, locks, func([]string) (driver.Value, error) {
			return driver.Value{}, &driver.ReplyError{Text: "NOPERM No permissions to access a key"}
		})
		require.LessOrEqual(t, n, int32(20*locks), "to halve, and by themselves after 100, 300 and 700 ms, all but together")
		require.Greater(t, n, int32(2*locks))
	}
}

// A refusal that passes by itself, as a demoted master's, is asked about again every second at the longest.
func TestSweepsComeSoonAfterARefusalThatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 20 * time.Second
		began := time.Now()
		n, closes := nodeOf(&faults.Stub{
			OnRun: func(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
				if time.Since(began) < lasts {
					return driver.Value{}, &driver.ReplyError{Text: "READONLY You can't write against a read only replica."}
				}
				return driver.List(driver.Int(1)), nil
			},
		})
		defer closes()
		n.hub.Message(wire.InboxPrefix+"c", "17 30000 c:9 0 k")
		time.Sleep(lasts - time.Millisecond)
		require.Equal(t, 1, n.Debug().Sweeping)
		time.Sleep(1100 * time.Millisecond)
		require.Zero(t, n.Debug().Sweeping)
	})
}

// A claim that shares its owner is ended when Redis answers again, however long that takes: others of the owner may have kept
// the lock, and the claim in it. Another's leases are over by then. Of very many none is kept so long.
func TestSharedClaimOutlastsItsLeases(t *testing.T) {
	for _, c := range []struct {
		message             string
		claims, least, most int
	}{
		{"17:1 100 c:%d 3 job%d", 5, 5, 5},
		{"17:1 100 c:%d 0 %d", 5, 0, 0},
		{"17:1 100 c:%d 3 job%d", mostShared + 50, mostShared - sweepBatch, mostShared}, // a batch is given up together
	} {
		synctest.Test(t, func(t *testing.T) {
			var up atomic.Bool
			n, closes := nodeOf(&faults.Stub{
				OnRun: func(_ context.Context, _ *driver.Script, keys, _ []string) (driver.Value, error) {
					if !up.Load() {
						return driver.Value{}, errors.New("down")
					}
					return driver.List(slices.Repeat([]driver.Value{driver.Int(1)}, len(keys)/5)...), nil
				},
			})
			defer closes()
			for i := range c.claims {
				n.hub.Message(wire.InboxPrefix+"c", fmt.Sprintf(c.message, i, i))
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.GreaterOrEqual(t, n.Debug().Sweeping, c.least)
			require.LessOrEqual(t, n.Debug().Sweeping, c.most)
			up.Store(true)
			time.Sleep(1100 * time.Millisecond)
			require.Zero(t, n.Debug().Sweeping)
		})
	}
}

// After an outage, and after the next one, all that waits is ended with the first answer, not by pauses of its own.
func TestSweepsComeWithTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const claims = 1000
		down := true
		n, closes := nodeOf(&faults.Stub{
			OnRun: func(_ context.Context, _ *driver.Script, keys, _ []string) (driver.Value, error) {
				if down {
					return driver.Value{}, errors.New("down")
				}
				time.Sleep(time.Millisecond)
				return driver.List(slices.Repeat([]driver.Value{driver.Int(1)}, len(keys)/5)...), nil
			},
		})
		defer closes()
		for outage := range 2 {
			down = true
			for i := range claims {
				n.hub.Message(wire.InboxPrefix+"c", fmt.Sprintf("17 30000 c:%d 0 k%d", outage*claims+i, i))
				time.Sleep(time.Millisecond)
			}
			time.Sleep(10 * time.Second)
			require.Equal(t, claims, n.Debug().Sweeping)
			down = false
			for n.Debug().Sweeping == claims {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(50 * time.Millisecond)
			require.Zero(t, n.Debug().Sweeping)
			require.False(t, n.sweeper.silent, "each answer would look at all claims")
		}
	})
}

// What is to be ended every 100 µs goes together, and the first of it at once: Redis has a good part of its work per
// command.
func TestSweepsThatFollowEachOtherGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		n, closes := nodeOf(&faults.Stub{
			OnRun: func(_ context.Context, _ *driver.Script, keys, _ []string) (driver.Value, error) {
				at = append(at, time.Since(began))
				var got []driver.Value
				for range len(keys) / 5 {
					got = append(got, driver.Int(1))
				}
				return driver.List(got...), nil
			},
		})
		defer closes()
		for i := range 1000 {
			n.hub.Message(wire.InboxPrefix+"c", fmt.Sprintf("17 30000 c:%d 0 k%d", i, i))
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Zero(t, n.Debug().Sweeping)
		require.Zero(t, at[0], "nothing was sent just before")
		require.LessOrEqual(t, len(at), 110, "one each millisecond")
		require.GreaterOrEqual(t, len(at), 50, "none waits for long")
	})
}

// Locks of a Cluster that are to be ended together do not wait for each other's round trips, though each slot takes a
// command of its own; and however many there are, a bounded number of commands is out.
func TestSweepsOfManySlotsGoTogether(t *testing.T) {
	for _, c := range []struct {
		locks, trips int
		closing      bool
	}{{200, 1, false}, {200, 1, true}, {1000, 4, false}, {1000, 4, true}} {
		synctest.Test(t, func(t *testing.T) {
			const trip = 10 * time.Millisecond
			var mu sync.Mutex
			var out, most, ended int
			var took time.Duration
			began := time.Now()
			n, closes := nodeOf(&faults.Stub{
				Slots: true,
				OnRun: func(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
					mu.Lock()
					out++
					most = max(most, out)
					mu.Unlock()
					time.Sleep(trip)
					mu.Lock()
					defer mu.Unlock()
					out--
					ended++
					took = time.Since(began)
					return driver.List(driver.Int(1)), nil
				},
			})
			n.mode.Store(modeRaceOnly)
			n.sweeper.running = c.closing // then nothing is sent before the end
			taken := make(map[uint16]bool)
			for i := 0; len(taken) < c.locks; i++ {
				if name := fmt.Sprint("k", i); !taken[driver.Slot(name)] {
					taken[driver.Slot(name)] = true
					n.hub.Message(wire.InboxPrefix+"c", fmt.Sprintf("17 30000 c:%d 0 %s", i, name))
				}
			}
			if !c.closing {
				time.Sleep(time.Second)
				require.Zero(t, n.Debug().Sweeping)
			}
			closes()
			require.Equal(t, c.locks, ended)
			require.LessOrEqual(t, took, time.Duration(c.trips)*trip+2*sweepPace)
			require.LessOrEqual(t, most, clusterSweepsOut)
		})
	}
}

// Permits are swept by what they weigh, too.
func TestSweepsArePartedByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		most, ended := 0, 0
		n, closes := nodeOf(&faults.Stub{
			OnRun: func(_ context.Context, _ *driver.Script, _, args []string) (driver.Value, error) {
				width, _ := strconv.Atoi(args[0])
				entries := (len(args) - 1) / width
				mu.Lock()
				defer mu.Unlock()
				most, ended = max(most, entries), ended+entries
				return driver.List(slices.Repeat([]driver.Value{driver.Int(1)}, entries)...), nil
			},
		})
		const all = 50
		names, err := wire.Semaphore.Names("", "k")
		require.NoError(t, err)
		for i := range all {
			c := new(Claim)
			e := entryOf(t, "k", i, time.Minute)
			e.Names, e.Amount = names, 128
			c.Start(n, e, clock.NewSignal())
			c.Enter()
			n.sweeper.sweep(c, false)
		}
		closes()
		require.GreaterOrEqual(t, ended, all)
		require.Equal(t, wire.MaxWeight/128, most)
	})
}
