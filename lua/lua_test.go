package lua

import (
	"errors"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is run: on a Redis that decides alone, and on a node of a quorum. Sweeping runs another script.
var (
	aloneScripts  = []string{"acquire", "release", "force", "recount", "renew", "refill", "inspect", "introduce", "whois"}
	quorumScripts = []string{"vote", "unvote", "fence", "declare", "force", "recount", "renew"}
	kinds         = []string{"mutex"}
	quorumKinds   = map[string]bool{"mutex": true} // have the hooks of a quorum too
)

var topologies = []struct {
	name    string
	quorum  bool
	scripts []string
	swept   string
}{
	{"alone", false, aloneScripts, "release"},
	{"quorum", true, quorumScripts, "unvote"},
}

// every returns the texts of all files.
func every(t *testing.T) map[string]string {
	t.Helper()
	paths, err := fs.Glob(files, "*.lua")
	require.NoError(t, err)
	texts := make(map[string]string)
	for _, path := range paths {
		name := strings.TrimSuffix(path, ".lua")
		own, err := embedded().read(name)
		require.NoError(t, err)
		texts[name] = join(own.pieces)
	}
	return texts
}

// Whatever is run holds all that it needs, each once and before what needs it, and nothing else.
func TestTextsAreWhole(t *testing.T) {
	used := map[string]bool{"sweep": true, "many": true}
	for _, kind := range kinds {
		for _, topology := range topologies {
			if topology.quorum && !quorumKinds[kind] {
				continue
			}
			s := Scripts{Kind: kind, Quorum: topology.quorum, Retention: 2 * time.Second, Longest: 3 * time.Second}
			for _, name := range topology.scripts {
				before, body := parts(t, s, name)
				requireOrder(t, before+body, name, s, used)
				text, err := s.Text(name)
				require.NoError(t, err)
				requirePruned(t, before, body, text)
			}
			requireMany(t, s, topology.swept, used)
			text, err := s.Sweep(topology.swept)
			require.NoError(t, err)
			own, loop := every(t)[topology.swept], every(t)["sweep"]
			require.True(t, strings.HasPrefix(text, "local KEYS, ARGV = KEYS, ARGV\n"))
			require.True(t, strings.HasSuffix(text, "local function one()\n"+own+"end\n"+loop))
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(every(t))), slices.Collect(maps.Keys(used)), "files that nothing needs")
}

// requireMany holds what runs a script for many entries: what refuses a lock is asked for each.
func requireMany(t *testing.T, s Scripts, swept string, used map[string]bool) {
	t.Helper()
	texts := every(t)
	for script, first := range map[string]string{swept: "", "acquire": texts["rights"], "vote": texts["rights"]} {
		text, err := s.Many(script)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(text, "local KEYS, ARGV = KEYS, ARGV\n"))
		require.True(t, strings.HasSuffix(text, "local function one()\n"+first+texts[script]+"end\n"+texts["many"]), script)
		require.Equal(t, min(1, len(first)), strings.Count(text, texts["rights"]), script)
		survey, own := "local function survey() end\n", s.Kind+"_"+script+"_many"
		if texts[own] != "" {
			survey, used[own] = indexed(texts[own]), true
		}
		require.Equal(t, 1, strings.Count(text, survey), script)
	}
}

// parts returns all that stands before a script, and the script behind the short text that its kind has for it.
func parts(t *testing.T, s Scripts, name string) (before, body string) {
	t.Helper()
	l := s.loader()
	short, err := l.short(name)
	require.NoError(t, err)
	if short != nil {
		short = append(slices.Clip(short), piece{text: shortEnds})
	}
	own, err := l.enter(name)
	require.NoError(t, err)
	return join(l.gathered), join(short, own)
}

// requireOrder looks for the parts of a text in the order in which they must stand.
func requireOrder(t *testing.T, text, name string, s Scripts, used map[string]bool) {
	t.Helper()
	texts := every(t)
	want := 0
	if texts[s.Kind+"_"+name] != "" {
		want = len(shortEnds)
	}
	for file := range closure(texts, name, s) {
		switch file {
		case "retention":
			want += len("local retention = 2000\n")
			require.Equal(t, 1, strings.Count(text, "local retention = 2000\n"), name)
			continue
		case "longest":
			want += len("local longest = 3000\n")
			require.Equal(t, 1, strings.Count(text, "local longest = 3000\n"), name)
			continue
		}
		used[file] = true
		want += len(texts[file])
		require.Equal(t, 1, strings.Count(text, texts[file]), "%s in %s", file, name)
		for _, word := range needs(texts[file], s.Quorum) {
			before := texts[named(word, s.Kind)]
			require.Less(t, strings.Index(text, before), max(1, strings.Index(text, texts[file])), "%s needs %s", file, word)
		}
	}
	require.Len(t, text, want, name)
}

// requirePruned compares what stands before a script with what is left of it: some functions are gone, and nobody calls
// them. Each of the others stands before it is called, and behind the line that parts the script where only that calls it.
func requirePruned(t *testing.T, before, body, text string) {
	t.Helper()
	used := uses(bare(text))
	head, _, parted := strings.Cut(text, "\n-- below: ")
	early := uses(bare(head))
	for _, fn := range function.FindAllStringSubmatch(before, -1) {
		require.Equal(t, slices.Contains(used, fn[1]), strings.Contains(text, fn[0]), fn[1])
		require.Equal(t, parted && slices.Contains(early, fn[1]), parted && strings.Contains(head, fn[0]), fn[1])
		if at := strings.Index(text, fn[0]); at >= 0 {
			require.NotContains(t, uses(bare(text[:at])), fn[1])
		}
	}
	left := text
	for _, fn := range function.FindAllString(before, -1) {
		left = strings.Replace(left, fn, "", 1)
	}
	rest := function.ReplaceAllString(before, "")
	for _, line := range constants.FindAllString(rest, -1) {
		require.Equal(t, mentioned(line, strings.Replace(text, line, "", 1)), strings.Contains(text, line), line)
		rest, left = strings.Replace(rest, line, "", 1), strings.Replace(left, line, "", 1)
	}
	require.Equal(t, rest+body, left)
}

// constants are lines that define what is no function.
var constants = regexp.MustCompile(`(?m)^local [A-Za-z_]+(, \w+)*( = ('[^']*'|[\w.]+|math\..*))?( --.*)?\n`)

// mentioned reports whether code uses a name that a line defines.
func mentioned(line, code string) bool {
	words := strings.FieldsFunc(comment.ReplaceAllString(code, ""), parted)
	return slices.ContainsFunc(defines(line), func(name string) bool { return slices.Contains(words, name) })
}

// closure is a file and all that it needs.
func closure(texts map[string]string, file string, s Scripts) map[string]bool {
	all := map[string]bool{file: true}
	if short := s.Kind + "_" + file; texts[short] != "" {
		maps.Copy(all, closure(texts, short, s))
	}
	for _, word := range needs(texts[file], s.Quorum) {
		maps.Copy(all, closure(texts, named(word, s.Kind), s))
	}
	return all
}

// named is the file that a word stands for.
func named(word, kind string) string {
	if word == "kind" {
		return kind
	}
	return word
}

// What asks nothing of the kind does not carry its hooks.
func TestHooksStandWhereTheyAreNeeded(t *testing.T) {
	for _, name := range []string{"introduce", "whois"} {
		text, err := Scripts{}.Text(name)
		require.NoError(t, err)
		require.Equal(t, every(t)[name], text)
	}
	_, err := Scripts{}.Text("acquire")
	require.EqualError(t, err, "lua: no kind of lock is named (acquire > rights)")
}

func TestWhatCannotBePutTogetherIsAnError(t *testing.T) {
	_, err := Scripts{Kind: "mutex"}.Text("borrow")
	require.EqualError(t, err, `lua: no file "borrow.lua" (borrow)`)
	_, err = Scripts{Kind: "mutex"}.Sweep("borrow")
	require.EqualError(t, err, `lua: no file "borrow.lua" (borrow)`)
	_, err = Scripts{Kind: "latch"}.Text("release")
	require.EqualError(t, err, `lua: no file "latch.lua" (release > latch)`)

	_, err = Scripts{}.Complete("-- needs: paper\nreturn 1\n")
	require.EqualError(t, err, `lua: no file "paper.lua" (paper)`)
	text, err := Scripts{Retention: time.Second}.Complete("-- needs: retention lease\nreturn retention\n")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "local retention = 1000\n"))
	require.NotContains(t, text, "local function keep")

	texts := map[string]string{"a": "-- a: \n-- needs: b kind\n", "b": "-- b: \n-- alone: c\n", "c": "-- c: \n-- needs: b\n"}
	load := func(file string, s Scripts) error {
		l := loader{scripts: s, done: make(map[string]bool), read: func(file string) (*source, error) {
			if text, ok := texts[file]; ok {
				return embedded().parse(text), nil
			}
			return nil, errors.New("none")
		}}
		_, err := l.enter(file)
		return err
	}
	require.EqualError(t, load("a", Scripts{Kind: "c"}), "lua: b needs itself: a > b > c > b")
	require.NoError(t, load("a", Scripts{Kind: "c", Quorum: true}))
}
