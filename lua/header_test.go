package lua

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	documented = regexp.MustCompile(`(?m)^-- (KEYS|ARGV)\[([\w-]+)\]`)
	returns    = regexp.MustCompile(`(?m)^-- Returns `)
	placed     = regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`)
	title      = regexp.MustCompile(`^-- (\w+): `)
	behind     = strings.NewReplacer("keys[k + ", "KEYS[", "args[a + ", "ARGV[") // those of one entry among many
	ofHash     = regexp.MustCompile(`redis\.p?call\(['"]\w+['"], KEYS\[1\]`)
)

// hashFiles may read and write the lock itself: kinds of lock with what they share, and their short texts.
var hashFiles = append([]string{
	"hash", "held", "permits", "permits_entry", "permits_held", "permits_number", "permits_told", "rw", "rw_alive", "rw_line", "rw_grant", "mutex_acquire", "mutex_vote", "mutex_unvote", "mutex_acquire_many", "mutex_release_many",
}, kinds...)

// Each script opens with its keys, arguments and answer, and uses just those.
func TestHeadersAreTrue(t *testing.T) {
	texts := every(t)
	for file, text := range texts {
		header, body := cutHeader(text)
		require.Equal(t, "-- "+file+": ", title.FindString(header), file)
		require.Regexp(t, returns, header, file)
		lines, most := strings.Count(text, "\n"), 60
		if strings.HasSuffix(file, "_many") { // two functions
			most = 100
		} else if slices.Contains(hashFiles, file) {
			most = 95
		} else if strings.Contains(text, "\n-- below: ") { // two halves
			most = 75
		}
		require.LessOrEqual(t, lines, most, file)
		require.GreaterOrEqual(t, lines, 8, file)
		if !slices.Contains(hashFiles, file) {
			require.NotRegexp(t, ofHash, body, "%s names the lock's hash", file)
		}
		inHeader, inBody := places(documented, header), places(placed, behind.Replace(body))
		switch {
		case file == "sweep" || file == "many": // as many as another script takes, for each acquisition
			require.Equal(t, map[string]bool{"KEYS[n]": true, "ARGV[1]": true, "ARGV[n]": true}, inHeader)
		case file == "gather": // which says how before
			require.Equal(t, map[string]bool{"KEYS[n]": true, "ARGV[1]": true, "ARGV[2]": true, "ARGV[n]": true}, inHeader)
		case file == "renew": // any number of entries, three arguments each
			want := map[string]bool{"ARGV[3n-2]": true, "ARGV[3n-1]": true, "ARGV[3n]": true, "KEYS[n]": true}
			require.Equal(t, want, inHeader, file)
		default:
			requirePlaces(t, texts, file, inHeader, inBody)
		}
	}
}

// requirePlaces holds the places of a header against those of the body, and keys against what stands before it too.
func requirePlaces(t *testing.T, texts map[string]string, file string, inHeader, inBody map[string]bool) {
	t.Helper()
	for place := range inBody {
		require.Contains(t, inHeader, place, "%s uses it", file)
	}
	before := make(map[string]bool)
	for _, topology := range topologies {
		for needed := range closure(texts, file, Scripts{Kind: kinds[0], Quorum: topology.quorum}) {
			_, body := cutHeader(texts[needed])
			for place := range places(placed, body) {
				before[place] = true
			}
		}
	}
	_, body := cutHeader(texts[file])
	for place := range inHeader {
		elsewhere := strings.HasPrefix(place, "KEYS") && before[place] ||
			strings.HasPrefix(place, "ARGV") && strings.Contains(body, "unpack(ARGV")
		require.True(t, inBody[place] || elsewhere, "%s says %s but does not use it", file, place)
	}
}

func places(re *regexp.Regexp, text string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		found[m[1]+"["+m[2]+"]"] = true
	}
	return found
}

// cutHeader parts the comment that a file opens with from the rest.
func cutHeader(text string) (header, body string) {
	lines := strings.SplitAfter(text, "\n")
	end := slices.IndexFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "--") })
	if end < 0 {
		return text, ""
	}
	return strings.Join(lines[:end], ""), strings.Join(lines[end:], "")
}
