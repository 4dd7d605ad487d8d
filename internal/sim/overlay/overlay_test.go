package overlay

import (
	"maps"
	oldrand "math/rand"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/sim/overlay/patch"
	"github.com/stretchr/testify/require"
)

const (
	seeds = 5
	plays = 20
)

// TestRunsRepeat demands one run a seed where the overlay is, and counts them where it is not.
func TestRunsRepeat(t *testing.T) {
	times := plays
	if !Active() {
		times = 2
		if long() {
			times = plays
		}
	}
	play(t, 0) // first uses
	all := map[string]bool{}
	for seed := range uint64(seeds) {
		hashes := map[string]bool{}
		for range times {
			hashes[play(t, seed)] = true
		}
		t.Logf("seed %d: %d different runs in %d: %.100v", seed, len(hashes), times, slices.Sorted(maps.Keys(hashes)))
		if Active() {
			require.Len(t, hashes, 1, "seed %d", seed)
		}
		maps.Copy(all, hashes)
	}
	require.GreaterOrEqual(t, len(all), seeds, "seeds differ")
}

// TestOutsideDoesNotDisturb plays while goroutines outside of the bubble wake, draw and allocate.
func TestOutsideDoesNotDisturb(t *testing.T) {
	if !Active() {
		t.Skip("without the overlay nothing repeats")
	}
	play(t, 0)
	alone := play(t, 1)
	stop := make(chan struct{})
	var outside sync.WaitGroup
	defer outside.Wait()
	defer close(stop)
	for range 8 {
		outside.Go(func() {
			for tick := time.Tick(50 * time.Microsecond); ; {
				select {
				case <-stop:
					return
				case <-tick:
					runtime.SetFinalizer(&[64]int{rand.Int()}, func(*[64]int) {})
				}
			}
		})
	}
	for range plays {
		require.Equal(t, alone, play(t, 1))
	}
}

// TestSeedInABubble seeds a bubble that runs already.
func TestSeedInABubble(t *testing.T) {
	draw := func() (drawn []int) {
		synctest.Test(t, func(*testing.T) {
			rand.Int()
			Seed(7)
			drawn = append(drawn, rand.Int(), oldrand.Int(), rand.Perm(100)[0])
		})
		return drawn
	}
	if Active() {
		require.Equal(t, draw(), draw())
	} else {
		require.NotEqual(t, draw(), draw(), "Seed does nothing")
	}
}

// TestOverlaidRunsRepeat runs this package's tests with the overlay in several processes.
func TestOverlaidRunsRepeat(t *testing.T) {
	if !long() || Active() {
		t.Skip("builds the standard library: with RELOCK_LONG=1 only")
	}
	binary := build(t)
	printed := regexp.MustCompile(`seed \d+: 1 different .*`)
	var first []string
	for process := range 5 {
		out, err := exec.Command(binary, "-test.v").CombinedOutput()
		require.NoError(t, err, "%s", out)
		lines := printed.FindAllString(string(out), -1)
		require.Len(t, lines, seeds, "%s", out)
		if process == 0 {
			first = lines
		}
		require.Equal(t, first, lines, "process %d", process)
	}
}

func long() bool { return os.Getenv("RELOCK_LONG") == "1" }

// build returns the tests of this package, built with the overlay.
func build(t *testing.T) string {
	root, version, err := patch.Installed()
	require.NoError(t, err)
	flags, err := patch.Write(root, version, t.TempDir())
	require.NoError(t, err)
	binary := filepath.Join(t.TempDir(), "overlaid.test")
	out, err := exec.Command("go", append(append([]string{"test", "-c", "-o", binary}, flags...), ".")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}
