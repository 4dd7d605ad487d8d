package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
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

// Soon returns a context for one question to Redis. It bounds the client library, which would
// repeat an unanswered question.
func Soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, AnswerTime)
}

// A Reader inspects locks by commands that only read, each short however much Redis keeps. A user
// who has no other rights can use it. Its methods may be called from any goroutine.
type Reader struct {
	nodes  []rueidis.Client
	prefix string
	need   int // how many nodes must keep a lock
}

// NewReader returns a reader of the locks on one Redis, or on a quorum of several, whose names in
// Redis start with prefix.
func NewReader(nodes []rueidis.Client, prefix string) *Reader {
	return &Reader{nodes: nodes, prefix: prefix, need: len(nodes)/2 + 1}
}

// All returns the locks whose names match a pattern of Redis's, by name.
func (r *Reader) All(ctx context.Context, pattern string) ([]Sighting, error) {
	return r.everywhere(func(rdb rueidis.Client) ([]Sighting, error) {
		var found []Sighting
		clock := clockOf(ctx, rdb)
		err := scan(ctx, rdb, Literal(r.prefix)+pattern, func(keys []string) error {
			seen, err := read(ctx, rdb, r.namesOf(keys), clock)
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
	found, err := r.everywhere(func(rdb rueidis.Client) ([]Sighting, error) {
		seen, err := read(ctx, rdb, names, clockOf(ctx, rdb))
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

// One returns a sighting of one lock, with what its readers' clients say of themselves.
func (r *Reader) One(ctx context.Context, name string) (Sighting, error) {
	names, err := wire.Mutex.Names(r.prefix, name)
	if err != nil {
		return Sighting{}, err
	}
	found, err := r.These(ctx, []*wire.Names{names})
	if err != nil {
		return Sighting{}, err
	}
	r.introduceReaders(ctx, found[0].Readers)
	return found[0], nil
}

// everywhere asks all nodes at once and merges their answers. A minority may be down.
func (r *Reader) everywhere(ask func(rueidis.Client) ([]Sighting, error)) ([]Sighting, error) {
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
		known := make(map[string]bool) // a key that moves may be scanned twice
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

// namesOf returns the names of the locks with these keys. It leaves out keys that cannot be a
// lock's.
func (r *Reader) namesOf(keys []string) []*wire.Names {
	var names []*wire.Names
	for _, key := range keys {
		if n, err := wire.Mutex.Names(r.prefix, strings.TrimPrefix(key, r.prefix)); err == nil {
			names = append(names, n)
		}
	}
	return names
}

// Literal returns the pattern that matches text alone.
func Literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// scan calls found with the keys of hashes that match, some at a time.
func scan(ctx context.Context, rdb rueidis.Client, pattern string, found func([]string) error) error {
	masters, err := mastersOf(ctx, rdb)
	for _, master := range masters {
		for cursor := uint64(0); err == nil; {
			var page rueidis.ScanEntry
			asked, cancel := Soon(ctx)
			cmd := master.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Type("hash").Build()
			page, err = master.Do(asked, cmd).AsScanEntry()
			cancel()
			if err == nil && len(page.Elements) > 0 {
				err = found(page.Elements)
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	return err
}

// mastersOf returns clients of the servers that have all keys: of a Cluster its masters.
func mastersOf(ctx context.Context, rdb rueidis.Client) ([]rueidis.Client, error) {
	if rdb.Mode() != rueidis.ClientModeCluster {
		return []rueidis.Client{rdb}, nil
	}
	ctx, cancel := Soon(ctx)
	defer cancel()
	slots, err := rdb.Do(ctx, rdb.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, fmt.Errorf("CLUSTER SLOTS: %w", err)
	}
	nodes := rdb.Nodes()
	masters := make(map[string]rueidis.Client)
	for _, slot := range slots {
		parts, _ := slot.ToArray()
		if len(parts) < 3 {
			continue
		}
		master, _ := parts[2].ToArray()
		if len(master) < 2 {
			continue
		}
		host, _ := master[0].ToString()
		port, _ := master[1].AsInt64()
		addr := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		if masters[addr] = nodes[addr]; masters[addr] == nil {
			return nil, fmt.Errorf("the Cluster's master %s is not connected", addr)
		}
	}
	var all []rueidis.Client
	for _, master := range masters {
		all = append(all, master)
	}
	return all, nil
}
