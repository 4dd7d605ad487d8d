package relock

// WithPlainChannels makes locks on a Redis Cluster use plain Pub/Sub channels though it has sharded
// ones, as Redisson does before 3.22 and with shardedSubscriptionMode OFF. All clients of a Cluster
// must agree on that, Redisson's too: otherwise waiters sleep until they ask again by themselves.
//
// On plain channels of a Cluster no waiter is handed the lock: those of a Mutex race for a freed one,
// those of an RWMutex come in their order by asking for it.
//
// By default a Cluster that has sharded channels (Redis 7) is used with them. Elsewhere channels are
// always plain.
func WithPlainChannels() Option {
	return Option{name: "WithPlainChannels", clientOnly: true, apply: func(c *config) error {
		c.plain = true
		return nil
	}}
}
