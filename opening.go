package relock

import (
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/opening"
)

// The package lets the other modules of its repository open clients over drivers of their own, and read
// locks over a client's driver.
func init() {
	opening.New = func(rdb driver.Redis, opts any) (any, error) { return newOver(rdb, opts.([]ClientOption)) }
	opening.NewRedlock = func(nodes []driver.Redis, opts any) (any, error) { return redlockOver(nodes, opts.([]ClientOption)) }
	opening.Beside = func(client any, rdb driver.Redis) (any, error) {
		is := &client.(*Client).core.cfg
		return newOver(rdb, []ClientOption{&option{"Beside", nil, func(c *config) {
			c.lease, c.timeout, c.javaDog = is.lease, is.timeout, is.javaDog
			c.plain, c.retention, c.retained, c.prefix = is.plain, is.retention, is.retained, is.prefix
			c.longest, c.wary, c.guarded = is.longest, is.wary, is.guarded
		}}})
	}
	opening.Behind = func(client any) (nodes []driver.Redis, need int, prefix string) {
		k := client.(*Client).coreOrNil()
		if k == nil {
			return nil, 0, ""
		}
		for _, n := range k.arbiter.Nodes() {
			nodes = append(nodes, n.Redis())
		}
		return nodes, k.cfg.quorumSize(), k.cfg.prefix
	}
	opening.Over = func(id string, arbiter, opts any) (any, error) {
		cfg, err := with(defaultConfig(), opts.([]ClientOption), "")
		return newClientOver(id, cfg, arbiter.(claim.Arbiter)), err
	}
	opening.Inside = func(client any) (arbiter, gates, calls, watchdog any) {
		k := client.(*Client).core
		return k.arbiter, k.gates, k.calls, k.watchdog
	}
	opening.HoldOf = func(lease any) (hold, claim any) {
		h := lease.(*Lease).h
		return h, h.claim
	}
	opening.Outward = outward
	opening.LeaseOf = func(permit any) any { return permit.(*Permit).held() }
	opening.HolderOf = func(lease any) (client, kind string) {
		l, is := lease.(*Lease)
		if !is {
			l = lease.(*Permit).held()
		}
		if l.zero() {
			return "", ""
		}
		return l.h.k.id, l.h.names.Kind.Name
	}
}
