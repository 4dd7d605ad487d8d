package relockotel

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// MaxNames is how many names an Observer tells apart. They are the results of WithLockName's function.
const MaxNames = 100

// otherName stands for all further names.
const otherName = "other"

// maxRecent is for how many locks at most the series is cached, which spares the call of WithLockName's
// function.
const maxRecent = 256

// names finds the series of a lock.
type names struct {
	rename   func(string) string
	produced bool // a Producer counts durations
	recent   [maxRecent]atomic.Pointer[recent]

	mu    sync.Mutex
	known map[nameKey]*series // guarded by mu
}

type nameKey struct{ sort, name string }

// recent caches the series of a lock. It never changes.
type recent struct {
	sort, lock string
	series     *series
}

var seed = maphash.MakeSeed()

// series returns the series of a lock, and caches it in place of another lock with the same hash.
func (n *names) series(sort, lock string) *series {
	place := &n.recent[maphash.String(seed, lock)%maxRecent]
	if r := place.Load(); r != nil && r.lock == lock && r.sort == sort {
		return r.series
	}
	r := &recent{sort: sort, lock: lock, series: n.named(sort, n.rename(lock))}
	place.Store(r)
	return r.series
}

// named returns the series of a name, or of otherName once there are too many names.
func (n *names) named(sort, name string) *series {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := nameKey{sort, name}
	if n.known[key] == nil && len(n.known) >= MaxNames {
		key.name = otherName
	}
	s := n.known[key]
	if s == nil {
		s = newSeries(key.sort, key.name, n.produced)
		n.known[key] = s
	}
	return s
}

// all returns the series that exist so far.
func (n *names) all() []*series {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.known))
}

// separators end a part of a lock's name.
const separators = ":/.-_|#@=,;+~ {}[]()<>"

// Anonymous is WithLockName's default: it puts a * in place of each part of a lock's name that has a
// digit in it, and of each UUID. Parts end at punctuation.
func Anonymous(lock string) string {
	var b strings.Builder
	for len(lock) > 0 {
		n := strings.IndexAny(lock, separators)
		switch {
		case uuidLeads(lock):
			n = uuidLength
			b.WriteByte('*')
		case n < 0:
			n = len(lock)
			fallthrough
		case n > 0:
			b.WriteString(part(lock[:n]))
		default:
			n = 1
			b.WriteByte(lock[0])
		}
		lock = lock[n:]
	}
	return b.String()
}

func part(of string) string {
	if strings.ContainsAny(of, "0123456789") {
		return "*"
	}
	return of
}

// uuidShape is a UUID with x for its digits.
const (
	uuidShape  = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	uuidLength = len(uuidShape)
)

// uuidLeads reports whether name begins with a UUID, and that part of the name does not go on after it.
func uuidLeads(name string) bool {
	if len(name) < uuidLength || len(name) > uuidLength && !strings.ContainsRune(separators, rune(name[uuidLength])) {
		return false
	}
	for i := range uuidLength {
		if isHex := strings.IndexByte("0123456789abcdefABCDEF", name[i]) >= 0; isHex != (uuidShape[i] == 'x') ||
			!isHex && name[i] != '-' {
			return false
		}
	}
	return true
}
