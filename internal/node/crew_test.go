package node

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCrewStartsNoneOnceEnded(t *testing.T) {
	for range 200 {
		var c Crew
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for c.Start(func() {}) {
				}
			})
		}
		c.End()
		wg.Wait()
		require.False(t, c.Start(func() { t.Error("started") }))
	}
}
