package lua_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// A release tells Redisson's waiters of the permits that stay free, also while it may open no turn for them, and only an earlier
// turn stands in relock's line. Of permits that the first in relock's line leaves it tells the others there nothing.
func TestReleaseTellsOfPermitsThatStayFree(t *testing.T) {
	keys := []string{"k", "relock_permits:{k}", "relock_permit_grants:{k}", "redisson_sc:{k}", "relock_sclisten:{k}", "{k}:timeout"}
	inLine := func(s *redistest.Server) { s.Do("ZADD", keys[1], "1", "60000:3:b:11234567890123456:") } // it wants all of them
	for name, c := range map[string]struct {
		listens []string // relock's clients hear the second channel too
		line    func(*redistest.Server)
		hears   string
	}{
		"Redisson, and a turn that was":       {keys[3:4], func(s *redistest.Server) { s.Do("ZADD", keys[1], "-9000000000000000", "turn") }, "1"},
		"Redisson, and a waiter that is dead": {keys[3:4], inLine, "1"},
		"Redisson, and a waiter for more":     {[]string{keys[3], "relock_inbox:b"}, inLine, "1"},
		"relock, and a waiter for more":       {[]string{keys[3], keys[4], "relock_inbox:b"}, inLine, "marker"},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			run := func(script string, args ...string) string {
				text, err := lua.Scripts{Kind: "semaphore", Retention: 10 * time.Minute}.Text(script)
				require.NoError(t, err)
				return s.Do(append(append([]string{"EVAL", text, "6"}, keys...), args...)...)
			}
			heard, subscribed := make(chan string, 10), make(chan bool)
			go func() {
				_ = s.Client().Receive(rueidis.WithOnSubscriptionHook(t.Context(), func(e rueidis.PubSubSubscription) {
					if e.Count == int64(len(c.listens)) {
						close(subscribed)
					}
				}), s.Client().B().Subscribe().Channel(c.listens...).Build(), func(m rueidis.PubSubMessage) { heard <- m.Message })
			}()
			<-subscribed
			s.Do("SET", "k", "3")
			for _, id := range []string{"a:11234567890123456", "a:21234567890123456", "a:31234567890123456"} {
				run("acquire", "60000", "1", id)
			}
			require.Equal(t, "0", s.Do("GET", "k"))
			c.line(s)
			require.Equal(t, "1", run("release", "a:11234567890123456", "60000", "1", "", "0"))
			s.Do("PUBLISH", keys[3], "marker")
			require.Equal(t, c.hears, <-heard)
		})
	}
}
