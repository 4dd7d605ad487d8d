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
	askTimeout = 2 * time.Second // bounds a question about where a subscription is, or should be
	byeTimeout = time.Second     // bounds the unsubscribing at the end of a subscription
)

// errReplicas is reported to the user once, when atMaster does not find the slot's master.
var errReplicas = errors.New("the client subscribes at replicas, but a master counts only its own subscribers, " +
	"and the slot's master was not found: waiters race for a free lock instead of getting it in order")

// errAtReplica ends a subscription that is not at its slot's master.
var errAtReplica = errors.New("subscribed at a replica")

// Follow subscribes sharded channels of one slot. If the first attempt turns out to be at a
// replica, receive remembers that, and the second attempt goes straight to the master.
func (d *Redis) Follow(ctx context.Context, h driver.Handler, channels ...string) error {
	err := d.receive(ctx, h, channels)
	if errors.Is(err, errAtReplica) {
		if err = ctx.Err(); err == nil {
			err = d.receive(ctx, h, channels)
		}
	}
	return failure(err)
}

// receive subscribes once and passes messages on until the subscription ends. If the user's client
// did not subscribe at the master, receive fails with errAtReplica. It has set atReplicas then, so
// that the next call goes straight to the master.
func (d *Redis) receive(ctx context.Context, h driver.Handler, channels []string) error {
	if d.crew.Ended() {
		return driver.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	source, confirmed := d.rdb, make(chan struct{}, 1)
	if d.atReplicas.Load() {
		source = d.atMaster(ctx, h, channels[0])
	} else if !d.crew.Start(func() { d.checkMaster(ctx, cancel, confirmed, channels) }) {
		return driver.ErrClosed
	}
	subscribe := source.B().Ssubscribe().Channel(channels...).Build()
	err := source.Receive(hooked(ctx, h, confirmed, channels), subscribe, func(m rueidis.PubSubMessage) {
		h.Message(m.Channel, m.Message)
	})
	if cause := context.Cause(ctx); errors.Is(cause, errAtReplica) {
		return cause
	}
	return err
}

// hooked returns ctx with two hooks for the library to call. The first puts the first confirmation
// into confirmed. The second unsubscribes when the subscription ends: the library leaves the shared
// connection open, and the server would go on sending.
//
// Other users of the client share the connection, too. If one of them unsubscribes a channel of
// this subscription, the subscription ends before ctx does. Then the hook unsubscribes only the
// last channel, which no other subscriber uses: another user may have subscribed the other channels
// again.
func hooked(ctx context.Context, h driver.Handler, confirmed chan<- struct{}, channels []string) context.Context {
	hooks := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "ssubscribe" {
			h.Subscribed(s.Channel)
			select {
			case confirmed <- struct{}{}:
			default:
			}
		}
	})
	return rueidis.WithOnReceiveReturnHook(hooks, func(err error, conn rueidis.CommandClient) error {
		leave := channels
		if ctx.Err() == nil {
			leave = channels[len(channels)-1:]
		}
		// ctx may have ended: the command needs a context of its own.
		bye, cancel := context.WithTimeout(context.Background(), byeTimeout)
		defer cancel()
		conn.Do(bye, conn.B().Sunsubscribe().Channel(leave...).Build())
		return err
	})
}

// checkMaster waits until a subscription is confirmed, since no master knows of it before. If the
// subscription then is not at the master, checkMaster ends it with errAtReplica.
func (d *Redis) checkMaster(ctx context.Context, end context.CancelCauseFunc, confirmed <-chan struct{}, channels []string) {
	select {
	case <-confirmed:
		// If ctx has ended, so has the subscription: that the master does not know it proves
		// nothing.
		if d.missedMaster(ctx, channels) && ctx.Err() == nil {
			d.atReplicas.Store(true)
			end(errAtReplica)
		}
	case <-ctx.Done():
	}
}

// missedMaster reports whether the master of the channels' slot does not know of the subscription.
// It asks about the last channel, which no other subscriber uses: of the others, another user of
// the client may just have ended the subscription. If the master does not answer, missedMaster
// returns false.
func (d *Redis) missedMaster(ctx context.Context, channels []string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	own := channels[len(channels)-1]
	// Arbitrary, so that no client takes it for a read and sends it to a replica.
	ask := d.rdb.B().Arbitrary("PUBSUB", "SHARDNUMSUB", own).Build().SetSlot(own)
	counts, err := d.rdb.Do(ctx, ask).AsIntMap()
	if err != nil {
		return false
	}
	count, found := counts[own]
	return found && count == 0
}

// atMaster returns the client of the slot's master, for a user's client that subscribes at
// replicas. If the master is not found, atMaster reports errReplicas and returns the user's client:
// messages still come, but scripts at the master do not count the subscription.
func (d *Redis) atMaster(ctx context.Context, h driver.Handler, channel string) rueidis.Client {
	if master := d.master(ctx, int64(driver.Slot(channel))); master != nil {
		return master
	}
	if ctx.Err() == nil && !d.warned.Swap(true) {
		h.Impaired(errReplicas)
	}
	return d.rdb
}

// master returns the client of the node that owns a slot, nil if it is not found.
func (d *Redis) master(ctx context.Context, slot int64) rueidis.Client {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ranges, err := d.rdb.Do(ctx, d.rdb.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil
	}
	for _, r := range ranges {
		if addr, first, last, ok := masterIn(r); ok && first <= slot && slot <= last {
			return d.rdb.Nodes()[addr]
		}
	}
	return nil
}

// masterIn reads one entry of CLUSTER SLOTS: first slot, last slot, the master's host and port and
// more, its replicas.
func masterIn(entry rueidis.RedisMessage) (addr string, first, last int64, ok bool) {
	parts, err := entry.ToArray()
	if err != nil || len(parts) < 3 {
		return "", 0, 0, false
	}
	first, err1 := parts[0].AsInt64()
	last, err2 := parts[1].AsInt64()
	master, err3 := parts[2].ToArray()
	if err1 != nil || err2 != nil || err3 != nil || len(master) < 2 {
		return "", 0, 0, false
	}
	host, err1 := master[0].ToString()
	port, err2 := master[1].AsInt64()
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), first, last, err1 == nil && err2 == nil
}
