package throttle

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// page collects lines as "last/count [names]".
type page struct {
	mu    sync.Mutex
	lines []string
}

func (p *page) add(last string, count int, names []string) {
	for range 100 { // a slow handler: other lines may come in between
		runtime.Gosched()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf("%s/%d %v", last, count, names))
}

func (p *page) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

func bubble(t *testing.T, test func(*testing.T, *Lines[string], *page)) {
	synctest.Test(t, func(t *testing.T) {
		var p page
		test(t, New(p.add, map[int]int{2: 1}), &p)
	})
}

// pass lets time pass, and timers do what they do then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestFirstLineAtOnceAndTheRestAsOne(t *testing.T) {
	bubble(t, func(t *testing.T, l *Lines[string], p *page) {
		for i := range 1000 {
			require.Equal(t, i == 0, l.Add(Key{Kind: 1, Cause: "eof"}, fmt.Sprint("e", i), fmt.Sprint("k", i)))
		}
		require.True(t, l.Add(Key{Kind: 1, Cause: "refused"}, "other", "k"), "another cause is another key")
		require.Equal(t, []string{"e0/1 []", "other/1 []"}, p.all())
		pass(Every)
		var names []string
		for i := range MaxNames {
			names = append(names, fmt.Sprint("k", i+1))
		}
		require.Equal(t, fmt.Sprintf("e999/999 %v", names), (p.all())[2])
		pass(3 * Every)
		require.Len(t, p.all(), 3, "nothing came")
		require.Empty(t, l.keys)
		require.True(t, l.Add(Key{Kind: 1, Cause: "eof"}, "again", "k"))
	})
}

func TestCausesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, l *Lines[string], p *page) {
		for i := range 1000 {
			l.Add(Key{Kind: 1, Cause: fmt.Sprint("port ", i)}, "e", "")
		}
		require.Len(t, p.all(), MaxCauses+1)
		require.True(t, l.Add(Key{Kind: 1, Node: 2, Cause: "eof"}, "e", ""), "another node has its own")
		require.True(t, l.Add(Key{Kind: 2, Cause: "eof"}, "e", ""), "so has another kind")
		l.Close()
	})
}

// A line of kind 2 stands behind what was held back of kind 1, be it written at once or when its
// time is up in the same instant.
func TestOneKindIsWrittenBeforeAnother(t *testing.T) {
	bubble(t, func(t *testing.T, l *Lines[string], p *page) {
		l.Add(Key{Kind: 1}, "one", "")
		l.Add(Key{Kind: 1}, "one", "")
		l.Add(Key{Kind: 2}, "two", "")
		require.Equal(t, []string{"one/1 []", "one/1 []", "two/1 []"}, p.all())
		l.Add(Key{Kind: 2}, "two", "")
		l.Add(Key{Kind: 1}, "one", "")
		pass(Every)
		require.Equal(t, []string{"one/1 []", "two/1 []"}, p.all()[3:])
		l.Close()
	})
	bubble(t, func(t *testing.T, l *Lines[string], p *page) {
		for range 2 {
			l.Add(Key{Kind: 1}, "one", "")
			l.Add(Key{Kind: 2}, "two", "")
		}
		pass(Every)
		require.Equal(t, []string{"one/1 []", "two/1 []"}, p.all()[2:])
		l.Close()
	})
}

func TestCloseWritesTheRest(t *testing.T) {
	bubble(t, func(t *testing.T, l *Lines[string], p *page) {
		l.Add(Key{}, "a", "")
		l.Add(Key{}, "b", "")
		l.Close()
		require.Equal(t, []string{"a/1 []", "b/1 []"}, p.all())
		require.True(t, l.Add(Key{}, "c", ""))
		require.True(t, l.Add(Key{}, "d", ""), "nothing is held back where nothing would write it")
		require.Equal(t, []string{"a/1 []", "b/1 []", "c/1 []", "d/1 []"}, p.all())
	})
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budget
		for i := range 10_000 {
			skipped, ok := b.Take()
			require.Equal(t, i < MaxLines, ok)
			require.Zero(t, skipped)
		}
		pass(Every)
		skipped, ok := b.Take()
		require.True(t, ok)
		require.Equal(t, 10_000-MaxLines, skipped)
		skipped, _ = b.Take()
		require.Zero(t, skipped)
	})
}
