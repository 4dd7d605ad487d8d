package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// sighted is a lock with so many waiters that is held for so many seconds.
func sighted(t *testing.T, name string, waiters, seconds int) operator.Sighting {
	t.Helper()
	names, err := wire.Mutex.Names("", name)
	require.NoError(t, err)
	return operator.Sighting{Names: names, Kind: operator.KindRelock, Held: true, Holder: javaOwner, Count: 1, Waiters: waiters,
		Age: time.Duration(seconds) * time.Second, TTL: time.Minute}
}

func shownNames(b *board) string {
	var names []string
	for _, s := range b.shown {
		names = append(names, s.Names.Name)
	}
	return strings.Join(names, " ")
}

// press presses keys, each of which the board must do itself.
func press(t *testing.T, b *board, keys ...string) {
	t.Helper()
	for _, key := range keys {
		require.Equal(t, wishNothing, b.key(key), key)
	}
}

func TestBoardSortsAndFilters(t *testing.T) {
	b := board{order: operator.ByWaiters, height: 2}
	now := time.Now()
	b.see([]operator.Sighting{sighted(t, "p", 0, 9), sighted(t, "r", 7, 1), sighted(t, "s", 7, 2)}, true, now, time.Millisecond)
	require.Equal(t, "s r p", shownNames(&b))
	require.Equal(t, []string{"s", "r"}, []string{b.visible()[0].Name, b.visible()[1].Name})
	press(t, &b, "a")
	require.Equal(t, "p s r", shownNames(&b))
	press(t, &b, "n")
	require.Equal(t, "p r s", shownNames(&b))
	press(t, &b, "/", "s", "x", keyBackspace)
	require.Equal(t, "s", shownNames(&b))
	require.Equal(t, "filter: s_", b.status())
	press(t, &b, keyEnter)
	require.Contains(t, b.status(), `by name, 1 with "s"`)
	press(t, &b, keyEscape)
	require.Equal(t, "p r s", shownNames(&b))

	press(t, &b, keyEnd)
	require.Equal(t, []int{2, 1}, []int{b.cursor, b.top})
	b.see([]operator.Sighting{sighted(t, "s", 0, 3), sighted(t, "t", 0, 1)}, true, now.Add(time.Second), time.Millisecond)
	require.Equal(t, "s t", shownNames(&b))
	require.Equal(t, []int{0, 0}, []int{b.cursor, b.top}, "the cursor stays on its lock")
	press(t, &b, "j", "j", "j", keyUp, keyPageDown, keyHome, keyPageUp)
	require.Equal(t, 0, b.cursor)
	require.Equal(t, wishQuit, b.key("q"))
}

func TestBoardAsksBeforeItForces(t *testing.T) {
	b := board{order: operator.ByName, height: 5}
	press(t, &b, "f", "y")
	require.Nil(t, b.asked, "there is no lock to free")
	b.see([]operator.Sighting{sighted(t, "a", 3, 9)}, true, time.Now(), time.Millisecond)
	press(t, &b, "f")
	require.Equal(t, `Free "a", held by `+javaOwner+` for 9.0s, 3 waiting? [y/N] `, b.status())
	b.see([]operator.Sighting{sighted(t, "0", 0, 0), sighted(t, "a", 3, 9)}, true, time.Now(), time.Millisecond)
	press(t, &b, keyEnter)
	require.Equal(t, `"a" was left as it is`, b.status())
	press(t, &b, keyDown, "f")
	require.Equal(t, wishForce, b.key("y"))
	require.Equal(t, "a", b.asked.Names.Name)
	require.Equal(t, wishQuit, b.key(keyBreak))
}

// A hand-over is seen where the holder or the grant is another one.
func TestBoardRates(t *testing.T) {
	b := board{order: operator.ByName, height: 5}
	now := time.Now()
	first := sighted(t, "a", 0, 1)
	b.see([]operator.Sighting{first, sighted(t, "b", 0, 1)}, true, now, time.Millisecond)
	require.Zero(t, b.rate)
	for range 50 {
		now = now.Add(500 * time.Millisecond)
		next := first
		next.Token = b.locks[0].Token + 1
		b.see([]operator.Sighting{next}, false, now, time.Millisecond)
	}
	require.InDelta(t, 2, b.rate, 0.01)
	require.Equal(t, "2.0", b.columns(&b.shown[0])[4])
	require.Equal(t, "-", b.columns(&b.shown[1])[4])
	require.Len(t, b.locks, 2)
}

// A holder is cut only where it does not fit beside the names.
func TestBoardSharesItsWidth(t *testing.T) {
	b := board{order: operator.ByName, height: 5}
	b.see([]operator.Sighting{sighted(t, "order:1", 0, 1), sighted(t, "order:12", 0, 1)}, true, time.Now(), time.Millisecond)
	require.Equal(t, len("order:12"), b.nameWidth(80))
	b.see([]operator.Sighting{sighted(t, strings.Repeat("x", 80), 0, 1)}, true, time.Now(), time.Millisecond)
	require.Equal(t, 110-1-len(javaOwner), b.nameWidth(110))
	require.Equal(t, 80, b.nameWidth(200))
	require.Equal(t, 19, b.nameWidth(33))
	require.Zero(t, b.nameWidth(-5))
}

func TestTopOnce(t *testing.T) {
	srv := redistest.Start(t)
	srv.AddUser("watcher", "pw", "~*", "+@read")
	locks := other(t, srv)
	for i := range 5 {
		held(t, locks, fmt.Sprintf("order:%d", i))
	}
	waiting(t, other(t, srv), "order:3")
	got := relockRun("top", "-once", "-rows", "2", "-redis", "redis://watcher:pw@"+srv.Addr())
	require.Equal(t, statusOK, got.status, got.err)
	lines := strings.Split(got.out, "\n")
	require.Len(t, lines, 5)
	require.Contains(t, lines[0], "5 locks, 1 waiters on 1 of them")
	require.Regexp(t, `^1 +\S+s +\S+s +\S+s +order:3 +`+locks.ID()+`:4\d{16}$`, lines[2])
	require.Len(t, strings.Split(relockRun("top", "-once", "-rows", "0", "-redis", srv.Addr()).out, "\n"), 8)

	for args, says := range map[string]string{
		"top -redis " + srv.Addr(): "say -once",
		"top -once -sort size":     "-sort size: it is waiters, age or name",
		"top -once -rows -1":       "-rows -1",
		"top -once -every 1ms":     "-every 1ms",
	} {
		got := relockRun(strings.Fields(args)...)
		require.Equal(t, statusUsage, got.status)
		require.Contains(t, got.err, says)
	}
}

// filmed is a simulated screen whose last picture another goroutine may look at.
type filmed struct {
	tcell.SimulationScreen
	mu   sync.Mutex
	text string
}

func (f *filmed) Show() {
	f.SimulationScreen.Show()
	cells, width, _ := f.GetContents()
	var text strings.Builder
	for i, c := range cells {
		if i > 0 && i%width == 0 {
			text.WriteByte('\n')
		}
		text.WriteString(string(c.Runes))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text = text.String()
}

func (f *filmed) contains(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Contains(f.text, text)
}

// The board on a screen, over a real server: it shows, filters, frees after a question, and outlives a Redis that hangs.
func TestTopLive(t *testing.T) {
	requireNoLeaks(t)
	srv := redistest.Start(t)
	locks := other(t, srv)
	lease := held(t, locks, "orders")
	held(t, locks, "bills")
	waiting(t, other(t, srv), "orders")

	var conn connection
	conn.redis = []string{srv.Addr()}
	cmd := (&app{}).topCommand()
	redis, err := conn.open(cmd.Flags())
	require.NoError(t, err)
	defer redis.close()
	screen := &filmed{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
	l := live{redis: redis, reader: redis.reader(), match: "*", every: 10 * time.Millisecond, screen: screen,
		board: board{where: redis.where, order: operator.ByWaiters, rates: make(map[string]float64)}}
	ended := make(chan error, 1)
	go func() { ended <- l.run() }()
	shows := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return screen.contains(text) }, patience, 5*time.Millisecond)
	}
	shows("2 locks, 1 waiters on 1 of them")
	shows("WAITERS  LONGEST")
	shows("q quit")
	screen.InjectKey(tcell.KeyRune, '/', 0)
	for _, letter := range "bil" {
		screen.InjectKey(tcell.KeyRune, letter, 0)
	}
	shows("filter: bil_")
	screen.InjectKey(tcell.KeyEnter, 0, 0)
	shows(`by waiters, 1 with "bil"`)
	screen.InjectKey(tcell.KeyEscape, 0, 0)
	shows("by waiters   hand-overs")
	screen.InjectKey(tcell.KeyRune, 'f', 0)
	shows(`Free "orders", held by ` + locks.ID())
	require.NoError(t, lease.Context().Err())
	screen.InjectKey(tcell.KeyRune, 'y', 0)
	shows(`freed "orders"`)
	<-lease.Context().Done()
	screen.InjectKey(tcell.KeyCtrlC, 0, tcell.ModCtrl)
	require.NoError(t, <-ended)
}
