package crew

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNoneStartsOnceEnded(t *testing.T) {
	for range 200 {
		var c Crew
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for c.Start(func() {}) {
				}
			})
		}
		c.End(context.Background())
		wg.Wait()
		require.False(t, c.Start(func() { t.Error("started") }))
		require.True(t, c.Ended())
	}
}

func TestEndAndWaitAreBounded(t *testing.T) {
	for name, wait := range map[string]func(*Crew, context.Context){"end": (*Crew).End, "wait": (*Crew).Wait} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c Crew
				wait(&c, t.Context()) // returns at once
				c.Join()
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				wait(&c, ctx)
				require.Equal(t, time.Second, time.Since(began))
				require.True(t, c.Awaited())
				go func() {
					time.Sleep(time.Second)
					c.Leave()
				}()
				wait(&c, context.Background())
				require.Equal(t, 2*time.Second, time.Since(began))
				require.False(t, c.Awaited())
				require.Equal(t, name == "wait", c.Start(func() {}))
				wait(&c, context.Background())
			})
		})
	}
}

// Several may end a crew at once, and all of them return.
func TestTwoEnds(t *testing.T) {
	var c Crew
	leave := make(chan struct{})
	require.True(t, c.Start(func() { <-leave }))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.End(ended)
	require.Equal(t, 1, c.Out())
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { c.End(context.Background()) })
	}
	close(leave)
	both.Wait()
	require.Zero(t, c.Out())
}
