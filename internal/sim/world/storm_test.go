package world

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// banned asks for locks that it may not have, and then says nothing while the keys of all of them are forbidden.
type banned struct {
	Mutexes
	sent *int
}

func (k banned) Round(a *Actor, _ *rand.Rand) {
	w, lease := a.w, a.w.plan.Lease
	s := w.nodes[0].server
	ruled := func(words ...string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.forbade = true
		w.nodes[0].refuses(time.Hour)
		rule(s, words...)
	}
	ruled("-evalsha")
	for _, name := range w.plan.Names {
		a.Acquire(w.ctx, Try{Name: name, Lease: lease, Once: true, Opts: []relock.Option{relock.WithLease(lease)}})
	}
	ruled("+evalsha", "resetkeys", "~relock_*", "~redisson_*")
	a.Sleep(time.Second)
	*k.sent = w.commands(w.procs[0])
	ruled("allkeys")
}

// Many locks that are forbidden together are swept by themselves, each a few times in a second: that is no storm.
func TestForbiddenLocksAreNoStorm(t *testing.T) {
	const locks = 60
	plan, sent := Draw(1, "none", guarded.Name), 0
	plan.lasts(10 * time.Second)
	plan.Fresh = false
	plan.Class, plan.Procs, plan.Actors, plan.Rounds, plan.JVMs, plan.Throng, plan.Names = "refusals", 1, 1, 1, 0, 0, nil
	for i := range locks {
		plan.Names = append(plan.Names, "forbidden-"+strconv.Itoa(i))
	}
	res := perform(t, plan, Options{Kind: banned{sent: &sent}})
	require.Empty(t, res.Violation, res.Trace)
	require.Greater(t, sent, 2*locks)
	require.Less(t, sent, 7*locks, "to tell them apart, and by themselves after 100, 300 and 700 ms")
}
