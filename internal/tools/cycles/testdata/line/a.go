// Package line has no cycle: a plain function may use the type above it.
package line

// Upper uses lower, and itself.
type Upper struct {
	next *Upper
	lower
}

func (u *Upper) get() int { return u.next.value + helper() }
