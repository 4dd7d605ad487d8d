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

// transcripts are what is recorded of each version.
var transcripts = []struct {
	of     string // the first part of the file's name
	record func(*recorder)
}{{"lock", recordLock}, {"permits", recordPermits}}

func transcriptPath(of, version string) string {
	return filepath.Join("testdata", of+"-"+version+".txt")
}

// TestTranscript compares what Redisson sends for each operation with what it sent when relock was fitted to it.
func TestTranscript(t *testing.T) {
	for _, version := range []string{current, oldest} {
		t.Run(version, func(t *testing.T) {
			server := redistest.Start(t)
			jvm := startJVM(t, version, singleSite(server).yaml())
			for _, tr := range transcripts {
				r := &recorder{t: t, server: server, jvm: jvm, version: version, m: startMonitor(t, server,
					jvm.id, "<client>",
					":"+jvm.Do("a", "threadId")+`"`, `:<a>"`,
					":"+jvm.Do("b", "threadId")+`"`, `:<b>"`)}
				tr.record(r)
				if *update {
					require.NoError(t, os.WriteFile(transcriptPath(tr.of, version), []byte(r.text.String()), 0o600))
				}
				want, err := os.ReadFile(transcriptPath(tr.of, version))
				require.NoError(t, err)
				require.Equal(t, string(want), r.text.String())
			}
		})
	}
}

// recorder has Redisson go through every operation and writes the transcript, a heading before each.
type recorder struct {
	t       *testing.T
	server  *redistest.Server
	jvm     *peer
	version string
	m       *monitor
	text    strings.Builder
}

func (r *recorder) step(heading string, do func()) {
	r.m.drain()
	do()
	eventually(r.t, "the end of what Redisson does unasked", func() bool {
		return r.server.Do("KEYS", "redisson_unlock_latch*") == "" && r.server.Do("PUBSUB", "CHANNELS", "redisson_*") == ""
	})
	r.text.WriteString("# " + heading + "\n" + strings.Join(r.m.drain(), "\n") + "\n\n")
}

func recordLock(r *recorder) {
	a := func(command string, args ...string) {
		r.jvm.Do("a", command, append([]string{"lock:orders"}, args...)...)
	}
	fenced := func(command string, args ...string) {
		r.jvm.Do("a", command, append([]string{"fenced:orders"}, args...)...)
	}
	r.step("lock", func() { a("lock", "60000") })
	r.step("re-entry", func() { a("lock", "60000") })
	r.step("tryLock of another thread", func() { r.jvm.Do("b", "tryLock", "lock:orders", "0", "60000") })
	r.step("isLocked", func() { a("isLocked") })
	r.step("getHoldCount", func() { a("getHoldCount") })
	r.step("remainTimeToLive", func() { a("remainTimeToLive") })
	r.step("inner unlock", func() { a("unlock") })
	r.step("unlock", func() { a("unlock") })
	a("lock", "60000")
	r.step("contended lock", func() {
		asked := r.server.CommandCounts()["pttl"]
		waiter := r.jvm.Go("b", "lock", "lock:orders", "60000")
		eventually(r.t, "a Java waiter that has asked twice", func() bool { return r.server.CommandCounts()["pttl"] >= asked+2 })
		a("unlock")
		require.NoError(r.t, await(r.t, waiter).err)
	})
	r.step("forceUnlock", func() { a("forceUnlock") })
	r.step("fenced lock", func() { fenced("tryLockAndGetToken", "0", "60000") })
	r.step("fenced getToken", func() { fenced("getToken") })
	r.step("fenced unlock", func() { fenced("unlock") })
}

func recordPermits(r *recorder) {
	a := func(command string, args ...string) string {
		return r.jvm.Do("a", command, append([]string{"permits:calls"}, args...)...)
	}
	const unknown = "000102030405060708090a0b0c0d0e0f"
	var first, second, third string
	r.step("trySetPermits", func() { a("trySetPermits", "2") })
	r.step("acquire", func() { first = a("acquire", "1", "60000") })
	r.step("acquire for ever", func() { second = a("acquire", "1", "-1") })
	r.step("acquire, none free", func() { a("tryAcquire", "1", "0", "60000") })
	r.step("availablePermits", func() { a("availablePermits") })
	r.step("updateLeaseTime", func() { a("updateLeaseTime", first, "90000") })
	r.step("tryRelease of what is not held", func() { a("tryRelease", unknown) })
	r.step("contended acquire", func() {
		asked := r.server.CommandCounts()["zrange"]
		waiter := r.jvm.Go("b", "acquire", "permits:calls", "1", "60000")
		eventually(r.t, "a Java waiter that has asked twice", func() bool { return r.server.CommandCounts()["zrange"] >= asked+2 })
		a("release", first)
		got := await(r.t, waiter)
		require.NoError(r.t, got.err)
		third = got.value
	})
	r.step("release", func() { a("release", second) })
	r.step("addPermits", func() { a("addPermits", "3") })
	r.server.Do("DECR", "calls")
	r.server.Do("ZADD", "{calls}:timeout", "1700000000000", "6c1de5a0-4ab5-4b0e-a1f8-9a4f1f0d2b11:1700000000000001:1")
	r.step("acquire that reaps", func() { a("acquire", "1", "60000") })
	if r.version == current {
		r.step("acquire two", func() { first = a("acquire", "2", "60000") })
		r.step("release two", func() { a("release", first) })
		r.step("acquiredPermits", func() { a("acquiredPermits") })
		r.step("getPermits", func() { a("getPermits") })
		r.step("setPermits", func() { a("setPermits", "7") })
		r.step("getLeaseTime", func() { a("getLeaseTime", third) })
	}
	r.step("delete", func() { a("delete") })
}
