package clock

// Due is what a Heap orders. It knows its place in the heap, so that it can be moved or removed
// without a search.
type Due interface {
	DueAt() Stamp
	Place() *int // -1 outside of the heap
}

// Heap is a container/heap of what is to be looked at, the earliest first.
type Heap[T Due] []T

// Len is container/heap's.
func (h Heap[T]) Len() int { return len(h) }

// Less is container/heap's.
func (h Heap[T]) Less(i, j int) bool { return h[i].DueAt().Before(h[j].DueAt()) }

// Swap is container/heap's.
func (h Heap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].Place(), *h[j].Place() = i, j
}

// Push is container/heap's.
func (h *Heap[T]) Push(x any) {
	item := x.(T)
	*item.Place() = len(*h)
	*h = append(*h, item)
}

// Pop is container/heap's.
func (h *Heap[T]) Pop() any {
	var none T
	old := *h
	item := old[len(old)-1]
	old[len(old)-1] = none
	*item.Place() = -1
	*h = old[:len(old)-1]
	return item
}
