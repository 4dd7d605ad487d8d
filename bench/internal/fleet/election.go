package fleet

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/redis/rueidis"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/bench/internal/board"
	"github.com/relock-go/relock/election"
)

// upsets befall a leader. Each returns how the fleet goes on once another member leads.
var upsets = map[string]func(b *ballot, m *member) (then func() error, err error){
	"SIGKILL": func(b *ballot, m *member) (func() error, error) {
		return func() error { return b.replace(m) }, m.signal(syscall.SIGKILL)
	},
	"SIGSTOP": func(_ *ballot, m *member) (func() error, error) {
		return func() error { return m.signal(syscall.SIGCONT) }, m.signal(syscall.SIGSTOP)
	},
	"cut": func(_ *ballot, m *member) (func() error, error) {
		m.line.cut()
		return func() error { m.line.heal(); return nil }, nil
	},
	"Resign": func(_ *ballot, m *member) (func() error, error) {
		_, err := fmt.Fprintln(m.stdin, "resign")
		return func() error { return nil }, err
	},
	"SIGTERM": func(b *ballot, m *member) (func() error, error) {
		return func() error { return b.replace(m) }, m.signal(syscall.SIGTERM)
	},
}

// ballot is an election of a peer's.
type ballot struct {
	*fleet
	peer, addr string
	waiting    func(context.Context) (int, error) // how many members wait to lead
}

// join starts one more member, behind a line of its own.
func (b *ballot) join() error {
	l, err := newLine(b.addr)
	if err != nil {
		return err
	}
	m, err := b.fleet.join(task{Peer: b.peer, Addr: l.addr()})
	if err != nil {
		l.close()
		return err
	}
	m.line = l
	return nil
}

// replace starts a member in place of one that is gone.
func (b *ballot) replace(m *member) error { return cmp.Or(b.leave(m), b.join()) }

// settle waits until all others wait to lead.
func (b *ballot) settle(ctx context.Context) error {
	for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		n, err := b.waiting(ctx)
		switch {
		case err == nil && n >= size-1:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(late):
			return fmt.Errorf("%d members wait to lead: %v", n, err)
		}
	}
}

// times are durations of one kind.
type times []time.Duration

func (t times) String() string {
	if len(t) == 0 {
		return "-"
	}
	sorted := slices.Sorted(slices.Values(t))
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1e6) }
	return fmt.Sprintf("median %s ms, most %s ms", ms(sorted[len(sorted)/2]), ms(sorted[len(sorted)-1]))
}

// Elect upsets the leader of a peer's election, each way for some rounds, in random order. Then it
// prints how soon another member led, and how often and for how long two members believed at once that
// they led.
func Elect(ctx context.Context, out io.Writer, peer, addr string, rounds int) error {
	f, err := newFleet()
	if err != nil {
		return err
	}
	b := &ballot{fleet: f, peer: peer, addr: addr}
	defer b.close()
	var closes func()
	if b.waiting, closes, err = waitingAt(peer, addr); err != nil {
		return err
	}
	defer closes()
	for range size {
		if err := b.join(); err != nil {
			return err
		}
	}
	var order []string
	for name := range upsets {
		order = append(order, slices.Repeat([]string{name}, rounds)...)
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	took, both, anew := map[string]times{}, map[string]times{}, 0
	led, err := b.next("the first leader", func(e event) bool { return e.What == leads })
	for err == nil && len(order) > 0 {
		var waited, overlap time.Duration
		upset := order[0]
		led, waited, overlap, err = b.round(ctx, led, upset)
		switch {
		case err != nil:
			return fmt.Errorf("%s, %s: %w", peer, upset, err)
		case waited < 0: // the leader had lost its lead on a busy machine: that tells nothing of the upset
			anew++
			continue
		case overlap > 0:
			both[upset] = append(both[upset], overlap)
		}
		took[upset], order = append(took[upset], waited), order[1:]
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(took)) {
		fmt.Fprintf(out, "%s, %s, %d rounds: the next leader after %v; two led in %d rounds: %v\n",
			peer, name, len(took[name]), took[name], len(both[name]), both[name])
	}
	fmt.Fprintf(out, "%s: %d rounds begun anew\n", peer, anew)
	return nil
}

// round upsets the leader led. It returns the next one, how soon that led, and for how long both believed
// that they led.
func (b *ballot) round(ctx context.Context, led event, upset string) (next event, took, overlap time.Duration, err error) {
	if err := b.settle(ctx); err != nil {
		return led, 0, 0, err
	}
	time.Sleep(rand.N(TTL / 3)) // anywhere between two renewals
	at := board.Now()
	then, err := upsets[upset](b, led.from)
	if err != nil {
		return led, 0, 0, err
	}
	last := at // when the old leader believed last that it led: a killed one does not tell
	told := upset == "SIGKILL"
	hear := func(e event) {
		if e.from == led.from && e.What == lost {
			last, told = e.At, true
		}
	}
	next, err = b.next("another leader", func(e event) bool {
		hear(e)
		return e.What == leads && e.from != led.from
	})
	if err == nil {
		err = then()
	}
	if err == nil && !told {
		_, err = b.next("the old leader's word", func(e event) bool { hear(e); return told })
	}
	return next, time.Duration(next.At - at), time.Duration(last - next.At), err
}

// waitingAt returns what counts the members that wait to lead.
func waitingAt(peer, addr string) (waiting func(context.Context) (int, error), closes func(), err error) {
	if peer == "etcd" {
		client, err := openEtcd(addr)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) (int, error) { // each campaign has a key, the leader's too
			got, err := client.Get(ctx, "/"+leader+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil {
				return 0, err
			}
			return int(got.Count) - 1, nil
		}, func() { _ = client.Close() }, nil
	}
	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return nil, nil, err
	}
	locks, err := relock.New(rdb)
	if err != nil {
		return nil, nil, err
	}
	looks := election.New(locks.Mutex(leader))
	return func(ctx context.Context) (int, error) {
		st, err := looks.Leader(ctx)
		return st.Waiters, err
	}, func() { locks.Close(); rdb.Close() }, nil
}
