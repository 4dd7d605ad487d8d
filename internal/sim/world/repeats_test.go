//go:build simoverlay

package world

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// A seed repeats exactly in a process of its own.
func TestASeedRepeats(t *testing.T) {
	for _, seed := range []int{4, 7, 11, 13, 16, 19, 33} { // what clients say of themselves, idle holds, digits of ids
		traces := func() string {
			alone := exec.Command(os.Args[0], "-test.run=^TestSimulation$", "-test.v", fmt.Sprint("-from=", seed), "-seeds=1", "-digest")
			out, err := alone.CombinedOutput()
			require.NoError(t, err, "%s", out)
			found := regexp.MustCompile(`traces ([0-9a-f]+)`).FindSubmatch(out)
			require.NotNil(t, found, "%s", out)
			return string(found[1])
		}
		require.Equal(t, traces(), traces(), "seed %d", seed)
	}
}
