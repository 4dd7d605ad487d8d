package operator

import (
	"cmp"
	"strings"
)

// An Order is what locks are sorted by.
type Order string

// The orders. What an operator looks for stands first.
const (
	ByWaiters Order = "waiters"
	ByAge     Order = "age"
	ByName    Order = "name"
)

// Valid reports whether there is such an order.
func (o Order) Valid() bool { return o == ByWaiters || o == ByAge || o == ByName }

// Compare is for slices.SortStableFunc.
func (o Order) Compare(a, b Sighting) int {
	switch o {
	case ByWaiters:
		return cmp.Or(b.Waiters-a.Waiters, cmp.Compare(b.Longest, a.Longest), cmp.Compare(b.Age, a.Age))
	case ByAge:
		return cmp.Compare(b.Age, a.Age)
	default:
		return strings.Compare(a.Names.Name, b.Names.Name)
	}
}
