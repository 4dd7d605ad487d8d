package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/bench/internal/board"
)

const (
	holdLimit = 30 * time.Second // to take a lock that is free
	takers    = 64               // goroutines that Take and Drop share the work among
)

func (w *worker) hold(r Request) (Reply, error) {
	ctx, cancel := context.WithCancel(context.Background())
	limit := time.AfterFunc(holdLimit, cancel)
	defer limit.Stop() // some peers' locks end with the context they were taken under
	var o overlaps
	for range max(1, r.Permits) {
		h, err := w.enterAny(ctx, r, &o)
		if err != nil {
			cancel()
			return Reply{}, err
		}
		h.cancel = cancel
		w.holding = append(w.holding, h)
	}
	return Reply{At: board.Now(), Overlaps: o.count()}, nil
}

// enterAny takes the lock, or a permit.
func (w *worker) enterAny(ctx context.Context, r Request, o *overlaps) (holding, error) {
	if r.Permits > 0 {
		return w.acquire(ctx, r.Key, r.Slot, r.Permits, 1, o)
	}
	return w.enter(ctx, r.Key, r.Slot, id(0), o)
}

// countPermits takes one permit more than there should be.
func (w *worker) countPermits(r Request) (Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.Millis)*time.Millisecond)
	defer cancel()
	var held []holding
	var o overlaps
	var err error
	for len(held) <= r.Permits {
		var h holding
		if h, err = w.enterAny(ctx, r, &o); err != nil {
			break
		}
		held = append(held, h)
	}
	if ctx.Err() != nil {
		err = nil // no more are to be had
	}
	for _, h := range held {
		err = errors.Join(err, w.leave(h, &o))
	}
	return Reply{Counts: []int64{int64(len(held))}, Overlaps: o.count()}, err
}

func (w *worker) release() (Reply, error) {
	if w.holding == nil {
		return Reply{}, errors.New("release: nothing is held")
	}
	var o overlaps
	var err error
	at := board.Now()
	for _, h := range w.holding {
		err = errors.Join(err, w.leave(h, &o))
		h.cancel()
	}
	w.holding = nil
	return Reply{At: at, Overlaps: o.count()}, err
}

// visit takes and leaves the lock once. If it does not get the lock in time, the wait is the whole time.
func (w *worker) visit(r Request) (Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.Millis)*time.Millisecond)
	defer cancel()
	l := newLoop(w, r)
	began := board.Now()
	h, err := l.until(ctx, r.Key, r.Slot, id(0))
	granted := board.Now()
	rep := Reply{Waited: granted - began}
	if err == nil {
		rep.At, rep.Counts = granted, []int64{1}
		if err := w.leave(h, &l.overlaps); err != nil {
			l.fail(err)
		}
	}
	rep.Failed, rep.Failure, rep.Overlaps = l.failed, l.failure, l.overlaps.count()
	return rep, nil
}

// waiting has goroutines that each take one lock once.
type waiting struct {
	loop   *loop
	cancel context.CancelFunc
	back   chan struct{}
	n      int
	first  atomic.Int64 // when the first of them had the lock
}

func (w *worker) wait(r Request) (Reply, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l := newLoop(w, r)
	v := &waiting{loop: l, cancel: cancel, back: make(chan struct{}, r.Goroutines), n: r.Goroutines}
	w.waiting = v
	var asked sync.WaitGroup
	asked.Add(r.Goroutines)
	for g := range r.Goroutines {
		go v.want(ctx, g, &asked)
	}
	asked.Wait()
	return Reply{At: board.Now()}, nil
}

func (v *waiting) want(ctx context.Context, g int, asked *sync.WaitGroup) {
	defer func() { v.back <- struct{}{} }()
	l := v.loop
	asked.Done()
	began := board.Now()
	h, err := l.until(ctx, l.r.Key, l.r.Slot, id(g))
	if err != nil {
		return
	}
	granted := board.Now()
	v.first.CompareAndSwap(0, granted)
	last := l.w.board.LastExit(l.r.Slot)
	err = l.w.leave(h, &l.overlaps)
	l.waited(g, began, granted, last)
	if err != nil {
		l.fail(err)
	}
}

// join waits for the goroutines of Wait, and cancels the ones that have not had the lock in time.
func (w *worker) join(r Request) (Reply, error) {
	v := w.waiting
	if v == nil {
		return Reply{}, errors.New("join: nobody waits")
	}
	w.waiting = nil
	limit := time.NewTimer(time.Duration(r.Millis) * time.Millisecond)
	defer limit.Stop()
	left := v.n
	for late := false; left > 0 && !late; {
		select {
		case <-v.back:
			left--
		case <-limit.C:
			late = true
		}
	}
	v.cancel()
	rep, err := v.loop.reply(Usage{}, outstanding(v.back, left))
	rep.At, rep.Counts = v.first.Load(), []int64{int64(v.n - left)}
	return rep, err
}

func (w *worker) take(r Request) (Reply, error) {
	w.taken = make([]holding, r.Goroutines)
	errs := make(chan error, takers)
	var next atomic.Int64
	var o overlaps
	for range takers {
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(w.taken) {
					errs <- nil
					return
				}
				h, err := w.takeOne(fmt.Sprintf("%s:%d", r.Key, i), r.Slot+i, id(i), &o)
				if err != nil {
					errs <- err
					return
				}
				w.taken[i] = h
			}
		}()
	}
	var err error
	for range takers {
		err = errors.Join(err, <-errs)
	}
	return Reply{At: board.Now(), Overlaps: o.count()}, err
}

// takeOne takes a lock that nobody else wants. If the peer gives up under the load, it tries again, five times in all.
func (w *worker) takeOne(key string, slot int, id int64, o *overlaps) (h holding, err error) {
	for range 5 {
		if h, err = w.enter(context.Background(), key, slot, id, o); err == nil {
			return h, nil
		}
	}
	return h, err
}

// drop unlocks the locks that Take took, and counts the ones that were lost meanwhile.
func (w *worker) drop() (Reply, error) {
	var lost, next atomic.Int64
	var failure atomic.Value
	var wg sync.WaitGroup
	var o overlaps
	for range takers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(w.taken)); i = next.Add(1) - 1 {
				h := w.taken[i]
				gone := h.held.Context().Err()
				if err := errors.Join(gone, w.leave(h, &o)); err != nil {
					lost.Add(1)
					failure.Store(err.Error())
				}
			}
		})
	}
	wg.Wait()
	w.taken = nil
	rep := Reply{Lost: lost.Load(), Overlaps: o.count()}
	rep.Failure, _ = failure.Load().(string)
	return rep, nil
}
