package relock

import (
	"context"
	_ "embed"
	"strings"

	"github.com/relock-go/relock/internal/wire"
)

//go:embed testdata/pair/pair.lua
var pairHooks string

// Pairs is a kind of lock that two may hold. It is a toy: nothing but this file and its Lua knows of it, so what it can do
// every kind can. The simulation builds this file into the library, by the overlay that it is built with: so what its judge
// needs is exported.
var Pairs = wire.Add(&wire.Kind{
	Name: "pair", Hooks: pairHooks, Holders: 2, Acquires: 12, Releases: 12,
	Queue: "relock_pairs:", Line: "relock_pair_line:", Counter: "relock_pair_token:", Further: []string{"relock_pair:{}:[]"},
	Channel: &wire.Channel{
		Unlock: "relock_pair_free:", Listen: "relock_pair_listen:", Frees: func(message string) bool { return message == "free" },
	},
	Read: func(st *wire.State, fields []string) {
		for i := 0; i+1 < len(fields); i += 2 {
			if !strings.HasPrefix(fields[i], "relock:") {
				st.Held, st.Holder, st.Count = true, fields[i], st.Count+1
			}
		}
	},
})

// Pair is a lock of that kind, of which a lease takes so much.
type Pair struct{ lock }

func (c *Client) Pair(name string, amount int, opts ...Option) *Pair {
	p := &Pair{newLock(c.core, Pairs, name, opts)}
	p.amount = max(1, amount)
	return p
}

func (p *Pair) Lock(ctx context.Context) (*Lease, error) {
	return p.acquire(ctx, waiting)
}

func (p *Pair) TryLock(ctx context.Context) (*Lease, error) {
	return p.acquire(ctx, trying)
}

func (p *Pair) State(ctx context.Context) (State, error) { return p.inspect(ctx) }

func (p *Pair) ForceUnlock(ctx context.Context) (bool, error) { return p.force(ctx) }
