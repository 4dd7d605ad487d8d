package operator

import (
	"context"
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
	Waited time.Duration
}

// MaxPlaces bounds what is shown of a queue.
const MaxPlaces = 100

// Line returns the first waiters of a lock on the first node that answers, and the last fencing
// token reserved there.
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

func lineOn(ctx context.Context, rdb rueidis.Client, names *wire.Names) (places []Waiter, reserved int64, err error) {
	now := serverTime(ctx, rdb)
	queue := rdb.B().Zrangebyscore().Key(names.Queue).Min("0").Max("+inf").Withscores().Limit(0, MaxPlaces).Build()
	said := rdb.DoMulti(ctx, queue, rdb.B().Get().Key(names.Counter).Build())
	members, err := said[0].AsZScores()
	if err != nil {
		return nil, 0, err
	}
	for _, m := range members {
		parts := strings.SplitN(m.Member, ":", 5) // <lease>:<block>:<client uuid>:<n>:<shared owner>
		if len(parts) < 4 {
			continue
		}
		p := Waiter{Client: parts[2], Owner: wire.WaitingID(parts[2], parts[3])}
		p.Waited = max(0, now.Sub(time.UnixMicro(int64(m.Score))))
		if len(parts) == 5 && parts[4] != "" {
			p.Owner = parts[4]
		}
		places = append(places, p)
	}
	if reserved, err = said[1].AsInt64(); rueidis.IsRedisNil(err) {
		err = nil
	}
	return places, reserved, err
}
