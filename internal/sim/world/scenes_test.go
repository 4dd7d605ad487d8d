package world

import (
	"flag"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/sim/overlay"
)

var scene = flag.String("scene", "", "of TestScenes the only one")

// TestScenes runs some seeds of each scene, or for as long as -lasting says.
func TestScenes(t *testing.T) {
	chooses(t)
	defer overlay.Alone()()
	for _, s := range Scenes {
		if *scene != "" && *scene != s.Name {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			began, n := time.Now(), 3
			if *seeds > 0 {
				n = *seeds
			}
			done := 0
			for i := 0; *lasting > 0 && time.Since(began) < *lasting || *lasting == 0 && i < n; i++ {
				done++
				if !s.holds(t, *from+uint64(i)) && !*keep {
					break
				}
			}
			t.Logf("seeds %d to %d: %d seeds, in %v", *from, *from+uint64(done)-1, done, time.Since(began))
		})
	}
}

// holds runs a seed, and reports whether nothing was amiss.
func (s Scene) holds(t *testing.T, seed uint64) bool {
	play := func(o Options) (res *Result) {
		overlay.Run(seed, func() { res = s.Play(t, seed, o) })
		return res
	}
	o := options()
	res := play(o)
	if res.Violation == "" {
		return true
	}
	tell(t, res, o, play)
	return false
}
