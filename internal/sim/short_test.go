package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// shortCase is a lock as acquire finds it, and what acquire is told.
type shortCase struct {
	made    []string // the command that made what stands there
	counter string
	told    []string // behind the id
	full    bool
}

// left runs acquire, and returns what it answers and what it leaves.
func (sc shortCase) left(text string) (said string, keys []driver.Value) {
	s := NewServer(Options{Name: "short"})
	c := s.Open("", "", nil, nil)
	if len(sc.made) > 0 {
		s.Exec(c, sc.made)
	}
	if sc.counter != "" {
		s.Exec(c, []string{"SET", "redisson_lock_token:{k}", sc.counter})
	}
	s.SetFull(sc.full)
	args := append([]string{
		"EVAL", text, "4", "k", "relock_queue:{k}", "redisson_lock_token:{k}", "redisson_lock__channel:{k}", "100000", "256", "c:1",
	}, sc.told...)
	answer := s.Exec(c, args)
	if err := answer.Err(); err != nil {
		said, _, _ = strings.Cut(err.Error(), " script: ")
	} else {
		parts, _ := answer.Values()
		for _, part := range parts {
			text, _ := part.Text()
			said += text + " "
		}
	}
	for _, ask := range []string{"GET redisson_lock_token:{k}", "HGETALL k", "ZRANGE relock_queue:{k} 0 -1 WITHSCORES"} {
		keys = append(keys, s.Exec(c, strings.Fields(ask)))
	}
	for _, key := range []string{"k", "relock_queue:{k}"} {
		lives, _ := s.Exec(c, []string{"PTTL", key}).Int64()
		keys = append(keys, driver.Int((lives+20000)/50000)) // coarse: the servers' clock goes on
	}
	lives, _ := s.Exec(c, []string{"PTTL", "redisson_lock_token:{k}"}).Int64()
	return fmt.Sprint(said, lives > 0), keys
}

// TestShortTextSaysTheSame compares acquire with and without the mutex's short text for the most frequent case.
func TestShortTextSaysTheSame(t *testing.T) {
	made := [][]string{{}, {"HSET", "k", "c:9", "1"}, {"SET", "k", "v"}, {"ZADD", "relock_queue:{k}", "1", "100000:256:d:1:"}}
	counters := []string{
		"", "5", "007", "-5", "1.5", "abc", " 7", "1e3", "1795331819046122", "1795331819046123", "1795331819046999", "1795331819545866",
		"1795331819545867", "1795331819545868", "1795331819645868", "9007199254740735", "9007199254740736", "9007199254740991",
		"9007199254741000", "99999999999999999999999999",
	}
	told := [][]string{
		nil, {""}, {"", "-"}, {"", "", "", "relock_inbox:", "PUBLISH"}, {"own"}, {"own", "-"}, {"", "77"}, {"", "-", "", ""},
	}
	for _, retention := range []time.Duration{0, time.Hour} {
		text, err := lua.Scripts{Kind: "mutex", Retention: retention}.Text("acquire")
		require.NoError(t, err)
		whole := strings.ReplaceAll(text, "redis.call('TIME')", "{'1795331819','046123'}")
		before, behind, _ := strings.Cut(whole, "-- mutex_acquire: ")
		_, behind, found := strings.Cut(behind, "-- below: all other cases\n")
		require.True(t, found)
		for i := range len(made) * len(counters) * len(told) * 2 {
			n := i / 2
			sc := shortCase{made[n%len(made)], counters[n/len(made)%len(counters)], told[n/len(made)/len(counters)], i%2 == 1}
			said, keys := sc.left(whole)
			wantSaid, wantKeys := sc.left(before + behind)
			require.Equal(t, wantSaid, said, "%+v", sc)
			require.Equal(t, wantKeys, keys, "%+v", sc)
		}
	}
}
