package election

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// oracle answers Watch in place of Redis. It notes when it was asked, and what Watch told.
type oracle struct {
	began time.Time

	mu    sync.Mutex // guards what follows
	is    relock.State
	err   error
	asked []time.Duration
	told  []told
}

// told is what Watch told, and when.
type told struct {
	at  time.Duration
	is  string // holder, "" for none
	err error
}

// listen has e watch until ctx ends. From then on the test acts between two whole seconds.
func listen(ctx context.Context, e *Election, err error) *oracle {
	o := &oracle{began: time.Now(), err: err}
	go e.watch(ctx, o.ask, func(st relock.State, err error) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.told = append(o.told, told{time.Since(o.began), st.Holder, err})
		return true
	})
	time.Sleep(time.Second / 2)
	return o
}

func (o *oracle) ask(context.Context) (relock.State, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, time.Since(o.began))
	return o.is, o.err
}

// says changes the answer.
func (o *oracle) says(is relock.State, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.is, o.err = is, err
}

// heard returns what Watch has told since the last call, and when it asked.
func (o *oracle) heard() (all []told, asked []time.Duration) {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	all, asked = o.told, o.asked
	o.told, o.asked = nil, nil
	return all, asked
}

func heldBy(holder string) relock.State { return relock.State{Held: true, Holder: holder} }

// Watch asks each second, and tells changes alone.
func TestWatchTellsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := listen(t.Context(), New(nil), nil)
		for _, is := range []relock.State{
			{}, heldBy("a"), heldBy("a"), heldBy("b"),
			{Held: true, Holder: "b", TTL: 7, Reserved: 9}, // renewed
			{Held: true, Holder: "b", Client: relock.ClientInfo{Name: "billing"}},
			heldBy("b"), // its name could not be had
			{},
		} {
			o.says(is, nil)
			time.Sleep(watchEvery)
		}
		all, asked := o.heard()
		require.Equal(t, []told{{0, "", nil}, {2e9, "a", nil}, {4e9, "b", nil}, {6e9, "b", nil}, {8e9, "", nil}}, all)
		require.Len(t, asked, 9)
	})
}

// While Redis does not answer, Watch says so once, and asks ever more seldom. Then it tells the leader anew.
func TestWatchBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := &relock.NodeError{Op: "inspect", Err: errors.New("down")}
		o := listen(t.Context(), New(nil), down)
		time.Sleep(30 * time.Second)
		all, asked := o.heard()
		require.Equal(t, []told{{0, "", down}}, all)
		require.Equal(t, []time.Duration{0, 1e9, 3e9, 7e9, 15e9, 23e9}, asked)

		o.says(heldBy("a"), nil)
		time.Sleep(2 * time.Second)
		split := &relock.QuorumError{Op: "inspect"}
		o.says(relock.State{}, split)
		time.Sleep(2 * time.Second)
		o.says(heldBy("a"), nil)
		time.Sleep(3 * time.Second)
		all, asked = o.heard()
		require.Equal(t, []told{{31e9, "a", nil}, {33e9, "", split}, {36e9, "a", nil}}, all)
		require.Equal(t, []time.Duration{31e9, 32e9, 33e9, 34e9, 36e9, 37e9}, asked)
	})
}

// An error that no retry heals is the last word, also while Redis does not answer.
func TestWatchEndsByItself(t *testing.T) {
	t.Parallel()
	for _, err := range []error{relock.ErrClosed, relock.ErrInvalidName} {
		synctest.Test(t, func(t *testing.T) {
			down := &relock.NodeError{Op: "inspect", Err: errors.New("down")}
			o := listen(t.Context(), New(nil), down)
			o.says(relock.State{}, err)
			time.Sleep(time.Hour)
			all, asked := o.heard()
			require.Equal(t, []told{{0, "", down}, {1e9, "", err}}, all)
			require.Len(t, asked, 2)
		})
	}
}

// Watch ends with its context, at once and without a word, and with its loop.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{began: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		n := 0
		New(nil).watch(ctx, o.ask, func(relock.State, error) bool { n++; return true })
		require.Equal(t, time.Second/2, time.Since(o.began))
		require.Equal(t, 1, n)
		for _, err := range []error{nil, &relock.NodeError{}} {
			o.says(relock.State{}, err)
			New(nil).watch(t.Context(), o.ask, func(relock.State, error) bool { n++; return false })
		}
		require.Equal(t, 3, n)
		require.Equal(t, time.Second/2, time.Since(o.began))
		var none context.Context
		var err error
		for _, err = range New(nil).Watch(none) {
		}
		require.ErrorIs(t, err, relock.ErrMisuse)
	})
}

// A process sees its own terms begin and end at once, and asks nothing in between. If it has lost the lead, and its function
// goes on, Watch asks again.
func TestWatchOfTheLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := New(nil)
		o := listen(t.Context(), e, nil)
		leads, end := context.WithCancelCause(t.Context())
		o.says(heldBy("me"), nil)
		e.tell(term{leads, end})
		time.Sleep(time.Minute)
		all, asked := o.heard()
		require.Equal(t, []told{{0, "", nil}, {5e8, "me", nil}}, all)
		require.Len(t, asked, 2)

		o.says(heldBy("other"), nil)
		end(relock.ErrLost)
		time.Sleep(3*time.Second + time.Second/2)
		all, asked = o.heard()
		require.Equal(t, []told{{605e8, "other", nil}}, all)
		require.Len(t, asked, 4)

		o.says(relock.State{}, nil)
		e.tell(term{})
		all, _ = o.heard()
		require.Equal(t, []told{{64e9, "", nil}}, all)
	})
}

// Leader and Watch tell the leader's name, to those that lead and to those that only look.
func TestLeaderByName(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, process func(...relock.ClientOption) *relock.Client) {
		looks := New(process(relock.WithClientName("looks")).Mutex(name))
		st, err := looks.Leader(t.Context())
		require.NoError(t, err)
		require.False(t, st.Held)
		a := stand(t, process(relock.WithClientName("a")), !deaf)
		a.leads()
		for _, e := range []*Election{looks, a.Election} {
			require.Eventually(t, func() bool { // the name is written beside the first hold
				st, err := e.Leader(t.Context())
				return err == nil && st.Client.Name == "a"
			}, locktest.Patience, time.Millisecond)
		}
		b := stand(t, process(relock.WithClientName("b")), !deaf)
		waiting(t, process(), 1)
		seen := make(chan string, 100)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for st, err := range looks.Watch(ctx) {
				if err == nil && st.Client.Name != "" {
					seen <- st.Client.Name
				}
			}
		}()
		require.Equal(t, "a", locktest.Within(t, seen))
		a.Resign()
		passed(t, a, b, true)
		require.Equal(t, "b", locktest.Within(t, seen))
		cancel()
		locktest.Within(t, ended)
	})
}

// A term's end is told once the lock can be had: whoever asks then sees the next leader, and need not ask again a second later.
func TestEndOfATermIsToldBehindTheUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	tap := faults.NewClient(s.Client())
	other := process(t, s)
	a := stand(t, locktest.Client(t, tap), deaf)
	first := a.leads()
	b := stand(t, other, !deaf)
	waiting(t, other, 1)
	require.Eventually(t, func() bool { // else the unlock passes over it
		return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", wire.InboxPrefix+other.ID()), "1")
	}, locktest.Patience, time.Millisecond)
	a.mu.Lock()
	changed := a.changed
	a.mu.Unlock()

	tap.Filter(faults.Next(faults.Script("release"), faults.Hold))
	a.Resign()
	first.fails(nil)
	locktest.Within(t, tap.Told()) // the unlock is on its way
	st, err := b.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, first.token, st.HolderToken)
	select {
	case <-changed:
		t.Error("the term's end is told, and the lock is not free yet")
	default:
	}
	tap.Release()
	locktest.Within(t, changed)
	st, err = a.Leader(t.Context())
	require.NoError(t, err)
	require.True(t, st.Held)
	require.Equal(t, b.leads().token, st.HolderToken)
}

// A user without rights hears that at once, as the last word.
func TestWatchRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~none", "&*", "+@all"))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	var last error
	for _, last = range New(locktest.Client(t, rdb).Mutex(name)).Watch(t.Context()) {
	}
	require.ErrorIs(t, last, relock.ErrRefused)
}

// Watch hears of a term's end once the lock can be had: it then asks, and finds the next leader rather than the one before.
func TestTheEndIsToldOnceTheLockCanBeHad(t *testing.T) {
	t.Parallel()
	w := locktest.Faulty(redistest.Start(t))
	a := stand(t, locktest.Client(t, w), deaf)
	first := a.leads()
	a.mu.Lock()
	changed := a.changed
	a.mu.Unlock()
	w.Filter(faults.Next(faults.Script("release"), faults.Hold))
	a.Resign()
	require.Equal(t, ErrResigned, first.over(t))
	first.returns <- func() error { return nil }
	locktest.Within(t, w.Told())
	select {
	case <-changed:
		t.Error("it was told before the lock was given back")
	default:
	}
	w.Release()
	locktest.Within(t, changed)
}

// A leader that has lost the lock gives no way to the process that waits for it.
func TestNoWayIsGivenAfterALoss(t *testing.T) {
	leads, lost := context.WithCancelCause(t.Context())
	lost(relock.ErrLost)
	term{leads, func(error) { t.Error("it was ended once more") }}.over(ErrGaveWay)
	term{}.over(ErrResigned)
}
