package clock

// Signal wakes a goroutine to look at what changed. It has one slot: signals that are given before
// the goroutine takes one are one signal, and none is lost.
type Signal chan struct{}

// NewSignal returns a signal that was not given.
func NewSignal() Signal { return make(Signal, 1) }

// Poke gives the signal. It never blocks.
func (s Signal) Poke() {
	select {
	case s <- struct{}{}:
	default:
	}
}
