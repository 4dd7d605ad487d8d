package sim

import (
	"slices"
	"sort"
)

// hub knows who listens to what, in the order in which they came.
type hub struct {
	channels, patterns, shards map[string][]*Conn
	order                      []string // of the patterns
}

func newHub() hub {
	return hub{map[string][]*Conn{}, map[string][]*Conn{}, map[string][]*Conn{}, nil}
}

// subscriptions are one connection's, in order.
type subscriptions struct{ channels, patterns, shards []string }

// listening is one of the three kinds of subscription.
type listening struct {
	join, part string // as the confirmations are called
	of         func(h *hub, c *Conn) (all map[string][]*Conn, own *[]string)
	told       func(c *Conn) int
}

func plainCount(c *Conn) int { return len(c.subs.channels) + len(c.subs.patterns) }

var (
	toChannels = &listening{"subscribe", "unsubscribe", func(h *hub, c *Conn) (map[string][]*Conn, *[]string) {
		return h.channels, &c.subs.channels
	}, plainCount}
	toPatterns = &listening{"psubscribe", "punsubscribe", func(h *hub, c *Conn) (map[string][]*Conn, *[]string) {
		return h.patterns, &c.subs.patterns
	}, plainCount}
	toShards = &listening{"ssubscribe", "sunsubscribe", func(h *hub, c *Conn) (map[string][]*Conn, *[]string) {
		return h.shards, &c.subs.shards
	}, func(c *Conn) int { return len(c.subs.shards) }}
)

// subscribe answers a list of confirmations, which a server writes one by one.
func (k *listening) subscribe(s *Server, c *Conn, args []string) reply {
	list := make([]reply, 0, len(args)-1)
	for _, name := range args[1:] {
		all, own := k.of(&s.hub, c)
		if !slices.Contains(*own, name) {
			if k == toPatterns && len(all[name]) == 0 {
				s.hub.order = append(s.hub.order, name)
			}
			*own = append(*own, name)
			all[name] = append(all[name], c)
		}
		list = append(list, listed(bulk(k.join), bulk(name), integer(int64(k.told(c)))))
	}
	return listing(list)
}

func (k *listening) unsubscribe(s *Server, c *Conn, args []string) reply {
	names := args[1:]
	if len(names) == 0 {
		_, own := k.of(&s.hub, c)
		names = slices.Clone(*own)
	}
	list := make([]reply, 0, len(names))
	for _, name := range names {
		k.leave(&s.hub, c, name)
		list = append(list, listed(bulk(k.part), bulk(name), integer(int64(k.told(c)))))
	}
	if len(names) == 0 {
		list = append(list, listed(bulk(k.part), reply{}, integer(int64(k.told(c)))))
	}
	return listing(list)
}

func (k *listening) leave(h *hub, c *Conn, name string) {
	all, own := k.of(h, c)
	i := slices.Index(*own, name)
	if i < 0 {
		return
	}
	*own = slices.Delete(*own, i, i+1)
	if all[name] = without(all[name], c); len(all[name]) > 0 {
		return
	}
	delete(all, name)
	if k == toPatterns {
		i := slices.Index(h.order, name)
		h.order = slices.Delete(h.order, i, i+1)
	}
}

// without copies, since a message may be on its way to the list as it was.
func without(list []*Conn, c *Conn) []*Conn {
	kept := make([]*Conn, 0, len(list))
	for _, other := range list {
		if other != c {
			kept = append(kept, other)
		}
	}
	return kept
}

// leave ends all subscriptions of a connection.
func (h *hub) leave(c *Conn) {
	for _, k := range []*listening{toChannels, toPatterns, toShards} {
		_, own := k.of(h, c)
		for _, name := range slices.Clone(*own) {
			k.leave(h, c, name)
		}
	}
}

// send delivers a message, and returns to how many subscriptions.
func (h *hub) send(channel, message string) int64 {
	n := deliverAll(h.channels[channel], channel, message)
	for _, pattern := range slices.Clone(h.order) {
		if matches(pattern, channel) {
			n += deliverAll(h.patterns[pattern], channel, message)
		}
	}
	return n
}

func deliverAll(to []*Conn, channel, message string) int64 {
	for _, c := range to {
		if c.deliver != nil {
			c.deliver(channel, message)
		}
	}
	return int64(len(to))
}

func pubsubCommands() []*command {
	channels := func(name string, arity int, f flags, run func(*Server, *Conn, []string) reply) *command {
		return &command{name: name, arity: arity, flags: f | onChannels, first: 0, run: run}
	}
	return []*command{
		channels("publish", 3, whileLoading, publish),
		channels("spublish", 3, whileLoading|since7, publish),
		channels("subscribe", -2, noScript|whileLoading, toChannels.subscribe),
		channels("psubscribe", -2, noScript|whileLoading|onPatterns, toPatterns.subscribe),
		channels("ssubscribe", -2, noScript|whileLoading|since7, toShards.subscribe),
		noKeys("unsubscribe", -1, noScript|whileLoading, toChannels.unsubscribe),
		noKeys("punsubscribe", -1, noScript|whileLoading, toPatterns.unsubscribe),
		noKeys("sunsubscribe", -1, noScript|whileLoading|since7, toShards.unsubscribe),
		noKeys("pubsub|channels", -2, whileLoading, func(s *Server, _ *Conn, args []string) reply {
			return heard(s.hub.channels, args)
		}),
		noKeys("pubsub|shardchannels", -2, whileLoading|since7, func(s *Server, _ *Conn, args []string) reply {
			return heard(s.hub.shards, args)
		}),
		noKeys("pubsub|numsub", -2, whileLoading, func(s *Server, _ *Conn, args []string) reply {
			return numsub(s.hub.channels, args)
		}),
		noKeys("pubsub|shardnumsub", -2, whileLoading|since7, func(s *Server, _ *Conn, args []string) reply {
			return numsub(s.hub.shards, args)
		}),
		noKeys("pubsub|numpat", 2, whileLoading, func(s *Server, _ *Conn, _ []string) reply {
			return integer(int64(len(s.hub.order)))
		}),
	}
}

// publish is PUBLISH and SPUBLISH; replicas pass the message on too.
func publish(s *Server, _ *Conn, args []string) reply {
	s.propagate(args...)
	if args[0][0]|0x20 == 's' {
		return integer(deliverAll(s.hub.shards[args[1]], args[1], args[2]))
	}
	return integer(s.hub.send(args[1], args[2]))
}

func heard(all map[string][]*Conn, args []string) reply {
	var names []string
	for name := range all {
		if len(args) < 3 || matches(args[2], name) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return bulks(names)
}

func numsub(all map[string][]*Conn, args []string) reply {
	list := make([]reply, 0, 2*len(args))
	for _, name := range args[2:] {
		list = append(list, bulk(name), integer(int64(len(all[name]))))
	}
	return listing(list)
}
