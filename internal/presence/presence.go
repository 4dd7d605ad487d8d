// Package presence writes what a client says of itself to Redis, and reads it of the clients that
// hold the locks that this client wants. What a client says of itself is its card: a key of its own
// in Redis, which expires.
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

// Presence is the presence of one client. While the client holds a lock or waits for one, the
// watchdog and the waiters call round. It writes the card to every node, and again each third of
// the time for which Redis keeps the card. Only Close waits for a write. A write that runs later
// than Close's deletion leaves a card, which expires.
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

	// mu guards the fields of the posts that change, and what follows. Redis is asked for a
	// client's card once in a period, which is a third of Stay.
	mu        sync.Mutex
	cards     map[string]wire.Card // by uuid of the client: read in this period, or being asked for
	older     map[string]wire.Card // the cards of the period before
	periodEnd clock.Stamp          // when this period is over
	quiet     clock.Stamp          // after a failure: no client is asked for before
	toAskFor  []string             // clients; while there are any, one goroutine asks
	// awaited has a channel for each client in toAskFor whose card is worth waiting for. It is
	// closed once Redis was asked for that card.
	awaited map[string]chan struct{}
}

// nameWait is the longest time that a caller waits for a holder's name.
const nameWait = 250 * time.Millisecond

// maxCards bounds the clients that Redis is asked for in a period, and the cards that are kept.
const maxCards = 256

// Config has the settings of a Presence.
type Config struct {
	Client string        // uuid
	Name   string        // of WithClientName
	Stay   time.Duration // how long Redis keeps a card
	Enough int           // once so many nodes answer that they lack a client's card, no node has it
}

// Redis is a node as a Presence sees it.
type Redis interface {
	// Introduce writes a client's card, or keeps the one that is there, for another stay.
	Introduce(ctx context.Context, client string, card *wire.Card, stay time.Duration) error
	// Withdraw deletes a client's card.
	Withdraw(ctx context.Context, client string) error
	// Whois reads a client's card, the zero Card if there is none.
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
	p := &Presence{Config: cfg, cards: make(map[string]wire.Card), awaited: make(map[string]chan struct{}), card: wire.Card{
		Name: cfg.Name, Host: host, PID: os.Getpid(), Started: time.UnixMilli(time.Now().UnixMilli()), Version: Version(),
	}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	for _, n := range nodes {
		p.posts = append(p.posts, &post{Redis: n})
	}
	return p
}

// Version returns the library's version in this program.
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

// Rounds returns the function that the watchdog is to call as its Round, or nil.
func (p *Presence) Rounds() func(now clock.Stamp) clock.Stamp {
	if p == nil {
		return nil
	}
	return p.round
}

// round writes the card, in the background, to each node where a write is due. It returns when the
// next write is due.
func (p *Presence) round(now clock.Stamp) clock.Stamp {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := clock.Never()
	if p.ctx.Err() != nil { // closed: no write begins any more
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

// write writes the card once. If Redis refuses it, the next write is due after Stay, not after a
// third of it.
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

// Close deletes the card, unless Stays was called. The caller has ended the watchdog before.
func (p *Presence) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.stop() // under mu, so that no question begins after it
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

// Named adds the holder's card to the error of a busy lock. If Redis is still being asked for the
// card, Named waits for the answer, while ctx lives and for nameWait at most. After one caller has
// waited that long, no other caller waits for the same answer.
func (p *Presence) Named(ctx context.Context, err error) error {
	held, is := err.(*wire.HeldError)
	if !is || p == nil {
		return err
	}
	held.By = p.Known(held.Holder)
	client := wire.ClientOf(held.Holder)
	if held.By != (wire.Card{}) || ctx.Err() != nil {
		return err
	}
	p.mu.Lock()
	answered := p.awaited[client]
	if answered == nil { // the card has come by now, or nothing is worth waiting for
		held.By = p.cards[client]
	}
	p.mu.Unlock()
	if answered == nil {
		return err
	}
	late := time.NewTimer(nameWait)
	defer late.Stop()
	select {
	case <-answered:
	case <-ctx.Done():
		return err
	case <-late.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.awaited, client)
	held.By = p.cards[client]
	return err
}

// Asking returns a report that first asks for the holder of the lock that c waits for, and writes
// this client's card if a write is due: the client stands in the lock's queue. Then it calls then.
func (p *Presence) Asking(c claim.Claim, then claim.Report) claim.Report {
	if p == nil {
		return then
	}
	return func(key string, heard error) {
		holder, _ := c.Seen()
		p.Known(holder)
		p.round(clock.Now())
		if then != nil {
			then(key, heard)
		}
	}
}

// Known returns the card of a holder's client as far as it is known, without waiting. Answers are
// kept for a period. If Redis was not asked for the client in this period, it is asked in the
// background. Until the answer comes, the card of the period before counts: a client's card never
// changes.
func (p *Presence) Known(holder string) wire.Card {
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
		if p.awaited[client] == nil {
			p.awaited[client] = make(chan struct{})
		}
		if p.toAskFor = append(p.toAskFor, client); len(p.toAskFor) == 1 {
			p.writes.Go(p.ask)
		}
	}
	return card
}

// ask asks Redis for the clients in toAskFor, one after the other. If that fails, perhaps for want
// of a right, Redis is asked for no client during a whole Stay.
func (p *Presence) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.toAskFor) > 0 {
		client := p.toAskFor[0]
		answered := p.awaited[client]
		p.mu.Unlock()
		_, sure := p.read(p.ctx, client)
		p.mu.Lock()
		if p.asked(client, answered); !sure {
			for _, client := range p.toAskFor[1:] {
				p.asked(client, p.awaited[client])
			}
			p.toAskFor, p.quiet = nil, clock.Now().Add(p.Stay)
			return
		}
		p.toAskFor = p.toAskFor[1:]
	}
}

// asked ends the waits for a client's card. The caller holds the mutex.
func (p *Presence) asked(client string, answered chan struct{}) {
	if answered == nil {
		return
	}
	close(answered)
	if p.awaited[client] == answered {
		delete(p.awaited, client)
	}
}

// read asks every node for a client's card. The result is sure once a node has the card, or once
// Enough nodes have answered that they have none. Only a sure result is kept.
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
