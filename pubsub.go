package relock

// WithPlainChannels makes locks on a Redis Cluster use plain Pub/Sub channels though it has sharded
// ones, as Redisson does before 3.22 and with shardedSubscriptionMode OFF. All clients of a Cluster
// must agree on that, Redisson's too: otherwise waiters sleep until they ask again by themselves.
//
// On plain channels of a Cluster no waiter is handed the lock: waiters of a Mutex race for a freed lock,
// and waiters of an RWMutex ask for it, and get it in their order.
//
// By default a Cluster that has sharded channels (Redis 7) is used with them. Elsewhere channels are
// always plain.
func WithPlainChannels() Option {
	return Option{name: "WithPlainChannels", clientOnly: true, apply: func(c *config) error {
		c.plain = true
		return nil
	}}
}
