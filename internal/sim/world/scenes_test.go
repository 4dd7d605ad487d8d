package world

import (
	"crypto/sha256"
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
	var sum tally
	if *digested {
		sum.digest = sha256.New()
	}
	for _, s := range Scenes {
		if *scene != "" && *scene != s.Name {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			began, n := time.Now(), 3
			if *seeds > 0 {
				n = *seeds
			}
			o, done := options(), 0
			o.Class = s.Name
			for i := 0; *lasting > 0 && time.Since(began) < *lasting || *lasting == 0 && i < n; i++ {
				done++
				if !sum.run(t, *from+uint64(i), o) && !*keep {
					break
				}
			}
			t.Logf("seeds %d to %d: %d seeds, in %v", *from, *from+uint64(done)-1, done, time.Since(began))
		})
	}
}
