package relock

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// usedMemory is what a server says of its memory, in bytes.
func usedMemory(t *testing.T, s *redistest.Server) int {
	t.Helper()
	_, rest, _ := strings.Cut(s.Do("INFO", "memory"), "used_memory:")
	n, err := strconv.Atoi(rest[:strings.IndexAny(rest, "\r\n")])
	require.NoError(t, err)
	return n
}

// Where each name is new, the keys of Redis rise for as long as a counter outlives its grant, and its memory with them; from
// then on both are flat. With RELOCK_NEW_NAMES=25m it runs for so long, with the default retention, and tells every minute.
func TestNewNamesKeepRedisFlat(t *testing.T) {
	const rate = 1_000 // names a second
	lasting, every, retention := 6*time.Second, 500*time.Millisecond, time.Second
	if long := os.Getenv("RELOCK_NEW_NAMES"); long != "" {
		var err error
		lasting, err = time.ParseDuration(long)
		require.NoError(t, err)
		every, retention = time.Minute, defaultRetention
		require.Greater(t, lasting, retention+5*every, "it is to be seen flat")
	}
	s := redistest.Start(t)
	c := forgetting(t, s.Client(), retention)

	names, failed := make(chan int), make(chan error, 8)
	for range cap(failed) {
		go func() {
			var first error
			for i := range names {
				l, err := c.Mutex("orders:" + strconv.Itoa(i)).TryLock(t.Context())
				if err == nil {
					err = l.Unlock(t.Context())
				}
				if first == nil {
					first = err
				}
			}
			failed <- first
		}()
	}
	// A counter is kept a quarter of the retention longer at most, or 17 seconds. A server looks for what is over in samples,
	// and is content while that is some: a quarter of all keys, where 1,000 a second end.
	kept := retention + min(retention/4, 17*time.Second)
	most := int(kept.Seconds()*rate)*3/2 + rate/2
	begun := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var flat []int // memory
	made, told := 0, every
	for now := time.Duration(0); now < lasting; now = time.Since(begun) {
		for due := min(int(now.Seconds()*rate), made+rate/100); made < due; made++ { // what is late is left out
			names <- made
		}
		if now >= told {
			keys, _ := strconv.Atoi(s.Do("DBSIZE"))
			memory := usedMemory(t, s)
			t.Logf("after %v: %d names, %d keys, %d bytes", told, made, keys, memory)
			require.LessOrEqual(t, keys, most)
			if now > kept*3/2 {
				flat = append(flat, memory)
			}
			told += every
		}
		<-tick.C
	}
	close(names)
	for range cap(failed) {
		require.NoError(t, <-failed)
	}
	left, err := strconv.Atoi(s.Do("DBSIZE"))
	require.NoError(t, err)
	require.Less(t, left, made, "some are over")
	require.NotEmpty(t, flat)
	for _, memory := range flat {
		require.InDelta(t, flat[0], memory, float64(flat[0])/10+1<<19)
	}
	if lasting < time.Minute {
		require.Eventually(t, func() bool { return s.Do("DBSIZE") == "0" }, patience, 50*time.Millisecond)
	}
}
