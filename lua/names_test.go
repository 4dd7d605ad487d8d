package lua

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	function = regexp.MustCompile(`(?ms)^local function (\w+)\(.*?^end\n`)
	comment  = regexp.MustCompile(`--[^\n]*`)
	quoted   = regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"`)
	name     = regexp.MustCompile(`[A-Za-z_]\w*`)
	defined  = regexp.MustCompile(`(?m)^local (?:function )?(\w+(?:, \w+)*)`)
	local    = regexp.MustCompile(`\blocal (?:function )?(\w+(?:, \w+)*)`)
	params   = regexp.MustCompile(`\bfunction ?\w*\(([\w, ]*)\)`)
	keyed    = regexp.MustCompile(`[{,] (\w+) = `)
	counter  = regexp.MustCompile(`\bfor (\w+(?:, \w+)*) (?:in|=)`)
)

// language is what Lua and Redis define.
var language = strings.Fields(`and break do else elseif end false for function if in local nil not or repeat return then
	true until while KEYS ARGV error ipairs math pcall redis setmetatable string table tonumber type unpack`)

// given is what is defined before a file without being a file: sweep, many and gather wrap what they run.
var given = map[string][]string{"retention": {"retention"}, "longest": {"longest"}, "sweep": {"one"}, "many": {"one"},
	"gather": {"one"}}

// together are the files that a kind has for many entries of a script at once.
func together(texts map[string]string) (files []string) {
	for file := range texts {
		if strings.HasSuffix(file, "_many") {
			files = append(files, file)
		}
	}
	return files
}

// What a kind has for many entries defines what it would have by default.
func TestWhatIsDoneTogetherIsDefined(t *testing.T) {
	texts := every(t)
	require.NotEmpty(t, together(texts))
	for _, file := range together(texts) {
		require.ElementsMatch(t, names(function, texts["nomany"]), names(function, texts[file]), file)
	}
}

// A file uses what it defines, and what the files that it names define. It names none that it uses nothing of.
func TestNeedsAreExact(t *testing.T) {
	texts := every(t)
	for _, kind := range kinds {
		for _, topology := range topologies {
			if topology.quorum && !quorumKinds[kind] {
				continue
			}
			s := Scripts{Kind: kind, Quorum: topology.quorum}
			for _, script := range slices.Concat([]string{"sweep", "many", "gather", topology.swept}, topology.scripts, together(texts)) {
				for file := range closure(texts, script, s) {
					requireNames(t, texts, file, kind, needs(texts[file], s.Quorum), s.Quorum)
				}
			}
		}
	}
}

func requireNames(t *testing.T, texts map[string]string, file, kind string, needed []string, quorum bool) {
	t.Helper()
	code := bare(texts[file])
	known := append(names(local, code), names(params, code)...)
	known = append(known, names(counter, code)...)
	known = append(known, names(keyed, code)...)
	known = append(known, language...)
	known = append(known, given[file]...)
	used := uses(code)
	for _, need := range needed {
		require.False(t, slices.Contains(kinds, need), "%s works for %s alone", file, need)
		offered := offers(texts, named(need, kind), quorum)
		known = append(known, offered...)
		runs := need == "rights" || need == "refuse" // they refuse the lock, and define nothing
		helps := slices.ContainsFunc(offered, func(name string) bool { return slices.Contains(used, name) })
		hooks := slices.Contains(kinds, file) // for scripts to call
		require.True(t, helps || runs || hooks, "%s needs %s and uses nothing of it", file, need)
	}
	for _, name := range used {
		inOther := !slices.Contains(known, name)
		require.False(t, inOther, "%s uses %s, which nothing that it needs defines", file, name)
	}
}

// offers are the names that a file defines for others. A kind has hooks from the files that it shares with other kinds.
func offers(texts map[string]string, file string, quorum bool) []string {
	if setting, ok := given[file]; ok {
		return setting
	}
	all := names(defined, bare(texts[file]))
	if slices.Contains(kinds, file) {
		for _, shared := range needs(texts[file], quorum) {
			all = append(all, offers(texts, shared, quorum)...)
		}
	}
	return all
}

// No file defines a function that no other file calls, nor names something else as a function that stands before it.
func TestFunctionsAreCalledAndNotHidden(t *testing.T) {
	texts := every(t)
	called := make(map[string]int)
	for _, text := range texts {
		for _, name := range uses(bare(text)) {
			called[name]++
		}
	}
	for file, text := range texts {
		code := bare(text)
		for _, name := range names(function, code) {
			inside := strings.Count(code, name+"(") + strings.Count(code, "= "+name+"\n") + strings.Count(code, "("+name+",")
			require.True(t, called[name] > 1 || inside > 1, "%s of %s is never called", name, file)
		}
		mine := append(names(local, code), names(params, code)...)
		mine = append(mine, names(counter, code)...)
		for _, topology := range topologies {
			s := Scripts{Kind: kinds[0], Quorum: topology.quorum}
			for before := range closure(texts, file, s) {
				own := slices.Contains(kinds, file) && slices.Contains(needs(text, s.Quorum), before)
				if before == file || own { // a kind may have a hook of its own in the place of a shared one
					continue
				}
				for _, name := range names(function, bare(texts[before])) {
					require.NotContains(t, mine, name, "%s hides %s of %s", file, name, before)
				}
			}
		}
	}
}

// bare is a text without comments and strings.
func bare(text string) string {
	return quoted.ReplaceAllString(comment.ReplaceAllString(text, ""), "''")
}

// names are those in the first group of each match, parted by commas.
func names(re *regexp.Regexp, code string) (found []string) {
	for _, match := range re.FindAllStringSubmatch(code, -1) {
		for name := range strings.SplitSeq(match[1], ",") {
			found = append(found, strings.TrimSpace(name))
		}
	}
	return found
}

// uses are the names in code that are no fields of something.
func uses(code string) (found []string) {
	for _, at := range name.FindAllStringIndex(code, -1) {
		before := code[:at[0]]
		field := strings.HasSuffix(before, ".") && !strings.HasSuffix(before, "..")
		if name := code[at[0]:at[1]]; !field && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found
}
