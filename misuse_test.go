package relock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// hollow is a client that somebody forgot to make.
type hollow struct{ rueidis.Client }

// Misuse is told, by name; nothing panics and nothing is left locked.
func TestMisuseIsTold(t *testing.T) {
	var none context.Context
	ctx := context.Background()
	_, err := New((*hollow)(nil))
	require.ErrorIs(t, err, ErrInvalidOption)
	rdb := ownRedis(t)
	_, err = NewRedlock([]rueidis.Client{rdb, (*hollow)(nil)})
	require.ErrorIs(t, err, ErrInvalidOption)
	c := newClient(t, rdb)
	m := c.Mutex("k")

	calls := map[string]func(*Mutex, context.Context) error{
		"Lock":        func(m *Mutex, ctx context.Context) error { _, err := m.Lock(ctx); return err },
		"TryLock":     func(m *Mutex, ctx context.Context) error { _, err := m.TryLock(ctx); return err },
		"Held":        func(m *Mutex, ctx context.Context) error { _, err := m.Held(ctx); return err },
		"State":       func(m *Mutex, ctx context.Context) error { _, err := m.State(ctx); return err },
		"ForceUnlock": func(m *Mutex, ctx context.Context) error { _, err := m.ForceUnlock(ctx); return err },
		"Do": func(m *Mutex, ctx context.Context) error {
			return m.Do(ctx, func(context.Context) error { return errors.New("it ran") })
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, call(m, none), ErrMisuse)
			require.ErrorContains(t, call(m, none), "the context is nil")
			for _, zero := range []*Mutex{nil, {}} {
				require.EqualError(t, call(zero, ctx), "relock: misuse: Mutex made without a Client; use Client.Mutex")
				require.Empty(t, zero.Name())
			}
			for _, zero := range []*Client{nil, {}} {
				require.EqualError(t, call(zero.Mutex("k"), ctx), "relock: misuse: Client made without New or NewRedlock")
			}
		})
	}
	require.ErrorIs(t, m.Do(ctx, nil), ErrMisuse)
	require.ErrorIs(t, calls["Lock"](m, Detach(none)), ErrMisuse)
	require.ErrorIs(t, calls["TryLock"](m, WithOwner(none, "x")), ErrMisuse)
	require.ErrorIs(t, calls["Lock"](m, WithOwner(Detach(none), "x")), ErrMisuse)
	require.ErrorIs(t, calls["TryLock"](m, Detach(WithOwner(none, "x"))), ErrMisuse)
	require.ErrorIs(t, c.Initialize(none), ErrMisuse)
	for _, zero := range []*Client{nil, {}} {
		zero.Close()
		require.ErrorIs(t, zero.Initialize(ctx), ErrMisuse)
	}
	for _, zero := range []*Lease{nil, {}} {
		require.ErrorIs(t, zero.Unlock(ctx), ErrNotHeld)
		require.ErrorIs(t, zero.Extend(ctx, time.Second), ErrNotHeld)
		require.ErrorIs(t, context.Cause(zero.Context()), ErrNotHeld)
		require.Zero(t, zero.Token())
		require.Zero(t, zero.Count())
		require.True(t, zero.Until().IsZero())
		require.Empty(t, zero.Name())
	}

	l, err := m.Lock(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, l.Extend(none, time.Minute), ErrMisuse)
	require.NoError(t, l.Unlock(none), "it unlocks")
	l, err = m.TryLock(ctx)
	require.NoError(t, err, "nothing of all that holds the lock")
	require.NoError(t, l.Unlock(ctx))
}

func TestUnusableOwners(t *testing.T) {
	m := newClient(t, ownRedis(t)).Mutex("k")
	for _, id := range []string{"", strings.Repeat("o", 257), "relock:vote"} {
		ctx := WithOwner(context.Background(), id)
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, ErrInvalidOwner)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, ErrInvalidOwner)
		l, err := m.Lock(Detach(ctx))
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
	}
}

// The end of a hold that WithMaxHold capped is told apart from a loss, and matches it.
func TestMaxHoldIsToldApart(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		m := c.Mutex("k", WithMaxHold(time.Minute))
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		require.Equal(t, ErrMaxHold, context.Cause(l.Context()))
		require.ErrorIs(t, ErrMaxHold, ErrLost)
		require.Equal(t, ErrMaxHold, l.Unlock(t.Context()))
		require.Equal(t, ErrMaxHold, l.Extend(t.Context(), time.Second))

		s.answer = func(claim.Renewal) wire.Result { return wire.Unanswered }
		l, err = m.Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		require.Equal(t, ErrLost, context.Cause(l.Context()), "its renewals went unanswered first")
		synctest.Wait()
	})
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		l, err := c.Mutex("k", WithMaxHold(time.Minute), WithFixedLease(20*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		require.Equal(t, ErrLost, context.Cause(l.Context()), "the fixed lease was over first")
	})
}

// What a function under the lock returns of its context's end is not said twice.
func TestDoTellsOfALossOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		m := c.Mutex("k", WithMaxHold(time.Minute))
		for _, own := range []error{nil, errors.New("own")} {
			err := m.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return errors.Join(own, context.Cause(ctx))
			})
			require.ErrorIs(t, err, ErrMaxHold)
			require.Equal(t, 1, strings.Count(err.Error(), "lock lost"), err.Error())
		}
		err := m.Do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, ErrMaxHold)
		require.ErrorIs(t, err, context.Canceled)
	})
}
