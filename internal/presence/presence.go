// Package presence is what a client says of itself in Redis, and what it knows of the clients that
// hold the locks that it wants. What a client says is its card: a key of its own in Redis, which
// ends by itself.
package presence

import (
	"context"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// Presence is that of one client. While the client holds a lock or waits for one, its card is written to
// every node, and again each third of the time for which Redis keeps it: the watchdog and waiters call
// round. Only Close waits for a write. A write that runs later than Close's deletion leaves a card,
// which ends by itself.
//
// A client without a name has a nil Presence, whose methods do nothing.
type Presence struct {
	Config
	card   wire.Card
	posts  []*post
	writes sync.WaitGroup // writes and questions in the background
	stays  atomic.Bool    // Close leaves the card: a lock is left to its lease

	ctx  context.Context // of questions in the background, until Close
	stop context.CancelFunc

	// mu guards what changes of the posts, and what follows. A period is a third of Stay: each client is
	// asked for once in a period.
	mu        sync.Mutex
	cards     map[string]wire.Card // by uuid, of clients that were read in this period, or are being asked for
	older     map[string]wire.Card // cards of the period before
	periodEnd clock.Stamp          // when this period is over
	quiet     clock.Stamp          // after a failure: no client is asked for before
	toAskFor  []string             // clients; while there are any, one goroutine asks
}

// maxCards bounds for how many clients Redis is asked in a period, and how many cards are kept.
const maxCards = 256

// Config is what a Presence is made by.
type Config struct {
	Client string        // uuid
	Name   string        // of WithClientName
	Stay   time.Duration // how long Redis keeps a card
	Enough int           // if so many nodes do not have a client's card, no node is believed to have it
}

// Redis is a node as a Presence sees it.
type Redis interface {
	// Introduce writes a client's card, or keeps the one that is there, for another stay.
	Introduce(ctx context.Context, client string, card *wire.Card, stay time.Duration) error
	// Withdraw takes it away.
	Withdraw(ctx context.Context, client string) error
	// Whois reads it, the zero one where there is none.
	Whois(ctx context.Context, client string) (wire.Card, error)
}

// post is a Presence at one Redis.
type post struct {
	Redis
	due    clock.Stamp // when to write next
	out    bool        // a write is under way
	stands bool        // the last write was not refused, so Redis may have the card
}

// New returns the presence of a client that has a name.
func New[R Redis](cfg Config, nodes []R) *Presence {
	host, _ := os.Hostname()
	p := &Presence{Config: cfg, cards: make(map[string]wire.Card), card: wire.Card{
		Name: cfg.Name, Host: host, PID: os.Getpid(), Started: time.UnixMilli(time.Now().UnixMilli()), Version: Version(),
	}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	for _, n := range nodes {
		p.posts = append(p.posts, &post{Redis: n})
	}
	return p
}

// Version is the library's in this program.
var Version = sync.OnceValue(func() string {
	const module = "github.com/relock-go/relock"
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, dep := range append(info.Deps, &info.Main) {
		if dep.Path == module {
			return dep.Version
		}
	}
	return ""
})

// Rounds returns the function that the watchdog is to call beside renewals, or nil. That function
// does not block, and returns when it is due again.
func (p *Presence) Rounds() func(now clock.Stamp) clock.Stamp {
	if p == nil {
		return nil
	}
	return p.round
}

// round writes the card where that is due, in the background, and returns when it is due again.
func (p *Presence) round(now clock.Stamp) clock.Stamp {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := clock.Never()
	if p.ctx.Err() != nil { // closed: no write begins behind Wait
		return next
	}
	for _, at := range p.posts {
		if at.due.Reached(now) {
			at.due = now.Add(p.Stay / 3)
			if !at.out {
				at.out = true
				p.writes.Go(func() { p.write(at) })
			}
		}
		next = clock.Sooner(next, at.due, now)
	}
	return next
}

// write writes the card once. A Redis that refuses it is left alone for a whole Stay.
func (p *Presence) write(at *post) {
	err := at.Introduce(context.Background(), p.Client, &p.card, p.Stay)
	p.mu.Lock()
	defer p.mu.Unlock()
	at.out, at.stands = false, true
	if link.Reply(err) != "" && !wire.Transient(err) {
		at.stands, at.due = false, clock.Now().Add(p.Stay)
	}
}

// Stays makes Close leave the card: a lock is left to its lease, and others may ask for its holder.
func (p *Presence) Stays() {
	if p != nil {
		p.stays.Store(true)
	}
}

// Close takes the card away, unless Stays was called. The caller has ended the watchdog before.
func (p *Presence) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.stop() // under mu, so that no question begins behind Wait
	p.mu.Unlock()
	p.writes.Wait() // a write that runs later than the deletion would leave a card
	if p.stays.Load() {
		return
	}
	var gone sync.WaitGroup
	for _, at := range p.posts {
		if at.stands {
			gone.Go(func() { _ = at.Withdraw(context.Background(), p.Client) })
		}
	}
	gone.Wait()
}

// Whois asks Redis for a client's card. It returns the zero Card if there is none or Redis fails.
func (p *Presence) Whois(ctx context.Context, client string) wire.Card {
	switch {
	case p == nil || client == "":
		return wire.Card{}
	case client == p.Client:
		return p.card
	}
	card, _ := p.read(ctx, client)
	return card
}

// Named adds to the error of a busy lock the card of the client that holds it, if that is known.
func (p *Presence) Named(err error) error {
	if held, is := err.(*wire.HeldError); is {
		held.By = p.known(held.Holder)
	}
	return err
}

// Asking returns a report that also asks for the client that holds the lock which c waits for, and
// writes this client's card where that is due, since it stands in the lock's queue. Then it calls then.
func (p *Presence) Asking(c claim.Claim, then claim.Report) claim.Report {
	if p == nil {
		return then
	}
	return func(key string, heard error) {
		holder, _ := c.Seen()
		p.known(holder)
		p.round(clock.Now())
		if then != nil {
			then(key, heard)
		}
	}
}

// known is what is known of a holder's client, without waiting. Answers are kept for a period of a
// third of Stay. A client that was not asked for in this period is asked for in the background, and
// until there is an answer its card of the period before counts: a client's card never changes.
func (p *Presence) known(holder string) wire.Card {
	client := wire.ClientOf(holder)
	switch {
	case p == nil || client == "":
		return wire.Card{}
	case client == p.Client:
		return p.card
	}
	now := clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.periodEnd.Reached(now) {
		p.older, p.cards, p.periodEnd = p.cards, make(map[string]wire.Card), now.Add(p.Stay/3)
	}
	card, asked := p.cards[client]
	if asked {
		return card
	}
	card = p.older[client]
	if len(p.cards) < maxCards && p.quiet.Reached(now) && p.ctx.Err() == nil {
		p.cards[client] = card
		if p.toAskFor = append(p.toAskFor, client); len(p.toAskFor) == 1 {
			p.writes.Go(p.ask)
		}
	}
	return card
}

// ask asks for the clients in toAskFor, one after the other. If that fails, for want of a right
// perhaps, no client is asked for during a whole Stay.
func (p *Presence) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.toAskFor) > 0 {
		client := p.toAskFor[0]
		p.mu.Unlock()
		_, sure := p.read(p.ctx, client)
		p.mu.Lock()
		if !sure {
			p.toAskFor, p.quiet = nil, clock.Now().Add(p.Stay)
			return
		}
		p.toAskFor = p.toAskFor[1:]
	}
}

// read asks every node for a client's card. It is sure once a node has the card, or once Enough
// nodes have answered that they have none. Only a sure answer is kept.
func (p *Presence) read(ctx context.Context, client string) (card wire.Card, sure bool) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		card wire.Card
		err  error
	}
	heard := make(chan answer, len(p.posts))
	for _, at := range p.posts {
		asking.Go(func() {
			card, err := at.Whois(ctx, client)
			heard <- answer{card, err}
		})
	}
	answered := 0 // nodes, without the card so far
	for range p.posts {
		a := <-heard
		if a.err == nil {
			answered++
		}
		card, sure = a.card, a.card != (wire.Card{}) || answered == p.Enough
		if sure {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, kept := p.cards[client]; sure && (kept || len(p.cards) < maxCards) {
		p.cards[client] = card
	}
	return card, sure
}
