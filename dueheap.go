package relock

import "github.com/relock-go/relock/internal/clock"

// dueItem is what a dueHeap orders: it knows when it is due, and its place in the heap.
type dueItem interface {
	dueAt() clock.Stamp
	place() *int // -1 outside of the heap
}

// dueHeap is a container/heap of what is to be looked at, the earliest first.
type dueHeap[T dueItem] []T

func (q dueHeap[T]) Len() int           { return len(q) }
func (q dueHeap[T]) Less(i, j int) bool { return q[i].dueAt().Before(q[j].dueAt()) }
func (q dueHeap[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	*q[i].place(), *q[j].place() = i, j
}

// Push is container/heap's.
func (q *dueHeap[T]) Push(x any) {
	item := x.(T)
	*item.place() = len(*q)
	*q = append(*q, item)
}

// Pop is container/heap's.
func (q *dueHeap[T]) Pop() any {
	var none T
	old := *q
	item := old[len(old)-1]
	old[len(old)-1] = none
	*item.place() = -1
	*q = old[:len(old)-1]
	return item
}
