package ring

const limit = "none"

// Porter and Bell are a cycle that is smaller.
type Porter struct{ bell *Bell }

// Bell uses Porter by a field's name alone.
type Bell struct{ count int }

func (b *Bell) ring(door interface{ open() *Bell }) { answer().bell = b }

func answer() *Porter { return nil }
