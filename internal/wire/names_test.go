package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

func TestNamesFollowRedissonsRule(t *testing.T) {
	for name, channel := range map[string]string{
		"orders":        "redisson_lock__channel:{orders}",
		"a{7}b":         "redisson_lock__channel:a{7}b",
		"{orders}:1":    "redisson_lock__channel:{orders}:1",
		"with space:ü:": "redisson_lock__channel:{with space:ü:}",
		"{a}{b":         "redisson_lock__channel:{a}{b",
	} {
		n, err := Mutex.Names("", name)
		require.NoError(t, err, name)
		require.Equal(t, name, n.Lock)
		require.Equal(t, channel, n.Unlock)
	}
}

// Two names may have one tag, and then share what Redisson would share. No two have one queue, and no lock is the key of
// another.
func TestNoTwoLocksShareAQueue(t *testing.T) {
	queues := make(map[string]string)
	for _, name := range []string{
		"a", "{a}", "{{a}}", "{{a}", "{a}}", "{a}{", "{a}{b", "{a}b", "b{a}", "{a}{b}", "{{a}}b", "{b", "}", "{}", "relock_line:a", "line:{a}",
		"relock_line:{a}", "relock_queue:{a}", "relock_queue:a", "redisson_lock_token:{a}", "relock_seed:{a}",
	} {
		n, err := Mutex.Names("", name)
		if err != nil {
			continue
		}
		for _, key := range []string{n.Lock, n.Queue} {
			require.Empty(t, queues[key], "%q and %q", name, queues[key])
			queues[key] = name
		}
	}
	plain, err := Mutex.Names("", "a")
	require.NoError(t, err)
	tagged, err := Mutex.Names("", "{a}")
	require.NoError(t, err)
	require.Equal(t, "relock_queue:{a}", plain.Queue)
	require.Equal(t, "relock_line:{a}", tagged.Queue)
	require.Equal(t, plain.Unlock, tagged.Unlock)
	require.Equal(t, plain.Counter, tagged.Counter)
	require.Equal(t, plain.Listen, tagged.Listen)
	require.Equal(t, plain.Seed, tagged.Seed)
}

// No entry stands at another lock's gate, whatever its name and the amount that it takes.
func TestNoTwoLocksShareAGate(t *testing.T) {
	gates := make(map[string]string)
	for _, kind := range []*Kind{Mutex, Read, Write, Semaphore} {
		for _, name := range []string{"x", "{x}*2", "x*2", "2*x", "{x}2", "{x}*22"} {
			n, err := kind.Names("", name)
			require.NoError(t, err)
			for _, amount := range []int{1, 2, 22} {
				of := fmt.Sprint(kind.Name, name, amount)
				gate := n.Gate(amount)
				require.Empty(t, gates[gate], of)
				gates[gate] = of
			}
		}
	}
}

// What is refused is told by name and by what is wrong with it, whatever of it is the prefix.
func TestUnusableNames(t *testing.T) {
	for _, c := range []struct{ prefix, name, why string }{
		{"", "", "empty"},
		{"", strings.Repeat("x", 1025), "1025 bytes"},
		{"", "{}", "brace"},
		{"", "a{}b", "brace"},
		{"", "a{b", "brace"},
		{"", "a}b", "brace"},
		{"", "}a{", "brace"},
		{"", "relock_incarnation", "restart guard"},
		{"", "relock_client:x", "of the library begin with"},
		{"relock_", "client:{x}", "of the library begin with"},
		{"", "redisson_lock_token:{orders}", "of the library begin with"},
		{"redisson_", "lock_token:x", "of the library begin with"},
		{"", "relock_queue:{orders}", "of the library begin with"},
		{"", "relock_line:{orders}", "of the library begin with"},
		{"", "relock_seed:{orders}", "of the library begin with"},
		{"", "relock_listen:{orders}", "of the library begin with"},
		{"", "relock_inbox:x", "of the library begin with"},
		{"", "redisson_lock__channel:{orders}", "of the library begin with"},
		{"shop:", "", "empty"},
		{"relock_", "incarnation", "restart guard"},
		{"a{", "b", "brace"},
		{"shop:", "a}", "brace"},
		{"shop:", strings.Repeat("x", 1020), "1025 bytes"},
	} {
		_, err := Mutex.Names(c.prefix, c.name)
		require.ErrorIs(t, err, ErrInvalidName, c.prefix+c.name)
		require.ErrorContains(t, err, c.why)
	}
	n, err := Mutex.Names("shop:", strings.Repeat("x", 1019))
	require.NoError(t, err)
	require.Len(t, n.Lock, MaxName)
	require.Len(t, n.Name, 1019)
}

func TestValidOwner(t *testing.T) {
	for _, id := range []string{"order 7", "ü", "uuid:17", "relock", strings.Repeat("x", 256)} {
		require.NoError(t, ValidOwner(id))
	}
	for id, why := range map[string]string{
		"": "empty", "mode": "read-write", "relock:vote": "its own fields", "relock:": "its own fields", strings.Repeat("x", 257): "257 bytes",
	} {
		err := ValidOwner(id)
		require.ErrorIs(t, err, ErrInvalidOwner)
		require.ErrorContains(t, err, why)
	}
}

// Every accepted name has all its keys and channels in one Cluster slot.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"orders", "a{7}b", "{}", "{a}{b}", "a{b", "x}{y}", "ü{ü}", "{{a}}", "\x00{\xff}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, err := Mutex.Names("", name)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalidName)
			return
		}
		want := driver.Slot(name)
		for _, key := range []string{n.Queue, n.Counter, n.Unlock, n.Seed, n.Listen, InboxPrefix + n.Tag + ":client"} {
			require.Equal(t, want, driver.Slot(key), "%q and %q", name, key)
		}
	})
}
