package world

import "math/rand/v2"

// Kind is a kind of lock: what actors do with it, and who may hold it together.
type Kind interface {
	// Round is one thing that an actor does. It may leave nothing held.
	Round(a *Actor, r *rand.Rand)
	// Together reports whether two leases of one lock may be live at once.
	Together(a, b *Held) bool
}
