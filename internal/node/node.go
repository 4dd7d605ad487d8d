// Package node is one Redis as this process sees it: what is claimed there (Claim), what is
// believed of that (Belief), what may still have to be ended there (sweeper), and whether it
// answers (health). It serves both a Redis that decides alone and a node of a quorum.
package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// ErrIdle stands for the answer of a node that was not asked, since it did not answer lately.
var ErrIdle = errors.New("not asked: it did not answer lately")

// Grant is what Redis gave an entry: tokens and a lease.
type Grant struct {
	Token  int64       // the first fencing token
	Passes int         // how many acquisitions in a row may use the grant's tokens
	Sent   clock.Stamp // the lease began then or later, so counting from here is safe
	Fresh  bool        // no entry waited for the lock when it was asked for at Sent
}

// Config is how a client uses a Redis.
type Config struct {
	wire.Options
	Client  string        // uuid
	Timeout time.Duration // of a command whose caller has left, or that has none
	Plain   bool          // no sharded channels, on a Cluster that has them too

	// Impaired is told why the Redis works worse than it should, and Mended once that is over.
	Impaired func(cause error)
	Mended   func(cause error)
	// Reachable is told why a command was not answered, and then nil once one is answered again. It
	// may be nil.
	Reachable func(cause error)
}

// Node is one Redis, and all that runs for it in this process: the commands that are out, the
// messages, and the sweeper.
type Node struct {
	cfg     Config
	redis   driver.Redis // counts what is sent, and remembers a login
	bare    driver.Redis // what New was given
	wire    *wire.Redis
	hub     *hub.Hub
	counts  driver.Counts
	link    *link.Link
	sweeper *sweeper
	done    chan struct{} // closed by Stop

	keepsVigil atomic.Bool // a vigil goroutine runs

	*health      // nil where Redis decides alone: it is asked even if it did not answer before
	reachability reachability

	// mode is 0 until it is known how messages travel. Only a Cluster has to be asked.
	mode    atomic.Int32
	modeMu  sync.Mutex // guards probing; never held across a round trip
	probing *probe     // the question that is out, or was answered; nil for none
}

// New returns a node. It takes a connection in the background, and sends nothing by itself.
func New(rdb driver.Redis, cfg Config) *Node {
	n := &Node{cfg: cfg, bare: rdb, done: make(chan struct{})}
	n.reachability.tell, n.reachability.wentDown = cfg.Reachable, n.vigil
	rdb = driver.Remembering(n.counts.Counted(rdb))
	n.redis = rdb
	if cfg.Votes {
		n.health = newHealth(cfg.Timeout)
	}
	n.link = link.New(rdb, cfg.Timeout, n.answered)
	n.wire = wire.New(n.link, cfg.Options)
	n.sweeper = newSweeper(n)
	n.hub = hub.New(rdb, cfg.Client, n.owner(), n.orphan)
	if !rdb.Cluster() {
		n.mode.Store(modePlain)
		n.hub.StartPlain(true)
	}
	return n
}

// answered is told of each command that had the node's whole time-out: nil if Redis answered, else
// why it did not. A command that was cut short, by its caller or by a lock's shorter time-out, says
// nothing of the node.
func (n *Node) answered(err error) {
	if n.health != nil {
		n.health.answered(err)
	}
	n.reachability.answered(err)
}

// Explained returns err for a caller of the node. If err only says that no answer came, and the node
// failed with some error within the last two time-outs, it adds that error.
func (n *Node) Explained(err error) error {
	if err != wire.ErrNoAnswer && err != ErrIdle && err != context.DeadlineExceeded {
		return err
	}
	if last := n.reachability.last.Load(); last != nil && time.Since(last.at) < 2*n.cfg.Timeout {
		return &wire.Silent{What: err, Last: last.err}
	}
	return err
}

// Down reports whether the last command that had its whole time-out was not answered.
func (n *Node) Down() bool { return n.reachability.down.Load() }

// Do sends plain commands.
func (n *Node) Do(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	sent := clock.Now()
	got, err := n.redis.Do(ctx, commands...)
	if silent := link.Silence(err); silent == nil || clock.Now().Since(sent) >= n.cfg.Timeout || ctx.Err() == nil {
		n.answered(silent)
	}
	return got, err
}

// Answers asks the Redis whether it answers, and returns why it does not. If it is known to be down,
// Answers does not ask: vigil does.
func (n *Node) Answers(ctx context.Context) error {
	if n.Down() {
		return ErrIdle
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	_, err := n.Do(ctx, ping)
	return link.Silence(err)
}

// ping makes a Redis answer. Without the right to PING, or to log in, the answer is a refusal, which will do.
var ping = []string{"PING"}

// vigil pings a Redis that went down until it answers, or the node is closed. Otherwise a client that
// sends nothing would not learn that it is back. One goroutine does so at a time. A ping without an
// answer does not count for the breaker of a quorum's node: only locks' commands open it.
func (n *Node) vigil() {
	if n.keepsVigil.Swap(true) {
		return
	}
	n.hub.Go(func() {
		pause := clock.Backoff{Least: 100 * time.Millisecond, Most: 2 * time.Second}
		for {
			for n.Down() {
				if !clock.Sleep(n.hub.Context(), pause.Next()) {
					return
				}
				ctx, cancel := context.WithTimeout(n.hub.Context(), n.cfg.Timeout)
				_, err := n.redis.Do(ctx, ping)
				if err = link.Silence(err); err == nil {
					n.answered(nil)
				} else {
					n.reachability.fails(err)
				}
				cancel()
			}
			n.keepsVigil.Store(false)
			if !n.Down() || n.keepsVigil.Swap(true) { // it may have gone down in between
				return
			}
			pause.Reset()
		}
	})
}

// owner is the node as its hub sees it.
func (n *Node) owner() hub.Owner { return owner{n} }

type owner struct{ *Node }

func (o owner) Impaired(cause error) { o.cfg.Impaired(cause) }
func (o owner) Mended(cause error)   { o.cfg.Mended(cause) }

// Fails notes why there is no connection for messages, unless the reason is an answer of Redis.
func (o owner) Fails(err error) {
	if link.Unanswered(err) && !errors.Is(err, driver.ErrClosed) {
		o.reachability.fails(err)
	}
}

// Sent returns how many commands of one kind were answered, refused, and not answered.
func (n *Node) Sent(op driver.Op) (answered, refused, unanswered uint64) { return n.counts.Of(op) }

// Redis returns the driver that New was given. What is sent over it is not counted.
func (n *Node) Redis() driver.Redis { return n.bare }

// Introduce writes a client's card, which expires after stay. If the card is there already, only its
// expiry is set anew.
func (n *Node) Introduce(ctx context.Context, client string, c *wire.Card, stay time.Duration) error {
	return n.wire.Introduce(ctx, client, c, stay)
}

// Withdraw takes a client's card away.
func (n *Node) Withdraw(ctx context.Context, client string) error {
	return n.wire.Withdraw(ctx, client)
}

// Whois reads a client's card. It returns the zero Card if the client has none.
func (n *Node) Whois(ctx context.Context, client string) (wire.Card, error) {
	return n.wire.Whois(ctx, client)
}

// Declare tells the node that it has forgotten no lock. It returns false if the node has the
// restart guard's marker by now, or is another process than the one with that run id.
func (n *Node) Declare(ctx context.Context, run string) (bool, error) {
	return n.wire.Declare(ctx, run, n.cfg.Longest)
}

// orphan has the sweeper release an entry that was granted its lock after it was over here.
func (n *Node) orphan(g wire.Grant) {
	names, err := g.Kind.Names("", g.Name)
	if err != nil {
		return
	}
	c := &Claim{node: n, Entry: &wire.Entry{
		Names: names, ID: g.ID, Owner: g.Owner, Lease: g.Lease, Block: 1, Timeout: n.cfg.Timeout,
	}}
	c.known.Store(true)
	n.sweeper.sweep(c, false)
}

// group is what the locks of one command must have in common.
type group struct {
	slot uint16 // on a Cluster
	kind *wire.Kind
}

// groupOf returns the group of an entry's lock.
func (n *Node) groupOf(e *wire.Entry) group {
	if n.mode.Load() == modePlain {
		return group{kind: e.Names.Kind}
	}
	return group{slot: driver.Slot(e.Names.Lock), kind: e.Names.Kind}
}

// renewsAtOnce bounds how many commands of one Renew are out. Redis runs those that lie in a
// connection's buffer one after another, before it serves other clients: so for some 6 ms at most.
const renewsAtOnce = 16

// Renew lengthens leases, with as few commands as possible: each takes locks of one group,
// wire.MaxBatch at most, and of no more than wire.MaxWeight. Renew calls note once for each renewal,
// from any goroutine, with its index in the batch, and with err if it was not answered. It returns when
// all have been noted.
func (n *Node) Renew(ctx context.Context, batch []wire.Renewal, note func(i int, r wire.Result, err error)) {
	groups := make(map[group][]int) // places in the batch
	for i, r := range batch {
		g := n.groupOf(r.Claim.Of())
		if len(groups) == 0 {
			groups[g] = make([]int, 0, len(batch)) // most often the only one
		}
		groups[g] = append(groups[g], i)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, renewsAtOnce)
	for _, alike := range groups {
		for places := range wire.Commands(alike, wire.MaxBatch, func(at int) *wire.Entry { return batch[at].Claim.Of() }) {
			first, last := places[0], places[len(places)-1]
			part := batch[first : last+1]
			if len(part) > len(places) { // renewals of other groups stand in between
				part = make([]wire.Renewal, len(places))
				for i, at := range places {
					part[i] = batch[at]
				}
			}
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				n.wire.RenewApart(ctx, part, func(from int, got []wire.Result, err error) {
					for i, r := range got {
						note(places[from+i], r, err)
					}
				})
			})
		}
	}
	wg.Wait()
}

// Inspect reads a lock's state.
func (n *Node) Inspect(ctx context.Context, names *wire.Names) (wire.State, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	return n.wire.Inspect(ctx, names)
}

// Force frees a lock, as [wire.Redis.Force] does.
func (n *Node) Force(ctx context.Context, names *wire.Names, owners ...string) (freed bool, owner string, err error) {
	way, err := n.route(ctx, names)
	if err != nil {
		return false, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	return n.wire.Force(ctx, way, names, owners...)
}

// Resize says how many permits a semaphore has, as [wire.Redis.Resize] does.
func (n *Node) Resize(ctx context.Context, names *wire.Names, permits int, anew bool) (bool, error) {
	way, err := n.route(ctx, names)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	return n.wire.Resize(ctx, way, names, permits, anew)
}

// Stop makes contenders leave. Messages are still received, so that grants which come now are ended.
func (n *Node) Stop() { close(n.done) }

// Done is closed when contenders are to leave.
func (n *Node) Done() <-chan struct{} { return n.done }

// LastSweep lets every sweep try once more, and waits for them.
func (n *Node) LastSweep() { n.sweeper.close() }

// Close ends what runs for the node, and waits for it.
func (n *Node) Close() {
	n.link.Close()
	n.hub.Close()
}

// Debug is what tests look at.
type Debug struct {
	Wire     *wire.Redis
	Hub      *hub.Hub
	Channels string // how messages travel: "plain", "sharded", "raced", "" while that is not known
	Sweeping int    // claims that are to be ended in the background
	Draining bool   // Close waits for commands that are out
}

// Debug is for tests alone.
func (n *Node) Debug() Debug {
	n.sweeper.mu.Lock()
	defer n.sweeper.mu.Unlock()
	return Debug{
		Wire: n.wire, Hub: n.hub, Sweeping: len(n.sweeper.all), Draining: n.link.Draining(),
		Channels: [...]string{0: "", modePlain: "plain", modeSharded: "sharded", modeRaceOnly: "raced"}[n.mode.Load()],
	}
}
