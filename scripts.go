package relock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/lua"
)

// mustScript is a script that is known to be there.
func mustScript(script string, err error) string {
	if err != nil {
		panic(err)
	}
	return script
}

// scripts runs the Lua files on one Redis: a typed method each, so that positions are written once. They are never
// retried by the client library: a second run must be ours, so that we know it may come late.
type scripts struct {
	link   *link
	vetted *vetted

	acquiring, releasing, sweeping, forcing, recounting, renewing, inspecting *rueidis.Lua
}

func newScripts(l *link, retention time.Duration) scripts {
	from := lua.Scripts{Kind: "mutex", Retention: retention}
	return scripts{
		link:       l,
		vetted:     &vetted{},
		acquiring:  rueidis.NewLuaScript(mustScript(from.Text("acquire"))),
		releasing:  rueidis.NewLuaScript(mustScript(from.Text("release"))),
		sweeping:   rueidis.NewLuaScript(mustScript(from.Sweep("release"))),
		forcing:    rueidis.NewLuaScript(mustScript(from.Text("force"))),
		recounting: rueidis.NewLuaScript(mustScript(from.Text("recount"))),
		renewing:   rueidis.NewLuaScript(mustScript(from.Text("renew"))),
		inspecting: rueidis.NewLuaScript(mustScript(from.Text("inspect"))),
	}
}

// route is how grants and wake-ups travel for one lock.
type route struct {
	inbox   string // prefix of the inbox channels; "" where grants cannot be sent
	publish string // PUBLISH or SPUBLISH
}

// reply is what acquire returns, and release for the acquisition queued in its place.
type reply struct {
	owner   bool
	tokens  tokens // owner: those of the grant
	counter int64  // not owner: how far they were counted
	ticket  string // not owner: place in the queue, "" when not queued
	blocker blocker
}

// blocker is who held the lock when a waiter asked; without a holder, how long it is left to Redisson's waiters.
type blocker struct {
	holder string
	ttl    time.Duration
}

// acquire takes the lock for a, enters it, or queues a unless ticket is noTicket. over is the turn of Redisson's waiters
// that is known to be over.
func (s scripts) acquire(ctx context.Context, r route, a *acquisition, ticket, over string) (reply, error) {
	n := &a.names
	args := []string{ms(a.lease), strconv.Itoa(a.block), a.id, a.owner, ticket, r.inbox, r.publish, over}
	args = append(args, s.vetted.ask(r, a)...)
	got, err := s.link.do(ctx, a.timeout, s.acquiring, []string{n.lock, n.queue, n.counter, n.unlock}, args, a).ToArray()
	if err != nil {
		return reply{}, err
	}
	s.vetted.note(n.lock)
	return parseReply(got)
}

// release ends a. With a next acquisition, and if a did hold the lock, next is queued behind everyone in the same step
// and its reply returned: the zero reply when Redis could not queue it. With turns the lock is left to Redisson's waiters
// where some listen.
func (s scripts) release(ctx context.Context, r route, a *acquisition, turns bool, next *acquisition) (bool, reply, error) {
	keys, args := releaseCall(r, a, turns, next)
	var who latecomer
	if next != nil {
		who = next
	}
	got, err := s.link.do(ctx, a.timeout, s.releasing, keys, args, who).ToArray()
	if err != nil {
		return false, reply{}, err
	}
	held, err := first(got)
	if err != nil || len(got) == 1 {
		return held == 1, reply{}, err
	}
	rep, err := parseReply(got[1:])
	return true, rep, err
}

func releaseCall(r route, a *acquisition, turns bool, next *acquisition) (keys, args []string) {
	n := &a.names
	args = []string{a.id, a.owner, ms(a.lease), r.inbox, r.publish, strconv.Itoa(a.block), "0", "", "", ""}
	if turns {
		args[6] = "1"
	}
	if next != nil {
		args[7], args[8], args[9] = next.id, ms(next.lease), strconv.Itoa(next.block)
	}
	return []string{n.lock, n.queue, n.counter, n.unlock, n.listen}, args
}

// recount writes a hold count. It returns false when id no longer holds the lock.
func (s scripts) recount(ctx context.Context, timeout time.Duration, n *names, id string, count int, lease time.Duration) (bool, error) {
	got, err := s.link.do(ctx, timeout, s.recounting, []string{n.lock}, []string{id, strconv.Itoa(count), ms(lease)}, nil).AsInt64()
	return got == 1, err
}

// renew lengthens leases whose locks share a slot, and tells what became of each.
func (s scripts) renew(ctx context.Context, batch []renewal) ([]outcome, error) {
	keys, args := make([]string, len(batch)), make([]string, 0, 3*len(batch))
	for i, r := range batch {
		keys[i] = r.lock
		args = append(args, r.id, strconv.Itoa(r.count), ms(r.lease))
	}
	got, err := s.link.urge(ctx, s.renewing, keys, args).AsIntSlice()
	if err != nil {
		return nil, err
	}
	if len(got) != len(batch) {
		return nil, fmt.Errorf("renew: %d answers to %d leases", len(got), len(batch))
	}
	outcomes := make([]outcome, len(got))
	for i, n := range got {
		switch n {
		case 1:
			outcomes[i] = renewed
		case 0:
			outcomes[i] = lost
		}
	}
	return outcomes, nil
}

// maxParts is how many commands renewApart makes of one batch at most: so many halve it down to single locks.
const maxParts = 2*maxBatch - 1

// renewApart renews a batch and calls note for each part of it, with where the part begins, its outcomes, and why all of
// them are unanswered. Redis refuses a command as a whole when the user has lost the rights to one of its keys. So what is
// refused is asked again in halves, the larger parts first, down to single locks: one lock's refusal takes no other along.
func (s scripts) renewApart(ctx context.Context, batch []renewal, note func(from int, got []outcome, err error)) {
	type part struct{ from, to int }
	parts := []part{{0, len(batch)}}
	for i := 0; i < len(parts); i++ {
		p := parts[i]
		got, err := s.renew(ctx, batch[p.from:p.to])
		if middle := (p.from + p.to) / 2; refusesOne(err) && middle > p.from {
			parts = append(parts, part{p.from, middle}, part{middle, p.to})
			continue
		}
		if err != nil {
			got = make([]outcome, p.to-p.from)
		}
		note(p.from, got, err)
	}
}

// refusesOne reports whether err may be about one key of several: the rights to it, or where a Cluster keeps it just now.
func refusesOne(err error) bool {
	code := replyCode(replied(err))
	return code == "NOPERM" || code == "TRYAGAIN"
}

// force frees a lock whoever holds it. It returns false when nobody did.
func (s scripts) force(ctx context.Context, r route, n *names) (bool, error) {
	keys := []string{n.lock, n.queue, n.counter, n.unlock}
	got, err := s.link.do(ctx, s.link.timeout, s.forcing, keys, []string{r.inbox, r.publish}, nil).AsInt64()
	return got == 1, err
}

// inspect reads a lock's state.
func (s scripts) inspect(ctx context.Context, n *names) (State, error) {
	got, err := s.link.do(ctx, s.link.timeout, s.inspecting, []string{n.lock, n.queue, n.counter}, nil, nil).ToArray()
	if err != nil {
		return State{}, err
	}
	return parseState(got)
}

func first(got []rueidis.RedisMessage) (int64, error) {
	if len(got) == 0 {
		return 0, fmt.Errorf("script answered nothing")
	}
	return got[0].AsInt64()
}

func parseReply(got []rueidis.RedisMessage) (r reply, err error) {
	if len(got) != 3 && len(got) != 5 {
		return r, fmt.Errorf("acquire: answer of %d parts", len(got))
	}
	granted := len(got) == 3
	numbers := got[:2]
	if granted {
		numbers = got
	}
	var n [3]int64
	for i := range numbers {
		if n[i], err = numbers[i].AsInt64(); err != nil {
			return r, fmt.Errorf("acquire: %w", err)
		}
	}
	if granted {
		r.owner, r.tokens = true, tokens{n[1], int(n[2])}
		if n[0] != 1 || n[1] < 1 || n[2] < 1 {
			return r, fmt.Errorf("acquire: granted %d tokens from %d on", n[2], n[1])
		}
		return r, nil
	}
	r.counter = n[1]
	if r.ticket, err = got[2].ToString(); err != nil {
		return r, err
	}
	ttl, err := got[3].AsInt64()
	if err != nil {
		return r, err
	}
	r.blocker.ttl = time.Duration(ttl) * time.Millisecond
	r.blocker.holder, err = got[4].ToString()
	return r, err
}

// ms is a lease on the wire: whole milliseconds, at least one.
func ms(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}
