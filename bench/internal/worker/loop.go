package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/relock-go/relock/bench/internal/board"
	"github.com/relock-go/relock/bench/internal/peer"
)

// loop runs goroutines that lock and unlock as fast as they can. It counts the grants between Start and the end. The
// goroutines run before and after that, so waits that Start cuts off and waits that the end cuts off balance each
// other. A goroutine that waited in vain from Start to the end counts with its wait so far, so that starving is seen.
type loop struct {
	w   *worker
	r   Request
	end int64

	stop     atomic.Bool
	counts   []atomic.Int64
	since    []atomic.Int64 // when the goroutine began to wait, 0 while it does not
	overlaps overlaps

	shards [shards]shard // goroutine g writes into shards[g % shards]

	mu      sync.Mutex // guards the fields below
	failed  int64
	failure string
	arrived []int64 // of acquisitions with weights
	granted []int64
}

// shards spread the measurements over several mutexes, so that goroutines seldom wait for each other.
const shards = 8

type shard struct {
	mu       sync.Mutex // guards the fields below
	wait     *hdrhistogram.Histogram
	handover *hdrhistogram.Histogram
	pair     *hdrhistogram.Histogram
}

func newLoop(w *worker, r Request) *loop {
	return &loop{
		w: w, r: r, end: r.Start + r.Millis*int64(time.Millisecond),
		counts: make([]atomic.Int64, r.Goroutines), since: make([]atomic.Int64, r.Goroutines),
	}
}

// grow makes the histograms, if there are none yet. It waits for the first measurement, since a run of waiters measures
// memory until then.
func (s *shard) grow() {
	if s.wait == nil {
		s.wait, s.handover, s.pair = newHistogram(), newHistogram(), newHistogram()
	}
}

func (w *worker) loop(r Request) (Reply, error) {
	l := newLoop(w, r)
	for i := range l.shards {
		l.shards[i].grow()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := make(chan struct{})
	back := make(chan struct{}, r.Goroutines)
	for g := range r.Goroutines {
		go func() {
			<-begin
			l.run(ctx, g)
			back <- struct{}{}
		}()
	}
	time.Sleep(time.Until(board.Time(r.Start - r.WarmMS*int64(time.Millisecond))))
	close(begin)
	time.Sleep(time.Until(board.Time(r.Start)))
	before := w.usage()
	time.Sleep(time.Until(board.Time(l.end)))
	l.stop.Store(true)
	used := w.usage().Sub(before)
	l.censor()
	cancel()
	return l.reply(used, outstanding(back, r.Goroutines))
}

// outstanding waits for n goroutines to end, and returns how many did not within grace.
func outstanding(back <-chan struct{}, n int) int {
	limit := time.NewTimer(grace)
	defer limit.Stop()
	for ; n > 0; n-- {
		select {
		case <-back:
		case <-limit.C:
			return n
		}
	}
	return 0
}

// censor records the waits of goroutines that have waited from before Start to the end.
func (l *loop) censor() {
	for g := range l.since {
		began := l.since[g].Load()
		if began > 0 && began < l.r.Start {
			l.waited(g, began, l.end, 0)
		}
		if began > 0 && began < l.end {
			l.order(began, l.end)
		}
	}
}

func (l *loop) reply(used Usage, hung int) (Reply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rep := Reply{Usage: used, Hung: hung, Failed: l.failed, Failure: l.failure, Overlaps: l.overlaps.count(),
		Arrived: l.arrived, Granted: l.granted}
	for g := range l.counts {
		rep.Counts = append(rep.Counts, l.counts[g].Load())
	}
	wait, handover, pair := newHistogram(), newHistogram(), newHistogram()
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.grow()
		wait.Merge(s.wait)
		handover.Merge(s.handover)
		pair.Merge(s.pair)
		s.mu.Unlock()
	}
	var err error
	for _, h := range []struct {
		to   *[]byte
		from *hdrhistogram.Histogram
	}{{&rep.Wait, wait}, {&rep.Handover, handover}, {&rep.Pair, pair}} {
		if *h.to, err = h.from.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err != nil {
			return rep, fmt.Errorf("histogram: %w", err)
		}
	}
	return rep, nil
}

func (l *loop) run(ctx context.Context, g int) {
	key, slot := l.r.Key, l.r.Slot
	if l.r.KeyEach {
		key, slot = fmt.Sprintf("%s:%d", key, g), slot+g
	}
	first := key
	for n := 0; !l.stop.Load(); n++ {
		if l.r.KeyOnce {
			key = first + ":" + strconv.Itoa(n)
		}
		began := board.Now()
		l.since[g].Store(began)
		h, err := l.until(ctx, key, slot, id(g))
		if err != nil {
			return
		}
		granted := board.Now()
		l.since[g].Store(0)
		last := h.lastExit(l.w.board)
		if granted <= l.end {
			l.order(began, granted)
		}
		inner := l.nest(h.held, key, granted)
		work(time.Duration(l.r.CSMicros) * time.Microsecond)
		err = l.w.leave(h, &l.overlaps)
		l.count(g, began, granted, last, inner)
		if err != nil {
			l.fail(err)
		}
	}
}

// until takes the lock. If the peer gives up, it tries again until ctx ends, as a user would that needs the lock.
func (l *loop) until(ctx context.Context, key string, slot int, id int64) (holding, error) {
	for {
		h, err := l.enter(ctx, key, slot, id)
		if err == nil || ctx.Err() != nil {
			return h, err
		}
		l.fail(err)
	}
}

// enter takes the lock, one side of a read-write lock, permits, or some of several locks.
func (l *loop) enter(ctx context.Context, key string, slot int, id int64) (holding, error) {
	if l.r.Permits > 0 {
		return l.w.acquire(ctx, key, slot, l.r.Permits, 1+rand.IntN(max(1, l.r.Weights)), &l.overlaps)
	}
	if l.r.Locks > 0 {
		return l.w.enterSeveral(ctx, l.r, id, &l.overlaps)
	}
	if l.r.Reads > 0 {
		return l.w.enterRW(ctx, rand.IntN(100) < l.r.Reads, key, slot, id, &l.overlaps)
	}
	return l.w.enter(ctx, key, slot, id, &l.overlaps)
}

// order notes when an acquisition with weights was asked for and granted, those outside of the time that counts too.
func (l *loop) order(began, granted int64) {
	if l.r.Weights == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrived, l.granted = append(l.arrived, began), append(l.granted, granted)
}

// fail counts an error. Errors after the end do not count: all waits are cancelled then.
func (l *loop) fail(err error) {
	if l.stop.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed++
	l.failure = strings.ReplaceAll(err.Error(), "\n", "; ")
}

// nest enters the lock again, as deep as asked for, and leaves the inner holds at once. It returns how long the first
// inner Lock took, 0 if there was none.
func (l *loop) nest(outer peer.Held, key string, from int64) int64 {
	var first int64
	var held []peer.Held
	for h := outer; len(held) < l.r.Depth-1; {
		inner, err := l.w.peer.Lock(h.Context(), key)
		if err != nil {
			l.fail(err)
			break
		}
		if first == 0 {
			first = board.Now() - from
		}
		held, h = append(held, inner), inner
	}
	for i := len(held) - 1; i >= 0; i-- {
		if err := held[i].Unlock(context.Background()); err != nil {
			l.fail(err)
		}
	}
	return first
}

// count records an acquisition, if it was granted between Start and the end.
func (l *loop) count(g int, began, granted, last, inner int64) {
	if granted < l.r.Start || granted > l.end {
		return
	}
	l.counts[g].Add(int64(max(1, l.r.Depth)))
	waited := granted - began
	if inner > 0 {
		waited, last = inner, 0
	}
	l.waited(g, granted-waited, granted, last)
	if l.r.CSMicros == 0 && (l.r.KeyEach || l.r.Goroutines == 1) {
		took := board.Now() - began
		s := &l.shards[g%shards]
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.pair.RecordValue(took)
	}
}

// waited records the wait of goroutine g. last is when the holder before began to unlock. If that was during the wait,
// the rest of the wait was the hand-over.
func (l *loop) waited(g int, began, granted, last int64) {
	s := &l.shards[g%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grow()
	_ = s.wait.RecordValue(granted - began)
	if last > began {
		_ = s.handover.RecordValue(max(0, granted-last))
	}
}

// work is a critical section of length d. It sleeps for most of d and spins for the rest, to be exact.
func work(d time.Duration) {
	if d == 0 {
		return
	}
	begin := time.Now()
	if slack := 200 * time.Microsecond; d > 2*slack {
		doze(d - slack)
	}
	for time.Since(begin) < d {
	}
}
