package overrueidis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
)

const (
	askTimeout = 2 * time.Second // of each question about where a subscription is, or should be
	byeTimeout = time.Second     // of telling the server that a subscription ends
)

// errReplicas is what the user is told once.
var errReplicas = errors.New("the client subscribes at replicas, whose subscribers the masters do not count, " +
	"and the masters cannot be told: locks are not handed over but raced for")

// errAstray ends a subscription that is not at its slot's master.
var errAstray = errors.New("subscribed at a replica")

// Follow subscribes sharded channels of one slot.
func (d *Redis) Follow(ctx context.Context, h driver.Handler, channels ...string) error {
	err := d.receive(ctx, h, channels)
	if errors.Is(err, errAstray) {
		if err = ctx.Err(); err == nil {
			err = d.receive(ctx, h, channels)
		}
	}
	return failure(err)
}

// receive subscribes once and passes on what comes until the subscription ends. It fails with
// errAstray once, where it did not subscribe at the master.
func (d *Redis) receive(ctx context.Context, h driver.Handler, channels []string) error {
	if d.crew.Ended() {
		return driver.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	source, astray := d.rdb, d.astray.Load()
	confirmed := make(chan struct{}, 1)
	if astray {
		source = d.atMaster(ctx, h, channels[0])
	} else if !d.crew.Start(func() { d.vet(ctx, cancel, confirmed, channels) }) {
		return driver.ErrClosed
	}
	subscribe := source.B().Ssubscribe().Channel(channels...).Build()
	err := source.Receive(hooked(ctx, h, confirmed, channels), subscribe, func(m rueidis.PubSubMessage) {
		h.Message(m.Channel, m.Message)
	})
	if cause := context.Cause(ctx); errors.Is(cause, errAstray) {
		return cause
	}
	return err
}

// hooked is ctx with what the library is to call: confirmed gets a first confirmation, and the server
// is told when the subscription ends. It goes on sending otherwise, because the connection is shared:
// with the other users of the client too, of whom one that leaves ends the subscription to the
// channels that it has in common with this one. Then only the last channel, which is nobody else's,
// is left by this one: the other channels may have been subscribed anew by then.
func hooked(ctx context.Context, h driver.Handler, confirmed chan<- struct{}, channels []string) context.Context {
	told := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "ssubscribe" {
			h.Subscribed(s.Channel)
			select {
			case confirmed <- struct{}{}:
			default:
			}
		}
	})
	return rueidis.WithOnReceiveReturnHook(told, func(err error, conn rueidis.CommandClient) error {
		leave := channels
		if ctx.Err() == nil {
			leave = channels[len(channels)-1:]
		}
		bye, cancel := context.WithTimeout(context.Background(), byeTimeout)
		defer cancel()
		conn.Do(bye, conn.B().Sunsubscribe().Channel(leave...).Build())
		return err
	})
}

// vet ends a subscription with errAstray once it is confirmed and found not to be at the master.
func (d *Redis) vet(ctx context.Context, end context.CancelCauseFunc, confirmed <-chan struct{}, channels []string) {
	select {
	case <-confirmed:
		// A subscription that has ended meanwhile is at no master.
		if d.isAstray(ctx, channels) && ctx.Err() == nil {
			d.astray.Store(true)
			end(errAstray)
		}
	case <-ctx.Done():
	}
}

// isAstray reports whether the master of the channels' slot does not know of the subscription to the
// last of them, which is nobody else's. Another user of the client may just have left the others.
func (d *Redis) isAstray(ctx context.Context, channels []string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// Routed by its slot, and no read that a client would send to a replica.
	own := channels[len(channels)-1]
	ask := d.rdb.B().Arbitrary("PUBSUB", "SHARDNUMSUB", own).Build().SetSlot(own)
	counts, err := d.rdb.Do(ctx, ask).AsIntMap()
	if err != nil {
		return false
	}
	count, found := counts[own]
	return found && count == 0
}

// atMaster is what to subscribe with where the user's client goes astray: the client of the slot's
// master. Where that cannot be told it is the user's: messages still come, but scripts at the
// master do not count the subscription.
func (d *Redis) atMaster(ctx context.Context, h driver.Handler, channel string) rueidis.Client {
	if master := d.master(ctx, int64(d.Slot(channel))); master != nil {
		return master
	}
	if ctx.Err() == nil && !d.warned.Swap(true) {
		h.Impaired(errReplicas)
	}
	return d.rdb
}

// master returns the client of the node that owns a slot, nil when that cannot be told.
func (d *Redis) master(ctx context.Context, slot int64) rueidis.Client {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ranges, err := d.rdb.Do(ctx, d.rdb.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil
	}
	for _, r := range ranges {
		if addr, owns := masterIn(r, slot); owns {
			return d.rdb.Nodes()[addr]
		}
	}
	return nil
}

// masterIn reads one entry of CLUSTER SLOTS: first slot, last slot, the master's host and port and
// more, its replicas.
func masterIn(entry rueidis.RedisMessage, slot int64) (addr string, owns bool) {
	parts, err := entry.ToArray()
	if err != nil || len(parts) < 3 {
		return "", false
	}
	first, err1 := parts[0].AsInt64()
	last, err2 := parts[1].AsInt64()
	master, err3 := parts[2].ToArray()
	if err1 != nil || err2 != nil || err3 != nil || len(master) < 2 || slot < first || slot > last {
		return "", false
	}
	host, err1 := master[0].ToString()
	port, err2 := master[1].AsInt64()
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), err1 == nil && err2 == nil
}
