package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// A Waiter stands in a lock's queue.
type Waiter struct {
	Client string // uuid
	Owner  string // of WithOwner, else the owner field it will have, without its random digits
	By     wire.Card
	Side   string // of a read-write lock: read or write
	Wants  int    // of a semaphore: how many permits
	Waited time.Duration
}

// MaxPlaces bounds what is shown of a queue.
const MaxPlaces = 100

// Line returns the first waiters of a lock on the first node that answers, in the order in which
// they came, and the last fencing token reserved there. Readers and writers wait in separate
// queues.
func (r *Reader) Line(ctx context.Context, names *wire.Names) (places []Waiter, reserved int64, err error) {
	for _, rdb := range r.nodes {
		asked, cancel := Soon(ctx)
		places, reserved, err = lineOn(asked, rdb, names)
		cancel()
		if err == nil {
			known := cards(ctx, rdb, func(yield func(string) bool) {
				for i := 0; i < len(places) && yield(places[i].Client); i++ {
				}
			})
			for i := range places {
				places[i].By = known[places[i].Client]
			}
			break
		}
	}
	return places, reserved, err
}

// lineOn is Line on one Redis.
func lineOn(ctx context.Context, rdb driver.Reader, names *wire.Names) (places []Waiter, reserved int64, err error) {
	now := clockOf(ctx, rdb).now()
	t := trip{rdb: rdb}
	for _, q := range queuesOf(names) {
		t.ask(func(said driver.Value) error {
			members, err := scored(said)
			for _, m := range members {
				if p, ok := waiterIn(m, now); ok {
					if p.Side = q.side; names.Kind != wire.Semaphore {
						p.Wants = 0
					}
					places = append(places, p)
				}
			}
			return err
		}, firstIn(q, MaxPlaces)...)
	}
	if names.Kind != wire.Semaphore { // it has no fencing tokens
		t.ask(func(said driver.Value) error {
			if said.IsNil() {
				return nil
			}
			var err error
			reserved, err = said.Int64()
			return err
		}, "GET", names.Counter)
	}
	if err := t.send(ctx); err != nil {
		return nil, 0, fmt.Errorf("read the queue of %q: %w", names.Name, err)
	}
	slices.SortStableFunc(places, func(a, b Waiter) int { return cmp.Compare(b.Waited, a.Waited) })
	places = places[:min(len(places), MaxPlaces)]
	for i := range places {
		places[i].Waited = max(0, places[i].Waited) // a ticket may be ahead of the clock
	}
	return places, reserved, nil
}

// member is a member of a ZSET.
type member struct {
	text  string
	score float64
}

// came returns when a waiter came, by its ticket, which is its score.
func (m member) came() time.Time { return time.UnixMicro(int64(m.score)) }

// firstIn returns the command that asks for the first n waiters in a queue. scored reads its answer. A
// score below 0 is no waiter's.
func firstIn(q queue, n int) []string {
	return []string{"ZRANGEBYSCORE", q.key, "0", "+inf", "WITHSCORES", "LIMIT", "0", strconv.Itoa(n)}
}

// scored reads members with their scores: RESP2 has them by turns, RESP3 in pairs.
func scored(v driver.Value) ([]member, error) {
	words, err := v.Values()
	if err != nil {
		return nil, err
	}
	if len(words) > 0 && words[0].IsList() {
		pairs := words
		words = nil
		for _, p := range pairs {
			pair, err := p.Values()
			if err != nil {
				return nil, err
			}
			words = append(words, pair...)
		}
	}
	var all []member
	for i := 0; i+1 < len(words); i += 2 {
		text, err := words[i].Text()
		if err != nil {
			return nil, err
		}
		number, err := words[i+1].Text()
		if err != nil {
			return nil, err
		}
		score, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return nil, fmt.Errorf("the score of %q is no number: %w", text, err)
		}
		all = append(all, member{text, score})
	}
	return all, nil
}

// waiterIn reads a member of a queue: <lease>:<block>:<client uuid>:<n>:<shared owner>. In that of a
// semaphore the number of permits stands in place of the block.
func waiterIn(m member, now time.Time) (w Waiter, ok bool) {
	parts := strings.SplitN(m.text, ":", 5)
	if len(parts) < 4 {
		return w, false
	}
	w = Waiter{Client: parts[2], Owner: wire.WaitingID(parts[2], parts[3]), Waited: now.Sub(m.came())}
	w.Wants, _ = strconv.Atoi(parts[1])
	if len(parts) == 5 && parts[4] != "" {
		w.Owner = parts[4]
	}
	return w, true
}

// queue is a key in which a lock's waiters stand.
type queue struct{ key, side string }

// queuesOf returns the queues of a lock: a read-write lock has two.
func queuesOf(names *wire.Names) []queue {
	if names.Kind == wire.Mutex || names.Kind == wire.Semaphore {
		return []queue{{key: names.Queue}}
	}
	return []queue{{names.Queue, wire.Write.Name}, {names.Readers(), wire.Read.Name}}
}
