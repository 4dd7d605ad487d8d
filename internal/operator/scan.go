package operator

import (
	"context"
	"strconv"
	"strings"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// A sweep is a SCAN of all keys of a type that match, for those by which locks are found.
type sweep struct {
	match, kind string
	names       func(key string) *wire.Names // of the lock that has such a key, nil if none has
}

// sweeps are the SCANs that find the locks whose names match a pattern: hashes, and of semaphores the
// permits held and the waiters. A quorum has no semaphores.
func (r *Reader) sweeps(pattern string) []sweep {
	all := []sweep{{Literal(r.prefix) + pattern, "hash", r.mutexOf}}
	if len(r.nodes) > 1 {
		return all
	}
	within := "*" + Literal(r.prefix) + "*"
	if !strings.ContainsAny(pattern, `[\`) { // the end of a pattern may be the middle of a class
		within = "*" + Literal(r.prefix) + pattern + "*"
	}
	return append(all,
		sweep{within + heldSuffix, "zset", func(key string) *wire.Names {
			return r.semaphoreOf(strings.TrimSuffix(key, heldSuffix), pattern)
		}},
		sweep{wire.Semaphore.Queue + within, "zset", func(key string) *wire.Names {
			return r.semaphoreOf(strings.TrimPrefix(key, wire.Semaphore.Queue), pattern)
		}},
	)
}

// mutexOf returns the names of the lock with this key.
func (r *Reader) mutexOf(key string) *wire.Names {
	n, err := r.Names(strings.TrimPrefix(key, r.prefix))
	if err != nil {
		return nil
	}
	return n
}

// semaphoreOf returns the names of the semaphore with this hash tag, if its name matches the pattern.
func (r *Reader) semaphoreOf(tag, pattern string) *wire.Names {
	name := tag
	if strings.LastIndexByte(tag, '{') == 0 && strings.IndexByte(tag, '}') == len(tag)-1 {
		name = tag[1 : len(tag)-1]
	}
	name, ours := strings.CutPrefix(name, r.prefix)
	if !ours || !Match(pattern, name) {
		return nil
	}
	n, err := wire.Semaphore.Names(r.prefix, name)
	if err != nil || n.Tag != tag {
		return nil
	}
	return n
}

// scan calls found with the names of locks that the sweeps find, some at a time, and each name once for
// a master.
func scan(ctx context.Context, rdb driver.Reader, sweeps []sweep, found func([]*wire.Names) error) error {
	within, cancel := Soon(ctx)
	masters, err := rdb.Masters(within)
	cancel()
	for _, master := range masters {
		if err == nil {
			err = scanOn(ctx, master, sweeps, found)
		}
	}
	return err
}

// scanOn is scan on one master. The sweeps advance together, a page each in a round trip.
func scanOn(ctx context.Context, rdb driver.Redis, sweeps []sweep, found func([]*wire.Names) error) error {
	known, cursors := make(map[string]bool), make([]string, len(sweeps))
	for i := range cursors {
		cursors[i] = "0"
	}
	for going := true; going; {
		var names []*wire.Names
		keys, err := scanOnce(ctx, rdb, sweeps, cursors)
		if err != nil {
			return err
		}
		going = false
		for i, s := range sweeps {
			for _, key := range keys[i] {
				if n := s.names(key); n != nil && !known[n.Name] {
					known[n.Name] = true
					names = append(names, n)
				}
			}
			going = going || cursors[i] != done
		}
		if len(names) > 0 {
			if err := found(names); err != nil {
				return err
			}
		}
	}
	return nil
}

// done is in place of the cursor of a sweep that has ended.
const done = ""

// scanOnce asks for the next keys of each sweep that has not ended, from its cursor on, and sets the
// cursors for the next ones.
func scanOnce(ctx context.Context, rdb driver.Redis, sweeps []sweep, cursors []string) ([][]string, error) {
	ctx, cancel := Soon(ctx)
	defer cancel()
	var cmds [][]string
	var at []int
	for i, s := range sweeps {
		if cursors[i] != done {
			cmds = append(cmds, []string{"SCAN", cursors[i], "MATCH", s.match, "COUNT", strconv.Itoa(scanCount), "TYPE", s.kind})
			at = append(at, i)
		}
	}
	answers, err := rdb.Do(ctx, cmds...)
	if err != nil {
		return nil, err
	}
	keys := make([][]string, len(sweeps))
	for n, i := range at {
		if cursors[i], keys[i], err = page(answers[n]); err != nil {
			return nil, err
		}
		if cursors[i] == "0" {
			cursors[i] = done
		}
	}
	return keys, nil
}
