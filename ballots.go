package relock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/lua"
)

// ballots runs the scripts of one node of a quorum. Those it has from scripts are guarded too: a node that may have
// forgotten locks confirms none.
type ballots struct {
	scripts
	voting, unvoting, fencing *rueidis.Lua
}

func newBallots(l *link, longest, retention time.Duration) ballots {
	from := lua.Scripts{Kind: "mutex", Quorum: true, Retention: retention, Longest: longest}
	b := ballots{
		scripts:  newScripts(l, retention),
		voting:   rueidis.NewLuaScript(mustScript(from.Text("vote"))),
		unvoting: rueidis.NewLuaScript(mustScript(from.Text("unvote"))),
		fencing:  rueidis.NewLuaScript(mustScript(from.Text("fence"))),
	}
	b.sweeping = rueidis.NewLuaScript(mustScript(from.Sweep("unvote")))
	b.forcing = rueidis.NewLuaScript(mustScript(from.Text("force")))
	b.recounting = rueidis.NewLuaScript(mustScript(from.Text("recount")))
	b.renewing = rueidis.NewLuaScript(mustScript(from.Text("renew")))
	return b
}

// ballot is what a node answers to a voter.
type ballot struct {
	mine    bool
	number  int64 // mine: the grant's number, which is its first fencing token; else the fencing counter
	tokens  int   // mine: how many it has, 0 for a whole block
	low     int64 // lowest ticket among the owner's and the queue's, 0 when there is none
	blocker blocker
	now     int64 // the node's clock, microseconds
	mute    error // why the node may grant nothing, where an unvote found that
}

// how a vote treats a lock that is taken.
const (
	toWait  = "wait"
	toTry   = "try"   // leave without waiting
	toNudge = "nudge" // wait, and make the owner look again
)

func (b ballots) keys(n *names) []string {
	return []string{n.lock, n.queue, n.counter, n.unlock, n.seed}
}

// vote acquires, polls, and with yield gives the grant of that number back to a lower ticket.
func (b ballots) vote(ctx context.Context, a *acquisition, yield int64, how string) (ballot, error) {
	number := ""
	if yield > 0 {
		number = strconv.FormatInt(yield, 10)
	}
	args := []string{ms(a.lease), strconv.Itoa(a.block), a.id, a.owner, a.ticket, number, how, inboxPrefix}
	args = append(args, b.vetted.ask(route{inbox: inboxPrefix, publish: "PUBLISH"}, a)...)
	got, err := b.link.do(ctx, a.timeout, b.voting, b.keys(&a.names), args, a).ToArray()
	if err != nil {
		return ballot{}, err
	}
	b.vetted.note(a.names.lock)
	return parseBallot(got)
}

// unvote ends a on this node, and queues next there if there is one.
func (b ballots) unvote(ctx context.Context, a, next *acquisition) (bool, ballot, error) {
	keys, args := b.unvoteCall(a, next)
	var who latecomer
	if next != nil {
		who = next
	}
	got, err := b.link.do(ctx, a.timeout, b.unvoting, keys, args, who).ToArray()
	if err != nil {
		return false, ballot{}, err
	}
	held, err := first(got)
	if err != nil || next == nil {
		return held == 1, ballot{}, err
	}
	if mute := got[1].Error(); mute != nil {
		return held == 1, ballot{mute: mute}, nil
	}
	bal, err := parseBallot(got[1:])
	return held == 1, bal, err
}

func (b ballots) unvoteCall(a, next *acquisition) (keys, args []string) {
	args = []string{
		ms(a.lease), strconv.Itoa(a.block), a.id, a.owner, strconv.FormatInt(a.reached, 10), inboxPrefix, "", "", "", "",
	}
	if next != nil {
		args[6], args[7], args[8], args[9] = next.id, ms(next.lease), strconv.Itoa(next.block), next.ticket
	}
	return b.keys(&a.names), args
}

// sweep ends many acquisitions, and answers for each whether it was ended.
func (b ballots) sweep(ctx context.Context, batch []*acquisition) ([]bool, error) {
	var call sweepCall
	for _, a := range batch {
		call.add(b.unvoteCall(a, nil))
	}
	return call.send(ctx, b.link, b.sweeping)
}

// fence raises the counter while id holds the lock here. It returns false when it does not.
func (b ballots) fence(ctx context.Context, n *names, id string, counter int64) (bool, error) {
	return b.raise(ctx, n, "hold", id, counter)
}

// seed tells a node that forgot how far the others counted, if it still is the incarnation born.
func (b ballots) seed(ctx context.Context, n *names, born string, counter int64) (bool, error) {
	return b.raise(ctx, n, "seed", born, counter)
}

func (b ballots) raise(ctx context.Context, n *names, how, who string, counter int64) (bool, error) {
	args := []string{how, who, strconv.FormatInt(counter, 10)}
	got, err := b.link.do(ctx, b.link.timeout, b.fencing, b.keys(n), args, nil).AsInt64()
	return got == 1, err
}

func (b ballots) force(ctx context.Context, n *names) (bool, error) {
	got, err := b.link.do(ctx, b.link.timeout, b.forcing, b.keys(n), []string{inboxPrefix, "PUBLISH"}, nil).AsInt64()
	return got == 1, err
}

func parseBallot(got []rueidis.RedisMessage) (b ballot, err error) {
	if len(got) != 7 {
		return b, fmt.Errorf("vote: answer of %d parts", len(got))
	}
	var n [6]int64
	for _, i := range []int{0, 1, 2, 3, 5} {
		if n[i], err = got[i].AsInt64(); err != nil {
			return b, err
		}
	}
	b.mine, b.number, b.low, b.now = n[0] == 1, n[1], n[2], n[5]
	b.blocker.ttl = time.Duration(n[3]) * time.Millisecond
	if b.blocker.holder, err = got[4].ToString(); err != nil {
		return b, err
	}
	tokens, err := got[6].AsInt64()
	b.tokens = int(tokens)
	return b, err
}

// refused is a node's answer that it may have forgotten locks.
type refused struct {
	left    time.Duration // it grants nothing for so long; 0 when that is over and only its counter is in doubt
	born    string        // the incarnation that doubts its counter, "" for none
	counter int64         // what it still knows of the counter
}

// refusal reads QUARANTINED <born> <ms left> and UNSEEDED <born> <counter>.
func refusal(err error) (r refused) {
	words := strings.Fields(replied(err))
	if len(words) != 3 {
		return r
	}
	n, _ := strconv.ParseInt(words[2], 10, 64)
	switch words[0] {
	case "QUARANTINED":
		r.left = max(time.Duration(n)*time.Millisecond, time.Millisecond)
	case "UNSEEDED":
		r.born, r.counter = words[1], n
	}
	return r
}
