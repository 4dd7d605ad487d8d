package node

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// However the kinds of a batch lie among each other, each renewal is told what became of its own lease.
func TestRenewalsOfSeveralKindsAreToldApart(t *testing.T) {
	for name, of := range map[string]func(i int) *wire.Kind{
		"one":      func(int) *wire.Kind { return wire.Mutex },
		"by turns": func(i int) *wire.Kind { return []*wire.Kind{wire.Mutex, kindred}[i%2] },
		"halves":   func(i int) *wire.Kind { return []*wire.Kind{wire.Mutex, kindred}[i/250] },
	} {
		t.Run(name, func(t *testing.T) {
			n, closes := nodeOf(&faults.Stub{
				OnRun: func(_ context.Context, _ *driver.Script, keys, args []string) (driver.Value, error) {
					var got []driver.Value
					for i := range keys {
						_, number, _ := strings.Cut(args[3*i], ":")
						nr, err := strconv.Atoi(number)
						if err != nil {
							return driver.Value{}, err
						}
						got = append(got, driver.Int(int64(nr%3%2))) // every third is renewed
					}
					return driver.List(got...), nil
				},
			})
			defer closes()
			batch := make([]wire.Renewal, 500)
			for i := range batch {
				names, err := of(i).Names("", "k"+strconv.Itoa(i))
				require.NoError(t, err)
				e := entryOf(t, "k", i, time.Minute)
				e.Names, e.ID = names, "c:"+strconv.Itoa(i)
				batch[i] = wire.Renewal{Claim: renewed{e}, Lease: time.Minute}
			}
			var mu sync.Mutex
			told := make(map[int]wire.Result)
			n.Renew(t.Context(), batch, func(i int, r wire.Result, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				told[i] = r
			})
			require.Len(t, told, len(batch))
			for i, r := range told {
				want := wire.Lost
				if i%3 == 1 {
					want = wire.Renewed
				}
				require.Equal(t, want, r, i)
			}
		})
	}
}

type renewed struct{ entry *wire.Entry }

func (r renewed) Of() *wire.Entry { return r.entry }

// Permits are renewed by what they weigh: one command has as many as Redis does quickly, and few commands are out at a time. The same
// number of a mutex's leases, whose blocks are tokens, goes as one.
func TestRenewalsArePartedByWeight(t *testing.T) {
	for name, of := range map[string]struct {
		kind             *wire.Kind
		block, amount    int
		leases, commands int
	}{
		"mutexes":           {wire.Mutex, 8192, 0, 200, 1},
		"two of 128":        {wire.Semaphore, 0, 128, 200, 100},
		"five of 50":        {wire.Semaphore, 0, 50, 200, 40},
		"one permit each":   {wire.Semaphore, 0, 1, 200, 1},
		"more than the cap": {wire.Semaphore, 0, wire.MaxWeight + 1, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var commands, out, most, told int
				var mu sync.Mutex
				n, closes := nodeOf(&faults.Stub{
					OnRun: func(_ context.Context, _ *driver.Script, _, args []string) (driver.Value, error) {
						mu.Lock()
						commands, out = commands+1, out+1
						most = max(most, out)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						defer mu.Unlock()
						out--
						return driver.List(slices.Repeat([]driver.Value{driver.Int(1)}, len(args)/3)...), nil
					},
				})
				defer closes()
				batch := make([]wire.Renewal, of.leases)
				for i := range batch {
					names, err := of.kind.Names("", "k")
					require.NoError(t, err)
					e := entryOf(t, "k", i, time.Minute)
					e.Names, e.Block, e.Amount = names, of.block, of.amount
					batch[i] = wire.Renewal{Claim: renewed{e}, Lease: time.Minute}
				}
				n.Renew(t.Context(), batch, func(_ int, r wire.Result, err error) {
					if err != nil || r != wire.Renewed {
						t.Error(r, err)
					}
					mu.Lock()
					defer mu.Unlock()
					told++
				})
				require.Equal(t, of.leases, told)
				require.Equal(t, of.commands, commands)
				require.Equal(t, min(of.commands, renewsAtOnce), most)
			})
		})
	}
}
