package relock

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// shardedFeed subscribes for each lock at the node that owns its slot: the lock's inbox and its two channels at once.
type shardedFeed struct {
	h *hub
	// astray is set once a subscription was found not to be at its lock's master, which counts only its own
	// subscribers when it hands a lock over: a client that reads from replicas subscribes there too.
	astray atomic.Bool
	warned atomic.Bool
}

// startSharded subscribes lock by lock, at the Cluster node of the lock's slot.
func (h *hub) startSharded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vet() // a lock's inbox comes with its room
	h.feed = &shardedFeed{h: h}
	h.spawn(h.tidy)
}

func (f *shardedFeed) open(r *room) {
	ctx, cancel := context.WithCancel(f.h.ctx)
	r.stop = cancel
	names := r.names
	f.h.spawn(func() { f.run(ctx, names) })
}

func (f *shardedFeed) close(r *room) { r.stop() }

func (f *shardedFeed) listen() {}

// run receives until ctx ends. A subscription ends without error too, when its slot moves to another node.
func (f *shardedFeed) run(ctx context.Context, n names) {
	pause := backoff{least: 2 * time.Millisecond, most: 250 * time.Millisecond}
	for ctx.Err() == nil {
		began := time.Now()
		err := f.receive(ctx, n)
		if denies(err) {
			sleep(ctx, f.h.deny(n.unlock, err))
			continue
		}
		if time.Since(began) > time.Second {
			pause.reset()
		}
		sleep(ctx, pause.next())
	}
}

// receive subscribes once and passes on what comes until the subscription ends.
func (f *shardedFeed) receive(ctx context.Context, n names) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inbox := inboxPrefix + n.tag + ":" + f.h.client
	channels := []string{n.unlock, n.listen, inbox}
	confirmed := make(chan struct{}, 1)
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "ssubscribe" {
			f.h.subscribed(s.Channel)
			select {
			case confirmed <- struct{}{}:
			default:
			}
		}
	})
	// The connection is shared: the server goes on sending until it is told.
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, conn rueidis.CommandClient) error {
		if ctx.Err() != nil {
			bye, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			conn.Do(bye, conn.B().Sunsubscribe().Channel(channels...).Build())
		}
		return err
	})
	source := f.source(ctx, n)
	if !f.astray.Load() {
		f.h.wg.Go(func() {
			select {
			case <-confirmed:
				if f.isAstray(ctx, n, inbox) {
					f.astray.Store(true)
					cancel()
				}
			case <-ctx.Done():
			}
		})
	}
	return source.Receive(hooked, source.B().Ssubscribe().Channel(channels...).Build(), func(m rueidis.PubSubMessage) {
		f.h.receive(m.Channel, m.Message)
	})
}

// isAstray reports whether the master of the lock's slot does not know of the subscription to inbox, which nobody but
// this client subscribes.
func (f *shardedFeed) isAstray(ctx context.Context, n names, inbox string) bool {
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	// Routed by its slot, and no read that a client would send to a replica.
	ask := f.h.rdb.B().Arbitrary("PUBSUB", "SHARDNUMSUB").Args(inbox).Build().SetSlot(n.unlock)
	counts, err := f.h.rdb.Do(ctx, ask).AsIntMap()
	count, found := counts[inbox]
	return err == nil && found && count == 0
}

// source is what to subscribe with: the user's client, or where that goes astray the client of the lock's master. Where
// that cannot be told, messages still come, but the lock is only raced for.
func (f *shardedFeed) source(ctx context.Context, n names) rueidis.Client {
	if !f.astray.Load() {
		return f.h.rdb
	}
	if master := f.master(ctx, n); master != nil {
		return master
	}
	if ctx.Err() == nil && !f.warned.Swap(true) {
		f.h.log.Warn("relock: the client subscribes at replicas, whose subscribers the masters do not count, " +
			"and the masters cannot be told: locks are not handed over but raced for")
	}
	return f.h.rdb
}

// master returns the client of the node that owns the lock's slot, nil when that cannot be told.
func (f *shardedFeed) master(ctx context.Context, n names) rueidis.Client {
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	b := f.h.rdb.B()
	keyed := b.Exists().Key(n.unlock).Build()
	slot := int64(keyed.Slot())
	ranges, err := f.h.rdb.Do(ctx, b.ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil
	}
	for _, r := range ranges {
		if addr, owns := masterIn(r, slot); owns {
			return f.h.rdb.Nodes()[addr]
		}
	}
	return nil
}

// masterIn reads one entry of CLUSTER SLOTS: first slot, last slot, the master's host and port and more, its replicas.
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
