package relocktest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/stretchr/testify/require"
)

// deaf is a Handler.
type deaf struct{}

func (deaf) Subscribed(string)      {}
func (deaf) Message(string, string) {}
func (deaf) Impaired(error)         {}

// A command that was under way when the wire was cut may have run; one that comes later was surely not sent.
func TestWhatACutWireSays(t *testing.T) {
	ctx, script := t.Context(), driver.NewScript("return 1")
	var w *wire
	cut := func() {}
	stub := &faults.Stub{
		OnRun: func(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
			cut()
			return driver.Int(1), nil
		},
		OnDo: func(context.Context, []string) (driver.Value, error) {
			cut()
			return driver.Int(1), nil
		},
		OnListen: func(context.Context) error { cut(); return nil },
		OnSub:    func(context.Context, string) error { cut(); return nil },
	}
	calls := map[string]func() error{
		"Run": func() error { _, err := w.Run(ctx, script, nil, nil); return err },
		"Do":  func() error { _, err := w.Do(ctx, []string{"PING"}); return err },
		"Listen": func() error {
			l, err := w.Listen(ctx, deaf{})
			if err == nil {
				l.Close()
			}
			return err
		},
		"Subscribe": func() error {
			then := cut
			cut = func() {}
			l, err := w.Listen(ctx, deaf{})
			cut = then
			if err != nil {
				return err
			}
			defer l.Close()
			return errors.Join(l.Subscribe(ctx, "a"), errors.Join(l.SubscribeApart(ctx, "a", "b")...), l.Unsubscribe(ctx, "a"))
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			w = newWire(stub)
			cut = func() {}
			require.NoError(t, call())
			cut = w.cut
			err := call()
			require.Error(t, err)
			require.Equal(t, name == "Listen", errors.Is(err, driver.ErrUnsent), "%v", err)
			cut = func() {}
			require.ErrorIs(t, call(), driver.ErrUnsent)
			w.mend()
			require.NoError(t, call())
			w.Close(ctx)
		})
	}
}

// A subscriber is told once that its connection was lost, whether the wire was cut or the server dropped it.
func TestSubscribersAreDropped(t *testing.T) {
	gone := errors.New("gone")
	for name, drop := range map[string]func(*wire, *faults.Stub) error{
		"cut":     func(w *wire, _ *faults.Stub) error { w.cut(); w.cut(); return errBroken },
		"dropped": func(_ *wire, s *faults.Stub) error { s.Drop(gone); return gone },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stub := &faults.Stub{}
				w := newWire(stub)
				l, err := w.Listen(t.Context(), deaf{})
				require.NoError(t, err)
				require.NoError(t, l.Subscribe(t.Context(), "a"))
				require.Equal(t, 1, stub.Publish("a", "hello"))
				why := drop(w, stub)
				require.ErrorIs(t, <-l.Dropped(), why)
				require.Zero(t, stub.Publish("a", "hello"), "nothing stays subscribed")
				synctest.Wait()
				require.Empty(t, l.Dropped())
				l.Close()
				w.Close(t.Context())
				_, err = w.Listen(t.Context(), deaf{})
				require.Error(t, err)
			})
		})
	}
}
