package clock

import (
	"container/heap"
	"context"
	"math"
	"time"
)

// Slot is the place of a value in a Schedule. The value's type embeds it.
type Slot struct {
	Due   Stamp // when to look at the value
	place int   // of the value in the heap, from 1; 0 outside
}

// Placed returns the slot itself: by it a Schedule finds the slot of a value that embeds one.
func (s *Slot) Placed() *Slot { return s }

// In reports whether the slot's value is in its schedule.
func (s *Slot) In() bool { return s.place > 0 }

// Schedule holds values that one goroutine is to look at, each at its time. Run is that goroutine.
// The other methods, and the slots, are guarded by a mutex of the schedule's owner.
type Schedule[T interface{ Placed() *Slot }] struct {
	queue queue[T]
	wake  Signal // given if a value is due before wakes
	wakes Stamp  // when Run wakes by itself; zero if nothing was in
}

// NewSchedule returns an empty schedule.
func NewSchedule[T interface{ Placed() *Slot }]() *Schedule[T] {
	return &Schedule[T]{wake: NewSignal()}
}

// Run calls look at once, and again when the time that look returned is over, or sooner if a value
// that is due before is put in. It returns when ctx has ended.
func (s *Schedule[T]) Run(ctx context.Context, look func() time.Duration) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		next.Reset(look())
	}
}

// Put adds x, or moves it if it is in already. x is due at due.
func (s *Schedule[T]) Put(x T, due, now Stamp) {
	slot := x.Placed()
	slot.Due = due
	if slot.In() {
		heap.Fix(&s.queue, slot.place-1)
	} else {
		heap.Push(&s.queue, x)
	}
	if s.wakes.IsZero() || due.Until(now) < s.wakes.Until(now) {
		s.wakes = due
		s.wake.Poke()
	}
}

// Drop removes x, if it is in. Run may still wake up for it: that costs less than to tell Run.
func (s *Schedule[T]) Drop(x T) {
	if slot := x.Placed(); slot.In() {
		heap.Remove(&s.queue, slot.place-1)
	}
}

// Next removes and returns the value that is due first, if that is at horizon or before.
func (s *Schedule[T]) Next(horizon Stamp) (x T, due bool) {
	if len(s.queue) == 0 || !s.queue[0].Placed().Due.Reached(horizon) {
		return x, false
	}
	return heap.Pop(&s.queue).(T), true
}

// UntilNext is for look to return: the time until the next value is due, but most at most, or for
// ever if the schedule is empty.
func (s *Schedule[T]) UntilNext(now Stamp, most time.Duration) time.Duration {
	if len(s.queue) == 0 {
		s.wakes = Stamp{}
		return math.MaxInt64
	}
	wait := min(max(0, s.queue[0].Placed().Due.Until(now)), most)
	s.wakes = now.Add(wait)
	return wait
}

// All returns the values that are in, in no order. It is valid until the next Put, Drop or Next.
func (s *Schedule[T]) All() []T { return s.queue }

// queue is a heap of values, ordered by when they are due, for container/heap.
type queue[T interface{ Placed() *Slot }] []T

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].Placed().Due.Before(q[j].Placed().Due) }

func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].Placed().place, q[j].Placed().place = i+1, j+1
}

func (q *queue[T]) Push(x any) {
	*q = append(*q, x.(T))
	x.(T).Placed().place = len(*q)
}

func (q *queue[T]) Pop() any {
	var none T
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last], *q = none, (*q)[:last]
	x.Placed().place = 0
	return x
}
