package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// shortCase is a lock as a script finds it, and what the script is told.
type shortCase struct {
	made    []string // the command that made what stands there
	counter string
	stays   []string // how long the counter does, nothing for ever
	told    []string // behind the first three
	full    bool
	many    int    // asked for by a script for many: by itself, or with a lock beside it that is held; 0 for a script for one
	vote    string // when the node was noticed, of a quorum; another for one that was restarted since; else ''
}

// left runs a script, told args behind its keys, and returns what it answers and what it leaves.
func (sc shortCase) left(text string, args ...string) (said string, keys []driver.Value) {
	s := atOneInstant("short")
	c := s.Open("", "", nil, nil)
	if sc.vote != "" {
		mark := []string{"HSET", "relock_incarnation", "run", s.runID, "born", sc.vote, "longest", "3000"}
		if sc.vote == "another" {
			mark[3], mark[5] = sc.vote, "0"
		}
		s.Exec(c, mark)
		s.Exec(c, []string{"SET", "relock_seed:{k}", "1795331000000"})
	}
	if len(sc.made) > 0 {
		s.Exec(c, sc.made)
	}
	if sc.counter != "" {
		sc.counter = strings.TrimPrefix(sc.counter, "empty")
		s.Exec(c, append([]string{"SET", "redisson_lock_token:{k}", sc.counter}, sc.stays...))
	}
	s.Exec(c, []string{"HSET", "held", "z:1", "1"})
	s.SetFull(sc.full)
	answer := s.Exec(c, sc.command(text, append(args, sc.told...)))
	if answers, err := answer.Values(); err == nil && sc.many > 0 {
		answer = answers[0]
		if n, err := answer.Int64(); err == nil {
			answer = driver.List(driver.Int(n))
		} else if text, err := answer.Text(); err == nil { // a grant in one word
			first, count, _ := strings.Cut(text, ":")
			answer = driver.List(driver.Int(1), driver.String(first), driver.String(count))
		}
	}
	if err := answer.Err(); err != nil {
		said, _, _ = strings.Cut(strings.ReplaceAll(err.Error(), "ERR ", ""), " script: ") // many puts one ERR less before it
	} else {
		parts, _ := answer.Values()
		for _, part := range parts {
			text, _ := part.Text()
			if n, err := part.Int64(); err == nil {
				text = strconv.FormatInt(n, 10)
			}
			said += text + " "
		}
	}
	for _, ask := range []string{
		"GET redisson_lock_token:{k}", "HGETALL k", "ZRANGE relock_queue:{k} 0 -1 WITHSCORES", "GET relock_seed:{k}", "HGETALL relock_incarnation",
	} {
		keys = append(keys, s.Exec(c, strings.Fields(ask)))
	}
	for _, key := range []string{"k", "relock_queue:{k}", "redisson_lock_token:{k}", "relock_seed:{k}"} {
		keys = append(keys, s.Exec(c, []string{"PTTL", key}))
	}
	return said, keys
}

// command runs a script for the lock k.
func (sc shortCase) command(text string, args []string) []string {
	var keys, all []string
	for _, name := range []string{"k", "held"}[:max(1, sc.many)] {
		keys = append(keys, name)
		for _, prefix := range []string{"relock_queue:", "redisson_lock_token:", "redisson_lock__channel:", "relock_seed:"} {
			keys = append(keys, prefix+"{"+name+"}")
		}
		all = append(all, args...)
	}
	if sc.many > 0 {
		all = append([]string{strconv.Itoa(sc.many)}, all...)
	}
	return slices.Concat([]string{"EVAL", text, strconv.Itoa(len(keys))}, keys, all)
}

// atOneInstant returns a server whose clock stands still.
func atOneInstant(name string) *Server {
	return NewServer(Options{Name: name, Clock: NewClock(func() time.Time { return time.UnixMicro(1795331819046123) })})
}

// shortApart returns the text of a script, and the same without the mutex's short text for the most frequent case.
func shortApart(t *testing.T, s lua.Scripts, name string) (whole, without string) {
	t.Helper()
	s.Kind = "mutex"
	whole, err := s.Text(name)
	require.NoError(t, err)
	before, behind, _ := strings.Cut(whole, "-- mutex_"+name+": ")
	_, behind, found := strings.Cut(behind, "-- below: all other cases\n")
	require.True(t, found)
	return whole, before + behind
}

// countersFound are fencing counters as a script may find them.
var countersFound = []string{
	"", "5", "007", "-5", "1.5", "abc", " 7", "1e3", "1795331819046122", "1795331819046123", "1795331819046999", "1795331819545866",
	"1795331819545867", "1795331819545868", "1795331819645868", "9007199254740735", "9007199254740736", "9007199254740991",
	"9007199254741000", "99999999999999999999999999", "9007199254740959", "9007199254740960", "empty",
}

// stays are how long a counter does: for ever, or for some hours.
var stays = [][]string{nil, {"PX", "9000000"}}

// TestShortVotesSayTheSame compares vote and unvote likewise, with and without the restart guard. The answer to a vote for an
// idle lock is shorter: what it leaves out is what the voter said.
func TestShortVotesSayTheSame(t *testing.T) {
	made := [][]string{
		{}, {"HSET", "k", "c:9", "1"}, {"HSET", "k", "c:1", "1", "relock:first", "5:256"}, {"SET", "k", "v"},
		{"ZADD", "relock_queue:{k}", "1", "100000:256:d:1:"},
	}
	const reached, far, near = "1795331819046999", "1795331819546124", "1795331819046999"
	told := map[string][][]string{
		"vote": {
			{"77", "wait"}, {"77", "try"}, {"77", "wait", "own"}, {"77", "wait", "", "5"}, {"77", "wait", "", "", near}, {"77", "wait", "", "", far},
			{"77", "try", "", "", "1"},
		},
		"unvote": {{"0"}, {"5"}, {reached}, {reached, near}, {reached, "", "own"}, {reached, near, "", "c:2", "100000", "256", "88"}},
	}
	marks := []string{"", "0", "another", "1795331000000", "1795331818000"} // the last is in quarantine yet
	quick, texts := 0, make(map[string][2]string)
	for i := range 2 * len(marks) * len(made) * len(countersFound) * 7 {
		if i%3 != 0 {
			continue // all values of each meet, and that is enough
		}
		n, sc := i, shortCase{}
		pick := func(of int) int { n, of = n/of, n%of; return of }
		name := []string{"vote", "unvote"}[pick(2)]
		sc.vote, sc.made, sc.counter = marks[pick(len(marks))], made[pick(len(made))], countersFound[pick(len(countersFound))]
		sc.told, sc.full, sc.stays = told[name][n%len(told[name])], (i/7)%3 == 0, stays[(i/5)%2]
		scripts := lua.Scripts{Quorum: true, Retention: time.Duration((i/11)%2) * time.Hour}
		if sc.vote != "" {
			scripts.Longest = 3 * time.Second
		}
		of := fmt.Sprint(name, scripts)
		if _, known := texts[of]; !known {
			whole, without := shortApart(t, scripts, name)
			texts[of] = [2]string{whole, without}
		}
		said, keys := sc.left(texts[of][0], "100000", "256", "c:1")
		wantSaid, wantKeys := sc.left(texts[of][1], "100000", "256", "c:1")
		if parts := strings.Fields(said); name == "vote" && len(parts) == 4 {
			long := strings.Fields(wantSaid)
			require.Equal(t, []string{"77", "100000", "c:1"}, long[2:5], "%+v", sc)
			wantSaid = strings.Join(append(long[:2], long[5:]...), " ")
			said = strings.Join(parts, " ")
			quick++
		}
		require.Equal(t, wantSaid, said, "%s %+v", name, sc)
		require.Equal(t, wantKeys, keys, "%s %+v", name, sc)
	}
	require.Greater(t, quick, 30, "votes that the short text answered")
}

// TestShortTextSaysTheSame compares acquire without the mutex's short text for the most frequent case with the whole, and
// with what runs for many: for this one alone, whose counter is asked for with all others, and beside a lock that is held.
func TestShortTextSaysTheSame(t *testing.T) {
	made := [][]string{{}, {"HSET", "k", "c:9", "1"}, {"SET", "k", "v"}, {"ZADD", "relock_queue:{k}", "1", "100000:256:d:1:"}}
	told := [][]string{
		nil, {""}, {"", "-"}, {"", "", "", "relock_inbox:", "PUBLISH"}, {"own"}, {"own", "-"}, {"", "77"}, {"", "-", "", ""},
	}
	for _, retention := range []time.Duration{0, time.Hour} {
		whole, without := shortApart(t, lua.Scripts{Retention: retention}, "acquire")
		many, err := lua.Scripts{Kind: "mutex", Retention: retention}.Many("acquire")
		require.NoError(t, err)
		for i := range len(made) * len(countersFound) * len(told) * 2 {
			n := i / 2
			sc := shortCase{
				made: made[n%len(made)], counter: countersFound[n/len(made)%len(countersFound)], told: told[n/len(made)/len(countersFound)],
				full: i%2 == 1, stays: stays[(i/3)%2],
			}
			said, keys := sc.left(whole, "100000", "256", "c:1")
			wantSaid, wantKeys := sc.left(without, "100000", "256", "c:1")
			require.Equal(t, wantSaid, said, "%+v", sc)
			require.Equal(t, wantKeys, keys, "%+v", sc)
			for _, sc.many = range []int{1, 2} {
				said, keys := sc.left(many, "100000", "256", "c:1")
				require.Equal(t, wantSaid, said, "%+v", sc)
				require.Equal(t, wantKeys, keys, "%+v", sc)
			}
		}
	}
}
