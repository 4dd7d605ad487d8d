package line

type lower struct{ value int }

func (l *lower) set() { l.value = helper() }

func helper() int { return 0 }
