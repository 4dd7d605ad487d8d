package lua

import (
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
	aloneScripts  = []string{"acquire", "release", "force", "recount", "renew", "refill", "move", "resize", "inspect", "introduce", "whois", "result", "keep", "forget"}
	quorumScripts = []string{"vote", "unvote", "fence", "declare", "force", "recount", "renew"}
	kinds         = []string{"mutex", "read", "write", "semaphore"}
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
	paths, err := fs.Glob(texts, "*.lua")
	require.NoError(t, err)
	all := make(map[string]string)
	for _, path := range paths {
		name := strings.TrimSuffix(path, ".lua")
		text, err := texts.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(text), join(embedded()[name].pieces), name)
		all[name] = string(text)
	}
	return all
}

// join is the text of pieces.
func join(pieces []*piece) string {
	var text strings.Builder
	for _, p := range pieces {
		text.WriteString(p.text)
	}
	return text.String()
}

// needs are the words that a text names in its header.
func needs(text string, quorum bool) []string { return parse(text).needs[quorum] }

// Whatever is run holds all that it needs, each once and before what needs it, and nothing else.
func TestTextsAreWhole(t *testing.T) {
	used := map[string]bool{"sweep": true, "many": true, "gather": true}
	for _, kind := range kinds {
		for _, topology := range topologies {
			if topology.quorum && !quorumKinds[kind] {
				continue
			}
			s := Scripts{Kind: kind, Quorum: topology.quorum, Retention: 2 * time.Second, Longest: 3 * time.Second}
			for _, name := range topology.scripts {
				before, body := halves(t, s, name)
				requireOrder(t, before+body, name, s, used)
				text, err := s.Text(name)
				require.NoError(t, err)
				requirePruned(t, before, body, text)
			}
			requireMany(t, s, topology.swept, used)
			if !topology.quorum {
				text, err := s.Gather("acquire")
				require.NoError(t, err)
				require.True(t, strings.HasSuffix(text, "local function one()\n"+every(t)["rights"]+every(t)["acquire"]+"end\n"+every(t)["gather"]))
			}
			text, err := s.Sweep(topology.swept)
			require.NoError(t, err)
			own, loop := every(t)[topology.swept], every(t)["sweep"]
			require.NotContains(t, text, "local function quick(", "a sweep does not call it")
			require.True(t, strings.HasPrefix(text, "local KEYS, ARGV = KEYS, ARGV\n"))
			require.True(t, strings.HasSuffix(text, "local function one()\n"+own+"end\n"+loop))
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(every(t))), slices.Collect(maps.Keys(used)), "files that nothing needs")
}

// requireMany holds what runs a script for many entries: what refuses a lock is asked for each.
func requireMany(t *testing.T, s Scripts, swept string, used map[string]bool) {
	t.Helper()
	all := every(t)
	for script, first := range map[string]string{swept: "", "acquire": all["rights"], "vote": all["rights"]} {
		text, err := s.Many(script)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(text, "local KEYS, ARGV = KEYS, ARGV\n"))
		require.True(t, strings.HasSuffix(text, "local function one()\n"+first+all[script]+"end\n"+all["many"]), script)
		require.Equal(t, min(1, len(first)), strings.Count(text, all["rights"]), script)
		together := s.Kind + "_" + script + "_many"
		if all[together] == "" {
			together = "nomany"
		}
		used[together] = true
		for _, name := range []string{"survey", "quick"} {
			require.Equal(t, 1, strings.Count(text, "\nlocal function "+name+"("), "%s of %s", name, script)
		}
		require.Contains(t, text, all[together], script)
	}
}

// halves returns all that stands before a script, and the script behind the short text that its kind has for it.
func halves(t *testing.T, s Scripts, name string) (before, body string) {
	t.Helper()
	l := s.linker(name)
	if short := s.Kind + "_" + name; l.find(short) != nil {
		body = join(l.load(short))
	}
	body += join(l.load(name))
	require.NoError(t, l.err)
	return join(l.before), body
}

// requireOrder looks for the parts of a text in the order in which they must stand.
func requireOrder(t *testing.T, text, name string, s Scripts, used map[string]bool) {
	t.Helper()
	texts := every(t)
	want := 0
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
	used := strings.FieldsFunc(comment.ReplaceAllString(code, ""), apart)
	return slices.ContainsFunc(parse(line).pieces[0].defines, func(name string) bool { return slices.Contains(used, name) })
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
	switch word {
	case "kind":
		return kind
	case "together":
		return "nomany"
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
	require.EqualError(t, err, `lua: no file "kind.lua" for the kind of lock ""`)
}

func TestWhatCannotBePutTogetherIsAnError(t *testing.T) {
	_, err := Scripts{Kind: "mutex"}.Text("borrow")
	require.EqualError(t, err, `lua: no file "borrow.lua" for the kind of lock "mutex"`)
	_, err = Scripts{Kind: "mutex"}.Sweep("borrow")
	require.EqualError(t, err, `lua: no file "borrow.lua" for the kind of lock "mutex"`)
	_, err = Scripts{Kind: "latch"}.Text("release")
	require.EqualError(t, err, `lua: no file "kind.lua" for the kind of lock "latch"`)
}
