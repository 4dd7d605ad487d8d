package world

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
)

// overtakers show the judge a command that takes a waiter off the queue, and gives the lock to another.
type overtakers struct {
	Mutexes
	answer driver.Value // of that command
}

func (k overtakers) Round(a *Actor, _ *rand.Rand) {
	w, lease := a.w, a.w.plan.Lease
	h := a.Acquire(w.ctx, Try{Name: w.plan.Names[0], Lease: lease, Opts: []relock.Option{relock.WithLease(lease)}})
	defer a.Release(w.ctx, h, false)
	a.Sleep(lease / 10) // the inbox is heard since
	w.mu.Lock()
	defer w.mu.Unlock()
	n, client := w.nodes[0], h.proc.client.ID()
	n.ask("ZADD", w.form.queueOf("other"), "7", "1000:1:"+client+":90")
	c := &command{op: "many", lock: "other", args: scriptCall("EVALSHA", "", []string{"other"}, []string{"1", client + ":91"})}
	w.glimpse.looks(n, c)
	n.ask("DEL", w.form.queueOf("other"))
	n.ask("HSET", "other", client+":91", "1", grantedAs, "70:1")
	w.grants(n, c, k.answer)
	n.ask("DEL", "other")
}

// A waiter is passed over by a command for many that fails at the one who served the queue; by none that does all it was
// asked for.
func TestOrderWhereACommandFailsInPart(t *testing.T) {
	refused := driver.Error(&driver.ReplyError{Text: "NOPERM this user has no permissions to run the 'pubsub|numsub' command"})
	for name, tc := range map[string]struct {
		answer driver.Value
		judged bool
	}{
		"all is done":          {driver.List(driver.String("70:1"), driver.Int(1)), true},
		"one entry is refused": {driver.List(refused, driver.String("70:1")), false},
		"one is not ended":     {driver.List(driver.Int(-1), driver.Int(1)), false},
	} {
		t.Run(name, func(t *testing.T) {
			plan := Draw(1, "none", alone.Name)
			plan.lasts(plan.Lease)
			plan.Procs, plan.Actors, plan.Rounds, plan.JVMs, plan.Throng, plan.Names = 1, 1, 1, 0, 0, plan.Names[:1]
			res := perform(t, plan, Options{Kind: overtakers{answer: tc.answer}})
			if !tc.judged {
				require.Empty(t, res.Violation, res.Trace)
				return
			}
			require.Contains(t, res.Violation, "grants the lock to")
		})
	}
}
