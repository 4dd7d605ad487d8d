package relock

import "fmt"

// PubSubMode is the kind of Pub/Sub channels that is used on a Redis Cluster: Redisson's
// shardedSubscriptionMode.
type PubSubMode int

const (
	// PubSubAuto uses sharded channels on a Cluster that knows them (Redis 7), as Redisson does.
	PubSubAuto PubSubMode = iota
	// PubSubPlain uses plain channels on a Cluster too. No waiter is handed the lock then: those of a
	// Mutex race for a freed one, those of an RWMutex come in their order by asking for it.
	PubSubPlain
	// PubSubSharded uses sharded channels on a Cluster without asking it first.
	PubSubSharded
)

// WithPubSub chooses the channels on a Redis Cluster; all clients and Redisson's must agree.
// Elsewhere channels are plain.
//
// Defaults to PubSubAuto.
func WithPubSub(mode PubSubMode) Option {
	return Option{name: "WithPubSub", clientOnly: true, apply: func(c *config) error {
		c.pubsub = mode
		if mode < PubSubAuto || mode > PubSubSharded {
			return fmt.Errorf("unknown PubSubMode %d", mode)
		}
		return nil
	}}
}
