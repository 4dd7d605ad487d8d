package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// What may become of a question, or of a release.
var (
	answered   error
	errRefused = fmt.Errorf("acquire: %w", &driver.ReplyError{Text: "WRONGTYPE Operation against a key"})
	errUnheard = fmt.Errorf("acquire: %w", context.DeadlineExceeded)
	reset      = &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	left       = &link.Left{Cause: fmt.Errorf("the other lock: %w", driver.ErrUnsent)}
	errNotSent = fmt.Errorf("%w: %w", driver.ErrUnsent, &link.Left{Cause: context.Canceled})
	errNoDial  = fmt.Errorf("acquire: %w", driver.Unsent(errors.New("connection refused")))
)

// step is something that happens to a claim.
type step func(c *Claim)

func noted(err error) step    { return func(c *Claim) { c.Noted(err) } }
func late(err error) step     { return func(c *Claim) { c.Late(err) } }
func ending(out bool) step    { return func(c *Claim) { c.Ending(out) } }
func ended(open bool) step    { return func(c *Claim) { c.End(open) } }
func granted(c *Claim)        { c.node.hub.Message(wire.InboxPrefix+"c", "17 1000 c:1 0 k") }
func releasing(c *Claim)      { c.Ear().Releasing() }
func forgotten(c *Claim)      { c.Forget() }
func released(err error) step { return func(c *Claim) { c.Released(err) } }

// sweeping is how a claim is to be ended in the background.
type sweeping int

const (
	not    sweeping = iota
	atOnce          // Redis may keep it
	soon            // a release was answered, or a question is out whose answer may come and end the matter
)

// sweepOf is how the node's sweeper, which does not run, is to end a claim.
func sweepOf(c *Claim) sweeping {
	s := c.node.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.all[targetOf(c)]
	switch {
	case w == nil:
		return not
	case w.Due == clock.Now():
		return atOnce
	case w.Due == clock.Now().Add(sweepGrace):
		return soon
	}
	panic("swept at another time")
}

func TestEndOfAClaim(t *testing.T) {
	for _, r := range []struct {
		what  string
		steps []step
		want  sweeping
	}{
		{"never asked", []step{ended(true)}, not},
		{"never asked, released", []step{ended(false)}, not},
		{"asked", []step{noted(answered), ended(true)}, atOnce},
		{"asked and released", []step{noted(answered), ended(false)}, not},
		{"errRefused by Redis", []step{noted(errRefused), ended(true)}, atOnce},
		{"left to its lease", []step{noted(answered), forgotten}, not},

		{"not heard", []step{noted(errUnheard), ended(true)}, soon},
		{"not heard, released", []step{noted(errUnheard), ended(false)}, soon},
		{"the caller left", []step{noted(left), ended(true)}, soon},
		{"connection lost", []step{noted(reset), ended(true)}, soon},
		{"not sent", []step{noted(errNotSent), ended(true)}, not},
		{"not sent, released", []step{noted(errNotSent), ended(false)}, not},
		{"no connection", []step{noted(errNoDial), ended(true)}, not},
		{"no connection, released", []step{noted(errNoDial), ended(false)}, not},
		{"one answered, one not heard", []step{noted(answered), noted(errUnheard), ended(true)}, soon},
		{"one answered, one not heard, released", []step{noted(answered), noted(errUnheard), ended(false)}, soon},
		{"one not heard, one not sent", []step{noted(errUnheard), noted(errNotSent), ended(true)}, soon},
		{"one answered, one not sent, released", []step{noted(answered), noted(errNotSent), ended(false)}, not},

		{"answered late", []step{noted(errUnheard), late(answered), ended(true)}, atOnce},
		{"answered late, released after", []step{noted(errUnheard), late(answered), ended(false)}, not},
		{"answered late, and noted then", []step{late(answered), noted(errUnheard), ended(true)}, atOnce},
		{"never ran, as came late", []step{noted(errUnheard), late(errNoDial), ended(true)}, not},
		{"never ran, as came before", []step{late(errNotSent), noted(errUnheard), ended(true)}, not},
		{"never ran, released", []step{noted(errUnheard), late(errNoDial), ended(false)}, not},
		{"not heard for good", []step{noted(errUnheard), late(reset), ended(true)}, soon},
		{"not heard for good, released", []step{noted(errUnheard), late(reset), ended(false)}, soon},
		{"two out, one answered late", []step{noted(errUnheard), noted(errUnheard), late(answered), ended(false)}, soon},
		{"two out, both answered late", []step{
			noted(errUnheard), noted(errUnheard), late(answered), late(answered), ended(false),
		}, not},
		{"two out, neither ran", []step{noted(errUnheard), noted(errUnheard), late(errNoDial), late(errNotSent), ended(true)}, not},

		{"a question out when it was to end", []step{ending(true), ended(true)}, atOnce},
		{"a question out, released", []step{ending(true), ended(false)}, not},
		{"none out when it was to end", []step{ending(false), ended(true)}, not},
		{"answered while the release was out", []step{ending(true), noted(answered), ended(false)}, atOnce},
		{"errRefused while the release was out", []step{ending(true), noted(errRefused), ended(false)}, atOnce},
		{"not heard while the release was out", []step{ending(false), noted(errUnheard), ended(false)}, soon},
		{"not sent while the release was out", []step{ending(false), noted(errNotSent), ended(false)}, not},
		{"no connection while the release was out", []step{ending(false), noted(errNoDial), ended(true)}, not},
		{"it counted as out and was not sent", []step{ending(true), noted(errNotSent), ended(false)}, not},
		{"came late while the release was out", []step{noted(errUnheard), ending(true), late(answered), ended(false)}, atOnce},
		{"never ran, told while the release was out", []step{noted(errUnheard), ending(true), late(errNoDial), ended(false)}, not},

		{"answered after the end", []step{ending(true), ended(false), noted(answered)}, atOnce},
		{"not heard after the end", []step{ending(true), ended(false), noted(errUnheard)}, soon},
		{"not sent after the end", []step{ending(true), ended(false), noted(errNotSent)}, not},
		{"no connection after the end", []step{ending(true), ended(false), noted(errNoDial)}, not},
		{"answered late after the end", []step{noted(errUnheard), ended(false), late(answered)}, atOnce},
		{"never ran, told after the end", []step{noted(errUnheard), ended(true), late(errNoDial)}, not},
		{"never ran, told after the release", []step{noted(errUnheard), ended(false), late(errNotSent)}, not},
		{"not heard for good, told after the end", []step{noted(errUnheard), ended(true), late(reset)}, soon},
		{"never ran, but it was queued before", []step{noted(answered), noted(errUnheard), ended(true), late(errNoDial)}, atOnce},

		{"released", []step{noted(answered), releasing, released(nil)}, not},
		{"not heard unlocking", []step{noted(answered), releasing, released(errUnheard)}, atOnce},
		{"not sent unlocking", []step{noted(answered), releasing, released(errNotSent)}, atOnce},
		{"errRefused unlocking", []step{noted(answered), releasing, released(errRefused)}, atOnce},
		{"nothing to unlock", []step{noted(errNotSent), releasing, released(errNotSent)}, not},
		{"released, granted while that was out", []step{noted(answered), releasing, granted, released(nil)}, atOnce},
		{"released, granted before that was out", []step{noted(answered), granted, releasing, released(nil)}, not},
		{"unlocked beside a question", []step{noted(answered), noted(errUnheard), releasing, released(nil)}, soon},
	} {
		for _, votes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, votes %t", r.what, votes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n, closes := nodeOf(&faults.Stub{}, func(c *Config) { c.Votes = votes })
					defer closes()
					n.sweeper.running = true // nothing is sent, and so nothing settled
					c := claimOf(t, n, "k", 1, time.Second)
					for _, step := range r.steps {
						step(c)
					}
					require.Equal(t, r.want, sweepOf(c))
				})
			})
		}
	}
}

// A grant that names another lock than its entry waits for is ended there, and that is not the entry's end.
func TestGrantOfAnotherLockIsEndedThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, closes := nodeOf(&faults.Stub{})
		defer closes()
		n.sweeper.running = true
		c := claimOf(t, n, "{k}", 1, time.Second)
		c.Noted(nil)
		granted(c) // k
		given, _ := c.Ear().Heard()
		require.Zero(t, given)
		require.Equal(t, not, sweepOf(c))
		require.Equal(t, 1, n.Debug().Sweeping)
		c.End(true)
		require.Equal(t, atOnce, sweepOf(c))
		require.Equal(t, 2, n.Debug().Sweeping)
	})
}

// The answer of a question whose caller has left may come at any moment of the end: whatever comes after the release
// was sent is undone.
func TestLateAnswerDuringTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *Claim
		ran := 0
		n, closes := nodeOf(&faults.Stub{
			OnRun: func(_ context.Context, _ *driver.Script, keys, _ []string) (driver.Value, error) {
				if ran++; ran == 1 {
					c.Late(nil) // a late copy ran behind the release, and its answer came before the release's
					return driver.List(driver.Int(1)), nil
				}
				return driver.List(driver.Int(1)), nil
			},
		})
		defer closes()
		c = claimOf(t, n, "k", 1, time.Second)
		c.Noted(nil)
		c.Noted(errUnheard)
		held, _, err := c.Release(t.Context(), nil)
		require.NoError(t, err)
		require.True(t, held)
		c.Released(nil)
		synctest.Wait()
		require.Equal(t, 2, ran, "the release, and one for what came late")
		require.Zero(t, n.Debug().Sweeping)
	})
}
