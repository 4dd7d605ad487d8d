package world

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// topUps have a hold passed to a caller who asks for a fixed lease while its Redis loads, until that caller rests for a tenth
// of a lease between two tries to lengthen it. Then Redis answers, and another process asks for the lock.
type topUps struct {
	Mutexes
	tries *int
}

func (k topUps) Round(a *Actor, _ *rand.Rand) {
	w, name, lease := a.w, a.w.plan.Names[0], a.w.plan.Lease
	t := Try{Name: name, Lease: lease, Opts: []relock.Option{relock.WithLease(lease)}}
	t.handsOff(usualPasses, lease)
	s := w.nodes[0].server
	asked := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.ran[work{"recount", name}]
	}
	loads := func(loading bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		s.SetLoading(loading)
	}
	if a.place == 1 {
		for asked() < 5 && w.ctx.Err() == nil {
			a.Sleep(time.Millisecond)
		}
		*k.tries = asked()
		loads(false)
		t.Once = true
		for range 10 {
			if h := a.Acquire(w.ctx, t); h != nil {
				a.Release(w.ctx, h, false)
			}
			a.Sleep(lease / 100)
		}
		return
	}
	h := a.Acquire(w.ctx, t)
	a.Go(func() {
		t.fixes(lease)
		if in := a.Acquire(w.ctx, t); in != nil {
			a.Release(w.ctx, in, false)
		}
	})
	a.Sleep(lease / 100)
	loads(true)
	a.Release(w.ctx, h, false)
}

// A hold is not idle while a caller fills up the fixed lease that it is handed, however rarely it asks for that.
func TestHoldThatIsFilledIsNotIdle(t *testing.T) {
	plan, tries := Draw(1, "none", guarded.Name), 0
	plan.lasts(3 * time.Second)
	plan.Fresh = false
	plan.Class, plan.Procs, plan.Actors, plan.Rounds, plan.JVMs, plan.Throng, plan.Names = "refusals", 2, 1, 1, 0, 0, plan.Names[:1]
	res := perform(t, plan, Options{Kind: topUps{tries: &tries}})
	require.Empty(t, res.Violation, res.Trace)
	require.Equal(t, 5, tries)
}
