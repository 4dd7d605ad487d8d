package relock

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	documented = regexp.MustCompile(`(?m)^-- (KEYS|ARGV)\[([\w-]+)\]`)
	returns    = regexp.MustCompile(`(?m)^-- Returns `)
	used       = regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`)
)

// Each script opens with its keys, arguments and answer, and uses just those.
func TestScriptHeadersAreTrue(t *testing.T) {
	files, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	require.Len(t, files, 19)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		header, body, found := cutHeader(string(text))
		require.True(t, found, "%s has no header", file)
		require.True(t, strings.HasPrefix(header, "-- "+strings.TrimSuffix(filepath.Base(file), ".lua")+": "), file)
		require.Regexp(t, returns, header, file)
		inHeader, inBody := places(documented, header), places(used, body)
		if filepath.Base(file) == "sweep.lua" { // as many as another script takes, for each acquisition
			require.Equal(t, map[string]bool{"KEYS[n]": true, "ARGV[1]": true, "ARGV[n]": true}, inHeader)
			continue
		}
		if strings.Contains(body, "ipairs(KEYS)") { // any number of keys, three arguments each
			want := map[string]bool{"ARGV[3n-2]": true, "ARGV[3n-1]": true, "ARGV[3n]": true, "KEYS[n]": true}
			require.Equal(t, want, inHeader, file)
			continue
		}
		for place := range inBody {
			require.Contains(t, inHeader, place, "%s uses it", file)
		}
		for place := range inHeader {
			elsewhere := strings.HasPrefix(place, "KEYS") && usesPrelude(file) ||
				strings.HasPrefix(place, "ARGV") && strings.Contains(body, "unpack(ARGV")
			require.True(t, inBody[place] || elsewhere, "%s says %s but does not use it", file, place)
		}
		require.LessOrEqual(t, strings.Count(string(text), "\n"), 60, file)
		require.GreaterOrEqual(t, strings.Count(string(text), "\n"), 10, file)
	}
}

// usesPrelude reports whether grant.lua, which uses all of the lock's keys, stands before the file.
func usesPrelude(file string) bool {
	switch filepath.Base(file) {
	case "acquire.lua", "release.lua", "force.lua", "vote.lua", "unvote.lua", "fence.lua":
		return true
	}
	return false
}

func cutHeader(text string) (header, body string, found bool) {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "--") {
			return strings.Join(lines[:i], ""), strings.Join(lines[i:], ""), i > 0
		}
	}
	return text, "", false
}

func places(re *regexp.Regexp, text string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		found[m[1]+"["+m[2]+"]"] = true
	}
	return found
}
