package relock

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// WithClientName makes the client say its name in Redis, so that a holder is shown by more than a
// uuid: by name, which is the service's, say "billing", and beside it host, process id, when the
// client was made, and the library's version. State.By and the command relock tell it.
//
//   - It is written in the background beside the first hold, and renewed each third of the client's
//     lease as long as there are holds. No Lock is slower or fails for it. On a quorum it is written
//     to every node that takes it.
//   - It stays for a lease, so it is gone a lease after the process died. Close takes it away, unless
//     a lock is left to its lease.
//   - A user without the right to the key (docs/wire.md) locks as without the option: the commands for
//     it are refused twice in a lease at most.
//
// Only a client that has a name itself asks for those of holders. State sends one command more. Lock
// and TryLock ask in the background, when a Lock waits or fails or a TryLock fails, and once in a
// third of a lease for each client that holds what they want. Nothing waits for the answer, so the
// first *HeldError for a new holder may show a uuid, and later ones its name.
//
// By default, and with "", nothing is written: what is not asked for should not stand in Redis, nor
// need a right. A name has up to 256 bytes that can be printed.
func WithClientName(name string) Option {
	return Option{name: "WithClientName", clientOnly: true, apply: func(c *config) error {
		c.name = name
		return wire.ValidClientName(name)
	}}
}

// Holder is what a client with WithClientName says of itself. The zero Holder says nothing.
type Holder struct {
	Name    string    `json:"name"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started,omitzero"`  // when the client was made, by its own clock, in milliseconds
	Version string    `json:"version,omitempty"` // of the library
}

// String is as in "billing on pod-7f9c (pid 12)", and "" for the zero Holder.
func (h Holder) String() string { return wire.Card(h).String() }

// presence is what a client says of itself, at each Redis. The watchdog calls round; a write is never
// waited for but by Close. A write that comes later than Close's deletion stands for p.stay at most:
// all that is written ends by itself.
type presence struct {
	client string // uuid
	card   wire.Card
	stay   time.Duration // how long Redis keeps it
	enough int           // nodes that do not know a client, to believe that none does
	posts  []*presenceAt
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

// presenceAt is a presence at one Redis.
type presenceAt struct {
	node   *node.Node
	due    clock.Stamp // when to write next
	out    bool        // a write is under way
	stands bool        // one was sent, and was not refused
}

// newPresence is nil for a client without a name.
func newPresence(id string, cfg *config, arb claim.Arbiter) *presence {
	if cfg.name == "" {
		return nil
	}
	host, _ := os.Hostname()
	p := &presence{client: id, stay: cfg.lease, enough: cfg.quorumSize(), card: wire.Card{
		Name: cfg.name, Host: host, PID: os.Getpid(), Started: time.UnixMilli(time.Now().UnixMilli()), Version: version(),
	}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.cards = make(map[string]wire.Card)
	for _, n := range arb.Nodes() {
		p.posts = append(p.posts, &presenceAt{node: n})
	}
	return p
}

// version is the library's in this program.
var version = sync.OnceValue(func() string {
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

// rounds is what the watchdog is to call beside renewals, nil for nothing.
func (p *presence) rounds() besideFunc {
	if p == nil {
		return nil
	}
	return p.round
}

// round writes where that is due, in the background, and returns when to come again.
func (p *presence) round(now clock.Stamp) clock.Stamp {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := clock.Never()
	for _, at := range p.posts {
		if at.due.Reached(now) {
			at.due = now.Add(p.stay / 3)
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
func (p *presence) write(at *presenceAt) {
	err := at.node.Introduce(context.Background(), p.client, &p.card, p.stay)
	p.mu.Lock()
	defer p.mu.Unlock()
	at.out, at.stands = false, true
	if link.Reply(err) != "" && !wire.Transient(err) {
		at.stands, at.due = false, clock.Now().Add(p.stay)
	}
}

// stays notes that Close leaves a lock to its lease, which should go on saying whose it is.
func (p *presence) stays() {
	if p != nil {
		p.left.Store(true)
	}
}

// close takes it away, unless it has to stay. The watchdog has ended before.
func (p *presence) close() {
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
			gone.Go(func() { _ = at.node.Withdraw(context.Background(), p.client) })
		}
	}
	gone.Wait()
}

// whois asks what a client says of itself.
func (p *presence) whois(ctx context.Context, client string) Holder {
	switch {
	case p == nil || client == "":
		return Holder{}
	case client == p.client:
		return Holder(p.card)
	}
	card, _ := p.read(ctx, client)
	return Holder(card)
}

// named adds to the error of a busy lock the client that holds it, as far as that is known.
func (p *presence) named(err error) error {
	if held, is := err.(*wire.HeldError); is {
		held.By = p.known(held.Holder)
	}
	return err
}

// asking is a report that asks, too, which client holds what c waits for.
func (p *presence) asking(c claim.Claim, then claim.Report) claim.Report {
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
func (p *presence) known(holder string) wire.Card {
	if p == nil {
		return wire.Card{}
	}
	client := wire.ClientOf(holder)
	switch client {
	case "":
		return wire.Card{}
	case p.client:
		return p.card
	}
	now := clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn.Reached(now) {
		p.older, p.cards, p.turn = p.cards, make(map[string]wire.Card), now.Add(p.stay/3)
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
func (p *presence) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.wanted) > 0 {
		client := p.wanted[0]
		p.mu.Unlock()
		_, sure := p.read(p.ctx, client)
		p.mu.Lock()
		if !sure {
			p.wanted, p.rested = nil, clock.Now().Add(p.stay)
			return
		}
		p.wanted = p.wanted[1:]
	}
}

// read asks every node for a client's card. It is sure once a node has the card, or once so many
// have answered without it that none is believed to have it. Only a sure answer is kept.
func (p *presence) read(ctx context.Context, client string) (card wire.Card, sure bool) {
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
			card, err := at.node.Whois(ctx, client)
			heard <- answer{card, err}
		})
	}
	strangers := 0 // nodes that answered without a card
	for range p.posts {
		a := <-heard
		if a.err == nil {
			strangers++
		}
		card, sure = a.card, a.card != (wire.Card{}) || strangers == p.enough
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

// String tells a state in words, such as "held by billing on pod-7f9c (pid 12), 28s left, 3 waiting".
func (s State) String() string {
	text := "free"
	if s.Held {
		who := s.By.String()
		if who == "" {
			who = wire.Shown(s.Holder)
		}
		text = "held by " + who
		if s.Count > 1 {
			text += fmt.Sprintf(" %d times", s.Count)
		}
		if s.TTL < 0 {
			text += ", without an end"
		} else {
			text += fmt.Sprintf(", %v left", s.TTL)
		}
	}
	if s.Waiters > 0 {
		text += fmt.Sprintf(", %d waiting", s.Waiters)
	}
	return text
}
