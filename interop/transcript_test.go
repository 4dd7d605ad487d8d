package interop

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata anew from what Redisson sends")

func transcriptPath(version string) string {
	return filepath.Join("testdata", "redisson-"+version+".txt")
}

// TestTranscript compares what Redisson sends for each operation with what it sent when relock was fitted to it.
func TestTranscript(t *testing.T) {
	for _, version := range []string{current, oldest} {
		t.Run(version, func(t *testing.T) {
			got := record(t, version)
			if *update {
				require.NoError(t, os.WriteFile(transcriptPath(version), []byte(got), 0o600))
			}
			want, err := os.ReadFile(transcriptPath(version))
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// record has Redisson go through every operation and returns the transcript, a heading before each.
func record(t *testing.T, version string) string {
	server := redistest.Start(t)
	jvm := startJVM(t, version, singleSite(server).yaml())
	m := startMonitor(t, server,
		jvm.id, "<client>",
		":"+jvm.Do("a", "threadId")+`"`, `:<a>"`,
		":"+jvm.Do("b", "threadId")+`"`, `:<b>"`)
	var text strings.Builder
	step := func(heading string, do func()) {
		m.drain()
		do()
		eventually(t, "the end of what Redisson does unasked", func() bool {
			return server.Do("KEYS", "redisson_unlock_latch*") == "" && server.Do("PUBSUB", "CHANNELS", "redisson_lock__*") == ""
		})
		text.WriteString("# " + heading + "\n" + strings.Join(m.drain(), "\n") + "\n\n")
	}
	a := func(command string, args ...string) {
		jvm.Do("a", command, append([]string{"lock:orders"}, args...)...)
	}
	fenced := func(command string, args ...string) {
		jvm.Do("a", command, append([]string{"fenced:orders"}, args...)...)
	}
	step("lock", func() { a("lock", "60000") })
	step("re-entry", func() { a("lock", "60000") })
	step("tryLock of another thread", func() { jvm.Do("b", "tryLock", "lock:orders", "0", "60000") })
	step("isLocked", func() { a("isLocked") })
	step("getHoldCount", func() { a("getHoldCount") })
	step("remainTimeToLive", func() { a("remainTimeToLive") })
	step("inner unlock", func() { a("unlock") })
	step("unlock", func() { a("unlock") })
	a("lock", "60000")
	step("contended lock", func() {
		waiter := jvm.Go("b", "lock", "lock:orders", "60000")
		eventually(t, "a Java waiter that has asked twice", func() bool { return server.CommandCounts()["pttl"] >= 4 })
		a("unlock")
		require.NoError(t, await(t, waiter).err)
	})
	step("forceUnlock", func() { a("forceUnlock") })
	step("fenced lock", func() { fenced("tryLockAndGetToken", "0", "60000") })
	step("fenced getToken", func() { fenced("getToken") })
	step("fenced unlock", func() { fenced("unlock") })
	return text.String()
}
