package sim

import (
	"hash/fnv"
	"slices"
	"sort"
)

// The limits up to which Redis keeps a hash in its compact form, where fields stand in the order of their arrival.
const (
	compactFields = 512
	compactBytes  = 64
)

type field struct{ name, value string }

// hash keeps its fields in the order of their arrival; index finds them where they are many.
type hash struct {
	fields []field
	index  map[string]int
	large  bool // has left the compact form, which it never takes again
}

const indexFrom = 16

func (h *hash) clone() *hash {
	copied := &hash{fields: slices.Clone(h.fields), large: h.large}
	copied.reindex()
	return copied
}

func (h *hash) reindex() {
	h.index = nil
	if len(h.fields) < indexFrom {
		return
	}
	h.index = make(map[string]int, len(h.fields))
	for i := range h.fields {
		h.index[h.fields[i].name] = i
	}
}

func (h *hash) find(name string) int {
	if h.index != nil {
		if i, ok := h.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range h.fields {
		if h.fields[i].name == name {
			return i
		}
	}
	return -1
}

func (h *hash) get(name string) (string, bool) {
	i := h.find(name)
	if i < 0 {
		return "", false
	}
	return h.fields[i].value, true
}

// set returns whether the field is new.
func (h *hash) set(name, value string) bool {
	if len(name) > compactBytes || len(value) > compactBytes {
		h.large = true
	}
	if i := h.find(name); i >= 0 {
		h.fields[i].value = value
		return false
	}
	h.fields = append(h.fields, field{name, value})
	switch {
	case h.index != nil:
		h.index[name] = len(h.fields) - 1
	case len(h.fields) >= indexFrom:
		h.reindex()
	}
	h.large = h.large || len(h.fields) > compactFields
	return true
}

func (h *hash) remove(name string) bool {
	i := h.find(name)
	if i < 0 {
		return false
	}
	h.fields = slices.Delete(h.fields, i, i+1)
	if h.index != nil {
		h.reindex()
	}
	return true
}

// all lists the fields as HGETALL does.
func (h *hash) all() []field {
	if !h.large {
		return h.fields
	}
	scattered := slices.Clone(h.fields)
	sort.SliceStable(scattered, func(i, j int) bool { return scatter(scattered[i].name) < scatter(scattered[j].name) })
	return scattered
}

// scatter orders what a real server keeps in the order of its hash function.
func scatter(name string) uint64 {
	sum := fnv.New64a()
	sum.Write([]byte(name))
	return sum.Sum64()
}
