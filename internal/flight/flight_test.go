package flight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// lead enters a flight that the caller leads.
func lead(t *testing.T, fs *Flights) *Flight {
	f, err := fs.Enter(t.Context(), "k", nil)
	require.NoError(t, err)
	require.False(t, f.Found)
	return f
}

// lands is what a leader hears of its latest question.
func (f *Flight) lands(result string) {
	f.Result, f.Found = result, result != ""
	f.Land()
}

// Those that came before the latest question take its answer. Those that came later share the next question, also the ones that
// wake up after that has landed.
func TestAnAnswerIsForThoseThatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fs Flights
		var wg sync.WaitGroup
		var led, got atomic.Int32
		enter := func(want string) {
			for range 10 {
				wg.Go(func() {
					f, err := fs.Enter(t.Context(), "k", nil)
					if err != nil {
						t.Error(err)
					} else if !f.Found {
						led.Add(1)
						f.Asks()
						f.lands("second")
					} else if got.Add(1); f.Result != want {
						t.Errorf("%q", f.Result)
					}
				})
			}
			synctest.Wait()
		}
		f := lead(t, &fs)
		f.Asks()
		enter("first")
		f.Asks()
		enter("second")
		f.lands("first")
		wg.Wait()
		require.EqualValues(t, 1, led.Load())
		require.EqualValues(t, 19, got.Load())
		require.Empty(t, fs.all)
	})
}

// A flight that brings nothing, or lands for nothing, has one of those that wait begin the next.
func TestTheNextOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fs Flights
		leads := make(chan *Flight)
		for range 3 {
			go func() {
				f, _ := fs.Enter(t.Context(), "k", nil)
				leads <- f
			}()
		}
		f := nextOf(t, leads)
		for range 2 {
			synctest.Wait()
			f.Asks()
			f.lands("")
			next := nextOf(t, leads)
			f.Land() // again, which is nothing
			f = next
		}
		f.Land()
		require.Empty(t, fs.all)
	})
}

func nextOf(t *testing.T, leads <-chan *Flight) *Flight {
	synctest.Wait()
	f := <-leads
	require.False(t, f.Found)
	return f
}

// A caller leaves with its context, or when all are to leave. Names do not wait for one another.
func TestCallersLeave(t *testing.T) {
	var fs Flights
	f := lead(t, &fs)
	defer f.Land()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err := fs.Enter(ctx, "k", nil)
	require.ErrorIs(t, err, gone)
	over := make(chan struct{})
	close(over)
	_, err = fs.Enter(t.Context(), "k", over)
	require.ErrorIs(t, err, ErrOver)
	other, err := fs.Enter(t.Context(), "other", nil)
	require.NoError(t, err)
	require.False(t, other.Found)
	other.Land()
}
