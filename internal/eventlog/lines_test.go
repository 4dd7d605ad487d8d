package eventlog

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// collected are lines as "last/events [locks]".
type collected struct {
	mu    sync.Mutex
	lines []string
}

func (c *collected) add(last Record, events int, locks []string) {
	for range 100 { // a slow handler: other lines may come in between
		runtime.Gosched()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf("%s/%d %v", last.Alarm, events, locks))
}

func (c *collected) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

// of is an event of a kind whose line says alarm.
func of(kind int, alarm string) Record { return Record{Rank: Alarm, Kind: kind, Alarm: alarm} }

// since is an event of kind 1 with a cause.
func since(cause, alarm, lock string) Record {
	r := of(1, alarm)
	r.Topic, r.Lock = errors.New(cause), lock
	return r
}

func bubble(t *testing.T, test func(*testing.T, *lines, *collected)) {
	synctest.Test(t, func(t *testing.T) {
		var c collected
		test(t, newLines(c.add, map[int]int{2: 1}), &c)
	})
}

func TestFirstLineAtOnceAndTheRestAsOne(t *testing.T) {
	bubble(t, func(t *testing.T, l *lines, c *collected) {
		for i := range 1000 {
			name := fmt.Sprint("e", i)
			require.Equal(t, i == 0, l.add(since("eof", name, fmt.Sprint("k", i/2)))) // the same name again and again
		}
		require.True(t, l.add(since("refused", "other", "k")), "another cause is another topic")
		require.Equal(t, []string{"e0/1 []", "other/1 []"}, c.all())
		pass(Every)
		var names []string
		for i := range maxLocks {
			names = append(names, fmt.Sprint("k", i))
		}
		require.Equal(t, fmt.Sprintf("e999/999 %v", names), c.all()[2])
		pass(3 * Every)
		require.Len(t, c.all(), 3, "nothing came")
		require.Empty(t, l.topics)
		require.True(t, l.add(since("eof", "again", "k")))
	})
}

func TestCausesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, l *lines, c *collected) {
		for i := range 1000 {
			l.add(since(fmt.Sprint("port ", i), "e", ""))
		}
		require.Len(t, c.all(), maxCauses+1)
		other := since("eof", "e", "")
		other.Node = 2
		require.True(t, l.add(other), "another node has its own")
		require.True(t, l.add(of(2, "e")), "so has another kind")
		l.close()
	})
}

// A line of kind 2 stands behind what was held back of kind 1, be it written at once or when its
// time is up in the same instant.
func TestOneKindIsWrittenBeforeAnother(t *testing.T) {
	bubble(t, func(t *testing.T, l *lines, c *collected) {
		l.add(of(1, "one"))
		l.add(of(1, "one"))
		l.add(of(2, "two"))
		require.Equal(t, []string{"one/1 []", "one/1 []", "two/1 []"}, c.all())
		l.add(of(2, "two"))
		l.add(of(1, "one"))
		pass(Every)
		require.Equal(t, []string{"one/1 []", "two/1 []"}, c.all()[3:])
		l.close()
	})
	bubble(t, func(t *testing.T, l *lines, c *collected) {
		for range 2 {
			l.add(of(1, "one"))
			l.add(of(2, "two"))
		}
		pass(Every)
		require.Equal(t, []string{"one/1 []", "two/1 []"}, c.all()[2:])
		l.close()
	})
}

func TestCloseWritesTheRest(t *testing.T) {
	bubble(t, func(t *testing.T, l *lines, c *collected) {
		l.add(of(0, "a"))
		l.add(of(0, "b"))
		l.close()
		require.Equal(t, []string{"a/1 []", "b/1 []"}, c.all())
		require.True(t, l.add(of(0, "c")))
		require.True(t, l.add(of(0, "d")), "nothing is held back where nothing would write it")
		require.Equal(t, []string{"a/1 []", "b/1 []", "c/1 []", "d/1 []"}, c.all())
	})
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b budget
		for i := range 10_000 {
			skipped, ok := b.take()
			require.Equal(t, i < maxDebug, ok)
			require.Zero(t, skipped)
		}
		pass(Every)
		skipped, ok := b.take()
		require.True(t, ok)
		require.Equal(t, 10_000-maxDebug, skipped)
		skipped, _ = b.take()
		require.Zero(t, skipped)
	})
}
