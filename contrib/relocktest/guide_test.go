package relocktest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The code that the guide shows is the sample's, which is compiled and run.
func TestTheGuideShowsTheSample(t *testing.T) {
	guide, err := os.ReadFile("../../docs/testing.md")
	require.NoError(t, err)
	files, err := filepath.Glob("example/*.go")
	require.NoError(t, err)
	var sample string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		sample += flat(string(text))
	}
	quotes := strings.Split(string(guide), "```go\n")[1:]
	require.GreaterOrEqual(t, len(quotes), 8)
	for _, quote := range quotes {
		code, _, _ := strings.Cut(quote, "```\n")
		require.Contains(t, sample, flat(code))
	}
}

// flat is code without its indentation, which a quote of a function's body has less of.
func flat(code string) string {
	var lines strings.Builder
	for line := range strings.Lines(code) {
		lines.WriteString(strings.TrimLeft(line, "\t"))
	}
	return lines.String()
}

// The sample's tests cover all the trouble there is.
func TestTheSampleUsesAllTheKit(t *testing.T) {
	sample, err := os.ReadFile("example/payouts_test.go")
	require.NoError(t, err)
	for _, name := range []string{"New", "Beside", "Hold", "Lose", "Want", "RedisDown", "RedisUp", "Crash"} {
		require.Contains(t, string(sample), "relocktest."+name+"(")
	}
}
