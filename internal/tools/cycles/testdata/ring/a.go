// Package ring has cycles of each kind.
package ring

// Front uses Room by a field.
type Front struct{ room *Room }

// Guest is used by all and uses nobody. A type parameter has the name of another type.
type Guest[Front any] struct{ name Front }

// Enter is a method.
func (f *Front) Enter(g Guest[string]) string { return f.room.number(g.name) }
