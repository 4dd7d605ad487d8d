package suite_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestStateTellsWaitersAndToken(t *testing.T) {
	s := redistest.Start(t)
	c, d := newClient(t, s.Client()), newClient(t, s.Client())
	ctx, cancel := context.WithCancel(context.Background())
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = d.Mutex("k").Lock(ctx)
	}()
	queued(t, s, "k", 1)
	st, err := c.Mutex("k").State(ctx)
	require.NoError(t, err)
	require.True(t, st.Held)
	require.True(t, strings.HasPrefix(st.Holder, c.ID()+":"), st.Holder)
	require.Equal(t, 1, st.Count)
	require.Equal(t, 1, st.Waiters)
	require.Equal(t, l.Token(), st.HolderToken)
	require.Equal(t, l.Token()+defaultPasses-1, st.Reserved)
	require.Greater(t, st.TTL, 25*time.Second)
	cancel()
	within(t, done)
	require.NoError(t, l.Unlock(context.Background()))
}

// State goes into JSON under the names that other languages have, in milliseconds, and comes back as it was.
func TestStateAsJSON(t *testing.T) {
	started := time.UnixMilli(1_763_870_400_123).UTC()
	for text, st := range map[string]relock.State{
		`{"held":false,"count":0,"ttl_ms":0,"waiters":0}`: {},
		`{"held":true,"holder":"c:1","count":2,"ttl_ms":28500,"waiters":3,"reserved":256,"holder_token":1,` +
			`"client":{"name":"billing","host":"pod","pid":12,"started":"2025-11-23T04:00:00.123Z","version":"v1"}}`: {
			Held: true, Holder: "c:1", Count: 2, TTL: 28500 * time.Millisecond, Waiters: 3, Reserved: 256, HolderToken: 1,
			Client: relock.ClientInfo{Name: "billing", Host: "pod", PID: 12, Started: started, Version: "v1"},
		},
		`{"held":true,"holder":"java:1","count":1,"ttl_ms":-1,"waiters":0}`: {
			Held: true, Holder: "java:1", Count: 1, TTL: -time.Millisecond,
		},
	} {
		got, err := json.Marshal(st)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		var back relock.State
		require.NoError(t, json.Unmarshal(got, &back))
		require.Equal(t, st, back)
	}
	require.Error(t, json.Unmarshal([]byte(`{"ttl_ms":"long"}`), new(relock.State)))
}
