// Package presence is what a client says of itself in Redis, and what it knows of the clients that hold
// what it wants.
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

// Presence is a client's. The watchdog calls round; a write is never waited for but by Close. A write
// that comes later than Close's deletion stands for a stay at most: all that is written ends by itself.
// The methods of a nil Presence, which a client without a name has, do nothing.
type Presence struct {
	Config
	card   wire.Card
	posts  []*post
	writes sync.WaitGroup
	left   atomic.Bool // Close leaves a lock to its lease, so the card stays

	ctx  context.Context // of questions in the background, until Close
	stop context.CancelFunc

	mu     sync.Mutex           // guards what changes of the posts, and what follows
	cards  map[string]wire.Card // of other clients, by uuid, that were read or are asked for since the last turn
	older  map[string]wire.Card // in the turn before
	turn   clock.Stamp          // when cards become older, and are asked for anew
	rested clock.Stamp          // nothing is asked before
	wanted []string             // clients to ask for; as long as there are any, one goroutine does
}

// maxCards bounds how many clients are asked for in a turn, which is a third of a lease, and how much is
// kept of them.
const maxCards = 256

// Config is what a Presence is made by.
type Config struct {
	Client string        // uuid
	Name   string        // of WithClientName
	Stay   time.Duration // how long Redis keeps what is written
	Enough int           // nodes that do not know a client, to believe that none does
}

// Redis is a node as a Presence sees it.
type Redis interface {
	// Introduce writes a client's card, which stays for so long, or keeps the one that is there.
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
	stands bool        // one was sent, and was not refused
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

// Rounds is what the watchdog is to call beside renewals, nil for nothing. It does not block, and
// returns when it is due again.
func (p *Presence) Rounds() func(now clock.Stamp) clock.Stamp {
	if p == nil {
		return nil
	}
	return p.round
}

// round writes where that is due, in the background, and returns when to come again.
func (p *Presence) round(now clock.Stamp) clock.Stamp {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := clock.Never()
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

// write is one write. A Redis that refuses it is left alone for as long as it would have stood.
func (p *Presence) write(at *post) {
	err := at.Introduce(context.Background(), p.Client, &p.card, p.Stay)
	p.mu.Lock()
	defer p.mu.Unlock()
	at.out, at.stands = false, true
	if link.Reply(err) != "" && !wire.Transient(err) {
		at.stands, at.due = false, clock.Now().Add(p.Stay)
	}
}

// Stays notes that Close leaves a lock to its lease, which should go on saying whose it is.
func (p *Presence) Stays() {
	if p != nil {
		p.left.Store(true)
	}
}

// Close takes it away, unless it has to stay. The watchdog has ended before.
func (p *Presence) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.stop() // under mu, so that no question begins behind Wait
	p.mu.Unlock()
	p.writes.Wait() // what is written later than the deletion would stand
	if p.left.Load() {
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

// Whois asks what a client says of itself.
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

// Named adds to the error of a busy lock the client that holds it, as far as that is known.
func (p *Presence) Named(err error) error {
	if held, is := err.(*wire.HeldError); is {
		held.By = p.known(held.Holder)
	}
	return err
}

// Asking is a report that asks, too, which client holds what c waits for.
func (p *Presence) Asking(c claim.Claim, then claim.Report) claim.Report {
	if p == nil {
		return then
	}
	return func(key string, heard error) {
		holder, _ := c.Seen()
		p.known(holder)
		if then != nil {
			then(key, heard)
		}
	}
}

// known is what is known of a holder's client. It waits for nothing: what was not read since the last
// turn is asked for in the background. Until it is answered the older card counts, since a client
// says the same of itself for as long as it lives.
func (p *Presence) known(holder string) wire.Card {
	if p == nil {
		return wire.Card{}
	}
	client := wire.ClientOf(holder)
	switch client {
	case "":
		return wire.Card{}
	case p.Client:
		return p.card
	}
	now := clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn.Reached(now) {
		p.older, p.cards, p.turn = p.cards, make(map[string]wire.Card), now.Add(p.Stay/3)
	}
	card, asked := p.cards[client]
	if asked {
		return card
	}
	card = p.older[client]
	if len(p.cards) < maxCards && p.rested.Reached(now) && p.ctx.Err() == nil {
		p.cards[client] = card
		if p.wanted = append(p.wanted, client); len(p.wanted) == 1 {
			p.writes.Go(p.ask)
		}
	}
	return card
}

// ask asks for the clients that are wanted, one after the other. Where that fails, say for want of rights, none
// is asked for as long as the presence's own would have stood.
func (p *Presence) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.wanted) > 0 {
		client := p.wanted[0]
		p.mu.Unlock()
		_, sure := p.read(p.ctx, client)
		p.mu.Lock()
		if !sure {
			p.wanted, p.rested = nil, clock.Now().Add(p.Stay)
			return
		}
		p.wanted = p.wanted[1:]
	}
}

// read asks every node for a client's card. It is sure once a node has the card, or once so many
// have answered without it that none is believed to have it. Only a sure answer is kept.
func (p *Presence) read(ctx context.Context, client string) (card wire.Card, sure bool) {
	var asked sync.WaitGroup
	defer asked.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		card wire.Card
		err  error
	}
	heard := make(chan answer, len(p.posts))
	for _, at := range p.posts {
		asked.Go(func() {
			card, err := at.Whois(ctx, client)
			heard <- answer{card, err}
		})
	}
	strangers := 0 // nodes that answered without a card
	for range p.posts {
		a := <-heard
		if a.err == nil {
			strangers++
		}
		card, sure = a.card, a.card != (wire.Card{}) || strangers == p.Enough
		if sure {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, asked := p.cards[client]; sure && (asked || len(p.cards) < maxCards) {
		p.cards[client] = card
	}
	return card, sure
}
