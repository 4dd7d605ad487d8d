package ring

// Room uses Keys by its method's body.
type Room struct{ keys func() Keys }

func (r *Room) number(name string) string { return r.keys().find(name, nil) }

// Keys uses Hall by a method's parameter.
type Keys interface {
	find(name string, hall *Hall) string
}

// Hall uses Front by a field that lies within another.
type Hall struct {
	inner struct{ front *Front }
}

func (h *Hall) find(name string, _ *Hall) string {
	all := h.inner.front
	return all.room.keys().find(name, h) + limit
}
