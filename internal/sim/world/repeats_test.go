//go:build simoverlay

package world

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A seed runs in a process of its own as it does as one of many: what a batch found shows again.
func TestASeedRepeats(t *testing.T) {
	repeats := func(first, count int, flags ...string) {
		together := traces(t, append(flags, "-from="+strconv.Itoa(first), "-seeds="+strconv.Itoa(count))...)
		require.Len(t, together, count)
		for seed := range together {
			alone := traces(t, append(flags, "-from="+seed, "-seeds=1")...)
			require.Equal(t, together[seed], alone[seed], "seed %s %v", seed, flags)
		}
	}
	repeats(1, 16)
	for _, server := range []string{"6", "8", "valkey"} {
		repeats(1022, 2, "-redis="+server)
	}
	for _, scene := range []string{"readers", "languages", "forgetful"} {
		repeats(1, 2, "-kind="+scene)
	}
}

// traces runs seeds in a process of their own, and returns the digest of each one's trace.
func traces(t *testing.T, flags ...string) map[string]string {
	out, err := exec.Command(os.Args[0], append(flags, "-test.run=^TestSimulation$", "-test.v", "-digest")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	found := map[string]string{}
	for _, line := range regexp.MustCompile(`seed (\d+) has the trace ([0-9a-f]+)`).FindAllSubmatch(out, -1) {
		found[string(line[1])] = string(line[2])
	}
	require.NotEmpty(t, found, "%s", out)
	return found
}
