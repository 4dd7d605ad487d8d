package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/wire"
)

// A Waiter stands in a lock's queue.
type Waiter struct {
	Client string // uuid
	Owner  string // of WithOwner, else the owner field it will have, without its random digits
	By     wire.Card
	Side   string // of a read-write lock: read or write
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
func lineOn(ctx context.Context, rdb rueidis.Client, names *wire.Names) (places []Waiter, reserved int64, err error) {
	now := clockOf(ctx, rdb).now()
	t := trip{rdb: rdb}
	for _, q := range queuesOf(names) {
		first := rdb.B().Zrangebyscore().Key(q.key).Min("0").Max("+inf").Withscores().Limit(0, MaxPlaces).Build()
		t.ask(first, func(said rueidis.RedisResult) error {
			members, err := said.AsZScores()
			for _, m := range members {
				if p, ok := waiterIn(m, now); ok {
					p.Side = q.side
					places = append(places, p)
				}
			}
			return err
		})
	}
	t.ask(rdb.B().Get().Key(names.Counter).Build(), func(said rueidis.RedisResult) error {
		var err error
		if reserved, err = said.AsInt64(); rueidis.IsRedisNil(err) {
			return nil
		}
		return err
	})
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

// waiterIn reads a member of a queue: <lease>:<block>:<client uuid>:<n>:<shared owner>.
func waiterIn(m rueidis.ZScore, now time.Time) (w Waiter, ok bool) {
	parts := strings.SplitN(m.Member, ":", 5)
	if len(parts) < 4 {
		return w, false
	}
	w = Waiter{Client: parts[2], Owner: wire.WaitingID(parts[2], parts[3]), Waited: now.Sub(time.UnixMicro(int64(m.Score)))}
	if len(parts) == 5 && parts[4] != "" {
		w.Owner = parts[4]
	}
	return w, true
}

// queue is a key in which a lock's waiters stand.
type queue struct{ key, side string }

// queuesOf returns the queues of a lock: a read-write lock has two.
func queuesOf(names *wire.Names) []queue {
	if names.Kind == wire.Mutex {
		return []queue{{key: names.Queue}}
	}
	return []queue{{names.Queue, wire.Write.Name}, {names.Readers(), wire.Read.Name}}
}
