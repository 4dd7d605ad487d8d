package link

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The calls of a union go as one command once all its parts have called or left, and each has its own answer. What a
// part calls for after that goes by itself.
func TestUnionGoesAsOneCommand(t *testing.T) {
	h := newHeld()
	l := New(h, time.Minute, nil)
	u := NewUnion(5)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			part := u.Part(t.Context())
			defer part.Leave()
			want := strconv.Itoa(i)
			if i == 2 {
				want = "bad"
			}
			got, err := share(part, l, want, nil)
			if (err != nil) != (i == 2) || err == nil && got != want {
				t.Errorf("%d: %q, %v", i, got, err)
			}
			if again, err := share(part, l, "again", nil); err != nil || again != "again" {
				t.Errorf("%q, %v", again, err)
			}
		})
	}
	require.Eventually(t, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.missing == 1
	}, patience, time.Millisecond)
	require.Empty(t, h.came, "one part has not come yet")
	u.Part(t.Context()).Leave()
	c := within(t, h.came)
	require.True(t, c.many)
	require.Len(t, c.keys, 4)
	require.Empty(t, h.came)
	c.end <- nil
	for range 4 {
		c := within(t, h.came)
		require.False(t, c.many)
		c.end <- nil
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		l.batcher.mu.Lock()
		defer l.batcher.mu.Unlock()
		return l.batcher.out == 0 && l.batcher.inFlight == 0
	}, patience, time.Millisecond, "what a union sends is counted as out, and no longer than that")
	l.Close()
}

// A part that waits for something else does not keep the others, and its own call then goes by itself.
func TestUnionWaitsForNoPartThatWaits(t *testing.T) {
	h := newHeld()
	l := New(h, time.Minute, nil)
	var key int
	for name, waits := range map[string]func(part context.Context){
		"a command": func(part context.Context) {
			_, err := l.Do(part, time.Minute, pair.One, []string{"{k}"}, []string{"other"}, nil)
			if err != nil {
				t.Error(err)
			}
		},
		"a call under a value": func(part context.Context) {
			_, err := share(context.WithValue(part, &key, ""), l, "other", nil)
			if err != nil {
				t.Error(err)
			}
		},
		"a deadline": func(part context.Context) {
			soon, cancel := context.WithTimeout(part, time.Minute)
			defer cancel()
			_, err := share(soon, l, "other", nil)
			if err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := NewUnion(2)
			var wg sync.WaitGroup
			wg.Go(func() {
				if got, err := share(u.Part(t.Context()), l, "call", nil); err != nil || got != "call" {
					t.Errorf("%q, %v", got, err)
				}
			})
			wg.Go(func() {
				part := u.Part(t.Context())
				defer part.Leave()
				waits(part)
				if got, err := share(part, l, "late", nil); err != nil || got != "late" {
					t.Errorf("%q, %v", got, err)
				}
			})
			out := map[string]*sent{}
			for range 2 {
				c := within(t, h.came)
				require.False(t, c.many)
				out[c.args[0]] = c
			}
			require.Contains(t, out, "other")
			out["call"].end <- nil
			out["other"].end <- nil
			c := within(t, h.came)
			require.Equal(t, []string{"late"}, c.args)
			c.end <- nil
			wg.Wait()
		})
	}
	l.Close()
}

// A part that comes late keeps the others for no longer than a command's timeout: their calls may run then, and are
// told as commands whose callers have left.
func TestUnionWaitsForNoPartForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld()
		l := New(h, time.Second, nil)
		u := NewUnion(2)
		late := make(lateAnswers, 1)
		part := u.Part(t.Context())
		began := time.Now()
		_, err := l.Share(part, time.Second, pair, []string{"{k}"}, []string{"early"}, late)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, MayHaveRun(err))
		require.Equal(t, time.Second, time.Since(began))
		u.Part(t.Context()).Leave()
		c := <-h.came
		require.False(t, c.many, "one call needs no script for many")
		c.end <- nil
		require.NoError(t, <-late)
		l.Close()
	})
}
