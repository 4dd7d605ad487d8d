package driver

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// scripted answers what it is told to, and confirms subscriptions.
type scripted struct {
	Redis
	err      error
	confirms bool
}

func (s *scripted) Run(context.Context, *Script, []string, []string) (Value, error) {
	return Value{}, s.err
}

func (s *scripted) Do(_ context.Context, commands ...[]string) ([]Value, error) {
	if s.err != nil {
		return nil, s.err
	}
	return make([]Value, len(commands)), nil
}

func (s *scripted) Listen(context.Context, Handler) (Listener, error) {
	return scriptedListener{s: s}, s.err
}

func (s *scripted) Follow(_ context.Context, h Handler, channels ...string) error {
	for _, channel := range channels {
		if s.confirms {
			h.Subscribed(channel)
		}
	}
	return s.err
}

type scriptedListener struct {
	Listener
	s *scripted
}

func (l scriptedListener) Subscribe(context.Context, ...string) error { return l.s.err }

func (l scriptedListener) SubscribeApart(_ context.Context, channels ...string) []error {
	errs := make([]error, len(channels))
	errs[0] = l.s.err
	return errs
}

func (l scriptedListener) Unsubscribe(context.Context, ...string) error { return l.s.err }

type deafHandler struct{ Handler }

func (deafHandler) Subscribed(string) {}

func TestCommandsAreCountedByWhatBecameOfThem(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want [3]uint64 // of one command
	}{
		"answered":   {nil, [3]uint64{1, 0, 0}},
		"refused":    {&ReplyError{Text: "ERR"}, [3]uint64{0, 1, 0}},
		"unanswered": {errors.New("gone"), [3]uint64{0, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var counts Counts
			inner := &scripted{}
			r, ctx := counts.Counted(inner), t.Context()
			of := func(o Op) (got [3]uint64) {
				got[0], got[1], got[2] = counts.Of(o)
				return got
			}
			l, err := r.Listen(ctx, nil)
			require.NoError(t, err)
			inner.err = c.err

			s := NewScript("return 1")
			s.For = Renew
			_, err = r.Run(ctx, s, nil, nil)
			require.Equal(t, c.err, err)
			require.Equal(t, c.want, of(Renew))
			_, err = r.Do(ctx, []string{"TIME"}, []string{"INFO"})
			require.Equal(t, c.err, err)
			require.Equal(t, [3]uint64{2 * c.want[0], 2 * c.want[1], 2 * c.want[2]}, of(Check))

			require.Equal(t, c.err, l.Subscribe(ctx, "a", "b"))
			require.Equal(t, c.want, of(Subscribe), "one command for all channels")
			require.Equal(t, c.err, l.Unsubscribe(ctx, "a"))
			require.Equal(t, c.err, r.Follow(ctx, deafHandler{}, "a", "b"))
			require.Equal(t, [3]uint64{3 * c.want[0], 3 * c.want[1], 3 * c.want[2]}, of(Subscribe))
			require.Len(t, l.SubscribeApart(ctx, "a", "b"), 2)
			got := of(Subscribe)
			require.EqualValues(t, 5, got[0]+got[1]+got[2])

			inner.confirms = true
			before := of(Subscribe)
			require.Equal(t, c.err, r.Follow(ctx, deafHandler{}, "a", "b"))
			before[0]++
			require.Equal(t, before, of(Subscribe), "it was confirmed, once, whatever ended it")
		})
	}
}

func TestOpsHaveNames(t *testing.T) {
	names := map[string]bool{}
	for o := range Op(Ops) {
		require.NotEmpty(t, o.String())
		names[o.String()] = true
	}
	require.Len(t, names, Ops)
}
