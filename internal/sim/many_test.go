package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// crowdCase is a lock among many as a script finds it, and what the script is told of it.
type crowdCase struct {
	made  []string   // commands, with the lock's name for $
	block string     // "" for 256
	args  [][]string // of acquire, and of release
	again bool
}

// again is another acquisition of the first lock.
var again = crowdCase{again: true}

// unwritten of the cases have acquire write nothing before what a full Redis refuses.
const unwritten = 10

var crowdCases = []crowdCase{
	{},
	{made: []string{"SET redisson_lock_token:{$} 1795331819046377"}, block: "1"}, // whose last token is the same
	{made: []string{"SET redisson_lock_token:{$} 1795331819099999"}},
	{made: []string{"SET redisson_lock_token:{$} 1795331829099999"}},
	{made: []string{"SET redisson_lock_token:{$} 1795331818999999 PX 9000000"}}, // of a span before
	{made: []string{"SET redisson_lock_token:{$} 1795331830317055 PX 9000000"}}, // the last of a span
	{made: []string{"SET redisson_lock_token:{$} words"}},
	{made: []string{"HSET redisson_lock_token:{$} some words"}},
	{made: []string{"SET $ words"}},
	{made: []string{"HSET $ d:1 1", "PEXPIRE $ 50000"}},
	{made: []string{"HSET $ c:1 1", "PEXPIRE $ 50000"}},
	{made: []string{"HSET $ own 1 d:1 1 relock:first 5:256:own", "PEXPIRE $ 50000"}, args: [][]string{{"own"}, {"own"}}},
	{args: [][]string{{"own"}, {"own"}}},
	{made: []string{"ZADD relock_queue:{$} 7 100000:256:d:1:"}},
	{made: []string{"HSET $ c:1 1", "PEXPIRE $ 50000", "ZADD relock_queue:{$} 7 100000:256:d:1:"}},
	{args: [][]string{{"", "-"}, {}}},
	{args: [][]string{{"", "77"}, {"", "0"}}},
	{args: [][]string{{"", "", "", "relock_inbox:", "PUBLISH", "PUBLISH", "relock_listen:{$}", "relock_inbox:c"}, {}}},
}

// plainCases are those that a script asks for all at once: locks that it finds idle, and locks that it ends.
var plainCases = map[string][]crowdCase{
	"acquire": crowdCases[:8],
	"release": {
		{made: []string{"HSET $ c:1 1", "PEXPIRE $ 50000"}},
		{made: []string{"HSET $ c:1 1", "PEXPIRE $ 50000"}, args: [][]string{{}, {"", "0"}}},
		{made: []string{"HSET $ d:1 1", "PEXPIRE $ 50000"}},
		{made: []string{"HSET $ c:1 1", "PEXPIRE $ 50000", "SUBSCRIBE redisson_lock__channel:{$}"}},
		{made: []string{"HSET $ own 2 c:1 1 d:1 1 relock:first 5:256:own", "PEXPIRE $ 50000"}, args: [][]string{{}, {"own"}}},
		{made: []string{"HSET $ c:1 1", "PEXPIRE $ 50000"}, args: [][]string{{}, {"", "", "c:3", "100000", "256"}}},
		{made: []string{"SET $ words"}},
		{},
	},
}

// keys are those of a crowd's lock, as acquire or release takes them.
func (crowdCase) keys(name string, deep int) []string {
	of := "$ relock_queue:{$} redisson_lock_token:{$} redisson_lock__channel:{$} relock_listen:{$}"
	return strings.Fields(strings.ReplaceAll(of, "$", name))[:deep]
}

// told is what a script is told of a crowd's lock, as many arguments as wide: those that are left out are as they are
// taken to be.
func (cc crowdCase) told(name, script string, wide int) []string {
	args, which, route := []string{"100000", "256", "c:1"}, 0, 6
	if script == "release" {
		args, which, route = []string{"c:1", "100000", "256"}, 1, 8
	}
	if cc.block != "" {
		args[slices.Index(args, "256")] = cc.block
	}
	if cc.args != nil {
		for _, arg := range cc.args[which] {
			args = append(args, strings.ReplaceAll(arg, "$", name))
		}
	}
	for len(args) < wide {
		spare := ""
		switch len(args) {
		case route:
			spare = "relock_inbox:"
		case route + 1:
			spare = "PUBLISH"
		}
		args = append(args, spare)
	}
	return args
}

// What runs for many answers each, and leaves each, as what runs for one does. A lock that comes twice is asked for
// twice.
func TestManySayWhatEachSays(t *testing.T) {
	for _, script := range []string{"acquire", "release"} {
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprint(script, ", full ", full), func(t *testing.T) {
				deep, wide := 4, 11
				if script == "release" {
					deep, wide = 5, 10
				}
				cases := crowdCases
				if full { // a script that has written once may write more: Redis has it whole or not at all
					cases = crowdCases[:unwritten]
				}
				same := func(cases []crowdCase) {
					require.Equal(t, crowd(t, script, cases, deep, wide, full, false), crowd(t, script, cases, deep, wide, full, true))
				}
				same(append(slices.Clip(cases), again))
				plain := plainCases[script]
				same(append(slices.Clip(plain), again))
				if full && script == "acquire" {
					plain = plain[:len(plain)-1] // that Redis is full is found before that the counter is no string
				}
				same(plain)
			})
		}
	}
}

// crowd runs a script for all cases, by itself for each or together, and returns the answers and what is left.
func crowd(t *testing.T, script string, cases []crowdCase, deep, wide int, full, together bool) (said []string) {
	t.Helper()
	s := atOneInstant("crowd")
	c := s.Open("", "", nil, nil)
	from := lua.Scripts{Kind: "mutex", Retention: time.Hour}
	one, err := from.Text(script)
	require.NoError(t, err)
	many, err := from.Many(script)
	require.NoError(t, err)
	var names []string
	var keys, args []string
	for i, cc := range cases {
		name := fmt.Sprint("k", i)
		if cc.again {
			cc, name = cases[0], "k0"
		}
		names = append(names, name)
		keys = append(keys, cc.keys(name, deep)...)
		told := cc.told(name, script, wide)
		if cases[i].again {
			told[slices.Index(told, "c:1")] = "c:2"
		}
		args = append(args, told...)
		for _, made := range cc.made {
			require.NoError(t, s.Exec(c, strings.Fields(strings.ReplaceAll(made, "$", name))).Err())
		}
	}
	s.SetFull(full)
	if together {
		words := append([]string{"EVAL", many, strconv.Itoa(len(keys))}, append(keys, strconv.Itoa(len(names)))...)
		answers, err := s.Exec(c, append(words, args...)).Values()
		require.NoError(t, err)
		require.Len(t, answers, len(names))
		for _, answer := range answers {
			if n, err := answer.Int64(); err == nil && !answer.IsList() {
				answer = driver.List(driver.Int(n))
			}
			said = append(said, bareAnswer(answer))
		}
	} else {
		for i := range names {
			words := append([]string{"EVAL", one, strconv.Itoa(deep)}, keys[i*deep:(i+1)*deep]...)
			answer := s.Exec(c, append(words, args[i*wide:(i+1)*wide]...))
			said = append(said, bareAnswer(answer))
		}
	}
	for _, name := range names {
		for _, ask := range []string{"TYPE $", "HGETALL $", "GET redisson_lock_token:{$}", "PTTL redisson_lock_token:{$}", "ZRANGE relock_queue:{$} 0 -1 WITHSCORES"} {
			said = append(said, bareAnswer(s.Exec(c, strings.Fields(strings.ReplaceAll(ask, "$", name)))))
		}
	}
	return said
}

var userScript = regexp.MustCompile(`user_script:\d+: `)

// bareAnswer is an answer without what differs between two scripts: places in their text.
func bareAnswer(v driver.Value) string {
	if err := v.Err(); err != nil {
		said, _, _ := strings.Cut(err.Error(), " script: ")
		return strings.TrimPrefix(userScript.ReplaceAllString(said, ""), "ERR ")
	}
	if parts, err := v.Values(); err == nil {
		var said []string
		for _, part := range parts {
			said = append(said, bareAnswer(part))
		}
		return fmt.Sprint(said)
	}
	text, _ := v.Text()
	if first, count, grant := strings.Cut(text, ":"); grant && len(first) == 16 {
		return fmt.Sprint([]string{"1", first, count}) // in one word
	}
	return text
}

// The locks k and {k} have one counter: of those that are asked for together the second begins where the first ends.
func TestManyLocksOfOneCounter(t *testing.T) {
	for _, had := range []string{"", "9000000000000000"} { // ahead of any clock
		s := NewServer(Options{Name: "crowd"})
		c := s.Open("", "", nil, nil)
		if had != "" {
			require.NoError(t, s.Exec(c, []string{"SET", "redisson_lock_token:{k}", had}).Err())
		}
		many, err := (lua.Scripts{Kind: "mutex", Retention: time.Hour}).Many("acquire")
		require.NoError(t, err)
		shared := []string{"redisson_lock_token:{k}", "redisson_lock__channel:{k}", "relock_listen:{k}"}
		keys := slices.Concat([]string{"k", "relock_queue:{k}"}, shared, []string{"{k}", "relock_line:{k}"}, shared)
		words := slices.Concat([]string{"EVAL", many, strconv.Itoa(len(keys))}, keys,
			[]string{"2", "100000", "32", "c:1", "100000", "16", "c:2"})
		answers, err := s.Exec(c, words).Values()
		require.NoError(t, err)
		var begins, ends [2]int64
		for i, answer := range answers {
			var n int64
			_, err := fmt.Sscanf(bareAnswer(answer), "[1 %d %d]", &begins[i], &n)
			require.NoError(t, err)
			ends[i] = begins[i] + n - 1
		}
		require.Greater(t, begins[1], ends[0])
		counter, err := s.Exec(c, []string{"GET", "redisson_lock_token:{k}"}).Int64()
		require.NoError(t, err)
		require.Equal(t, ends[1], counter)
	}
}

// Among many, too, the lock of an entry whose rights are asked for is refused where its holder would lack one.
func TestManyAskForRights(t *testing.T) {
	s := atOneInstant("crowd")
	c := s.Open("", "", nil, nil)
	many, err := (lua.Scripts{Kind: "mutex", Retention: time.Hour}).Many("acquire")
	require.NoError(t, err)
	require.NoError(t, s.Exec(c, []string{"ACL", "SETUSER", "default", "-zpopmin"}).Err())
	cc := crowdCases[len(crowdCases)-1]
	words := slices.Concat([]string{"EVAL", many, "4"}, cc.keys("k", 4), []string{"1"}, cc.told("k", "acquire", 11))
	answers, err := s.Exec(c, words).Values()
	require.NoError(t, err)
	require.ErrorContains(t, answers[0].Err(), "NOPERM")
	require.Equal(t, "none", bareAnswer(s.Exec(c, []string{"TYPE", "k"})))
}
