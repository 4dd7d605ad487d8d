package sim

import "sort"

type kind uint8

const (
	stringKind kind = iota
	hashKind
	zsetKind
)

// entry is what one key holds.
type entry struct {
	kind    kind
	text    string
	hash    *hash
	zset    *zset
	expires int64 // milliseconds since 1970, 0 for never
}

func (e *entry) clone() *entry {
	copied := *e
	if e.hash != nil {
		copied.hash = e.hash.clone()
	}
	if e.zset != nil {
		copied.zset = e.zset.clone()
	}
	return &copied
}

// keyspace is all that a server forgets when it loses its memory.
type keyspace map[string]*entry

func (k keyspace) clone() keyspace {
	copied := make(keyspace, len(k))
	for key, e := range k {
		copied[key] = e.clone()
	}
	return copied
}

// lookup returns what a key holds, nil where that is nothing. What has expired goes away here: on a replica it stays,
// unseen, until the master says so.
func (s *Server) lookup(key string) *entry {
	e := s.keys[key]
	if e == nil || e.expires == 0 || s.milli() <= e.expires {
		return e
	}
	if s.master == nil {
		delete(s.keys, key)
		s.propagate("DEL", key)
	} else if s.applying {
		return e
	}
	return nil
}

// typed returns what a key holds; bad where that is of another kind.
func (s *Server) typed(key string, want kind) (e *entry, bad bool) {
	e = s.lookup(key)
	return e, e != nil && e.kind != want
}

// opened is typed, and makes the key where it is missing.
func (s *Server) opened(key string, want kind) (e *entry, bad bool) {
	e, bad = s.typed(key, want)
	if e != nil {
		return e, bad
	}
	e = &entry{kind: want}
	switch want {
	case hashKind:
		e.hash = &hash{}
	case zsetKind:
		e.zset = &zset{}
	}
	s.keys[key] = e
	return e, false
}

// living lists the keys that have not expired, sorted.
func (s *Server) living() []string {
	names := make([]string, 0, len(s.keys))
	for key := range s.keys {
		names = append(names, key)
	}
	sort.Strings(names)
	kept := names[:0]
	for _, key := range names {
		if s.lookup(key) != nil {
			kept = append(kept, key)
		}
	}
	return kept
}
