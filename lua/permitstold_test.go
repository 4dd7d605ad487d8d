package lua_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The questions of the first waiter tell each holder that held permits when it came, whichever are renewed, give back or come in
// between them, whether many leases end together, and though Redisson holds permits too. None tells more than 128, and they are few
// more than it takes if each looks at 128 permits. Then the note is gone.
func TestQuestionsTellEachHolderInTurn(t *testing.T) {
	const client = "e3b0c442-98fc-4c14-9afb-f4c8996fb92"
	s := redistest.Start(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 40 {
		s.Do("FLUSHALL")
		w := &worker{conn: dial(t, s.Addr()), kind: "semaphore", hashes: make(map[string]string)}
		inbox := dial(t, s.Addr())
		inbox.do("SUBSCRIBE", "relock_inbox:"+client+"1")
		w.do("SET", "k", "0")
		now, err := strconv.Atoi(strings.Fields(s.Do("TIME"))[0])
		require.NoError(t, err)
		apart := 1 + r.IntN([]int{3, 2000}[round%2]) // ends that fall together, or not
		ends := func() string { return strconv.Itoa(now*1000 + 60_000 + r.IntN(apart)) }
		held := make(map[string]int) // id -> permits
		most := 1 + r.IntN(1+r.IntN(128))
		n := 0
		enters := func() {
			n++
			id, members := fmt.Sprintf("%s1:%017d", client, n), []string(nil)
			held[id] = 1 + r.IntN(most)
			for i := range held[id] {
				members = append(members, fmt.Sprintf("%s:%d", id, i+1))
			}
			w.do(slices.Concat([]string{"ZADD", "{k}:timeout"}, scored(ends(), members))...)
		}
		for range 1 + r.IntN(2000/most+20) {
			enters()
		}
		for i := range r.IntN(200) { // Redisson's
			w.do("ZADD", "{k}:timeout", ends(), fmt.Sprintf("0123456789ab%04d", i))
		}
		want := make(map[string]bool)
		for id := range held {
			want[id] = true
		}
		total, err := strconv.Atoi(s.Do("ZCARD", "{k}:timeout"))
		require.NoError(t, err)
		questions, allowed := 0, total/128+2
		for {
			questions++
			answer := w.run("acquire", w.keys("k"), []string{"60000", "1", client + "2:1"}).([]any)
			require.EqualValues(t, 0, answer[0])
			told := make(map[string]bool)
			for _, message := range inbox.messages() {
				id := strings.Fields(message)[2]
				told[id] = true
				delete(want, id)
			}
			require.LessOrEqual(t, len(told), 128)
			if len(answer) < 7 {
				break
			}
			for _, id := range slices.Sorted(maps.Keys(held)) {
				var args []string
				for i := range held[id] {
					args = append(args, fmt.Sprintf("%s:%d", id, i+1))
				}
				switch n := r.IntN(60); {
				case n == 0: // is renewed
					now += 5
					args = slices.Concat([]string{"ZADD", "{k}:timeout", "XX"}, scored(strconv.Itoa(now*1000+90_000), args))
				case n == 1 || n < 20 && told[id]: // gives back
					args = slices.Concat([]string{"ZREM", "{k}:timeout"}, args)
					delete(held, id)
					delete(want, id)
				default:
					continue
				}
				w.do(args...)
			}
			if questions < 3 {
				now += 5 // the lease of one that comes later ends later
				enters()
			}
			require.Less(t, questions, 2*allowed+4, "seed %d, round %d", seed, round)
		}
		require.Empty(t, want, "seed %d, round %d: holders that were not told", seed, round)
		require.Equal(t, "0", s.Do("EXISTS", "relock_permits:{k}:told"))
		w.Close()
		inbox.Close()
	}
}

// scored has the score before each member.
func scored(score string, members []string) (args []string) {
	for _, member := range members {
		args = append(args, score, member)
	}
	return args
}
