package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/opening"
	"github.com/relock-go/relock/internal/wire"
)

const (
	scanCount = 200 // keys that one SCAN walks, in some tenths of a millisecond
	// hashCount is the number of fields that one HSCAN walks. Redis keeps a hash of up to that many
	// in one piece, and returns it whole.
	hashCount = 128
)

// AnswerTime bounds how long an operator waits for an answer of Redis.
const AnswerTime = 5 * time.Second

// Soon returns a context for one question to Redis: the locks' own timeouts do not bound it.
func Soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, AnswerTime)
}

// A Reader inspects locks by commands that only read, each short however much Redis keeps. A user
// who has no other rights can use it. Its methods may be called from any goroutine.
type Reader struct {
	nodes  []driver.Reader
	prefix string
	need   int // how many nodes must keep a lock
}

// NewReader returns a reader of the locks on one Redis, or on a quorum of several of which more than
// half must keep a lock. The locks' names in Redis start with prefix.
func NewReader(nodes []driver.Reader, prefix string) *Reader {
	return &Reader{nodes: nodes, prefix: prefix, need: len(nodes)/2 + 1}
}

// ReaderOf returns a reader of a client's locks, on the client's own connections. It fails for a nil
// client, one that New did not make, and one whose Redis is not a server, as that of a test kit.
func ReaderOf(locks *relock.Client) (*Reader, error) {
	nodes, need, prefix := opening.Behind(locks)
	if len(nodes) == 0 {
		return nil, errors.New("the relock.Client is nil, or was not made by New")
	}
	r := &Reader{prefix: prefix, need: need}
	for _, rdb := range nodes {
		node, reads := rdb.(driver.Reader)
		if !reads {
			return nil, fmt.Errorf("the relock.Client is over a %T, whose keys cannot be listed: it takes a real Redis", rdb)
		}
		r.nodes = append(r.nodes, node)
	}
	return r, nil
}

// All returns the locks whose names match a pattern of Redis's, by name.
func (r *Reader) All(ctx context.Context, pattern string) ([]Sighting, error) {
	return r.everywhere(func(rdb driver.Reader) ([]Sighting, error) {
		var found []Sighting
		clock := clockOf(ctx, rdb)
		err := scan(ctx, rdb, r.sweeps(pattern), func(names []*wire.Names) error {
			seen, err := r.read(ctx, rdb, names, clock)
			found = append(found, seen...)
			return err
		})
		introduce(ctx, rdb, found)
		return slices.DeleteFunc(found, func(s Sighting) bool { return s.Kind == "" }), err
	})
}

// These returns a sighting of each lock with these names, in their order, even of locks that no owner
// holds.
func (r *Reader) These(ctx context.Context, names []*wire.Names) ([]Sighting, error) {
	found, err := r.everywhere(func(rdb driver.Reader) ([]Sighting, error) {
		seen, err := r.read(ctx, rdb, names, clockOf(ctx, rdb))
		introduce(ctx, rdb, seen)
		return seen, err
	})
	if err != nil {
		return nil, err
	}
	at := make(map[string]int)
	for i, n := range names {
		at[n.Name] = i
	}
	slices.SortFunc(found, func(a, b Sighting) int { return at[a.Names.Name] - at[b.Names.Name] })
	return found, nil
}

// Names returns the keys of a lock. It fails for a name that no lock can have.
func (r *Reader) Names(name string) (*wire.Names, error) { return wire.Mutex.Names(r.prefix, name) }

// One returns a sighting of one lock, with what its holders' clients say of themselves.
func (r *Reader) One(ctx context.Context, name string) (Sighting, error) {
	names, err := r.Names(name)
	if err != nil {
		return Sighting{}, err
	}
	found, err := r.These(ctx, []*wire.Names{r.guess(ctx, names)})
	if err != nil {
		return Sighting{}, err
	}
	r.introduceHolders(ctx, found[0].Holders)
	return found[0], nil
}

// guess returns the names of the semaphore with the same name if a text stands there, so that Redis is
// not asked for the fields of a text: monitors count such errors.
func (r *Reader) guess(ctx context.Context, names *wire.Names) *wire.Names {
	semaphore, err := wire.Semaphore.Names(r.prefix, names.Name)
	if err != nil || len(r.nodes) > 1 {
		return names
	}
	ctx, cancel := Soon(ctx)
	defer cancel()
	said, err := r.nodes[0].Read(ctx, []string{"TYPE", names.Lock})
	if err == nil {
		if kind, _ := said[0].Text(); kind == "string" {
			return semaphore
		}
	}
	return names
}

// everywhere asks all nodes at once and merges their answers. A minority may be down.
func (r *Reader) everywhere(ask func(driver.Reader) ([]Sighting, error)) ([]Sighting, error) {
	var (
		wg     sync.WaitGroup
		seen   = make([][]Sighting, len(r.nodes))
		failed = make([]error, len(r.nodes))
		byName = make(map[string][]Sighting)
		down   int
	)
	for i, rdb := range r.nodes {
		wg.Go(func() { seen[i], failed[i] = ask(rdb) })
	}
	wg.Wait()
	for i, said := range seen {
		if failed[i] != nil {
			down++
			continue
		}
		known := make(map[string]bool) // several keys of a lock are scanned, and one that moves is twice
		for _, s := range said {
			if name := s.Names.Name; !known[name] {
				known[name] = true
				byName[name] = append(byName[name], s)
			}
		}
	}
	if len(r.nodes)-down < r.need {
		return nil, errors.Join(failed...)
	}
	all := make([]Sighting, 0, len(byName))
	for _, said := range byName {
		if len(r.nodes) > 1 {
			said[0] = merge(said, r.need)
		}
		all = append(all, said[0])
	}
	slices.SortFunc(all, func(a, b Sighting) int { return strings.Compare(a.Names.Name, b.Names.Name) })
	return all, nil
}

// Literal returns the pattern that matches text alone.
func Literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// page reads an answer of SCAN or HSCAN: the next cursor and what was found.
func page(v driver.Value) (next string, found []string, err error) {
	parts, err := v.Values()
	if err != nil {
		return "", nil, err
	}
	if len(parts) != 2 {
		return "", nil, fmt.Errorf("%d parts of a page, not 2", len(parts))
	}
	if next, err = parts[0].Text(); err != nil {
		return "", nil, err
	}
	found, err = parts[1].Texts()
	return next, found, err
}
