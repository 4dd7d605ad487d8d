package operator

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// glance is a lock being read, in steps. Each step queues commands whose replies the next one uses.
type glance struct {
	*Sighting
	trip   *trip
	now    time.Time
	quorum bool        // it has no semaphores
	rw     *wire.Names // of the read-write lock with this name
	fields []string    // of the hash, each before its value
	whole  bool        // fields is the complete hash
	size   int64       // number of fields in the hash, if not whole
	left   int64       // ms until the hash expires, negative if it never does
	beats  []beat      // of the readers, if asked for
	own    queueStats  // of the mutex with this name
	sides  queueStats  // of the read-write lock, both queues

	semaphore *wire.Names // with this name, nil if none can have it
	asked     bool        // for the semaphore
	permits   permits
}

// queueStats says how many waiters a lock has, and how long the longest has waited.
type queueStats struct {
	waiters int
	longest time.Duration
}

// beat is the state of a reader's keys. The reader lives as long as one of them does.
type beat struct {
	left  int64 // ms until the last key expires, -2 if there is none
	stood bool  // after that, the reader's field was still in the hash
}

// read reads locks on one Redis, in two round trips however many they are: the first tells which
// queues and readers to ask for. A third trip asks for the hold counts of shared owners that very
// many share, and one between them for names that had semaphores and have none any more.
func (r *Reader) read(ctx context.Context, rdb driver.Reader, names []*wire.Names, c clock) ([]Sighting, error) {
	ctx, cancel := Soon(ctx)
	defer cancel()
	seen, all := make([]Sighting, len(names)), make([]glance, len(names))
	t, now := &trip{rdb: rdb}, c.now()
	for i, n := range names {
		seen[i].Names = n
		all[i] = glance{Sighting: &seen[i], trip: t, now: now, quorum: len(r.nodes) > 1}
	}
	for _, step := range []func(*glance) error{(*glance).begin, (*glance).turn, (*glance).askMore, (*glance).askCount, (*glance).end} {
		for i := range all {
			if err := step(&all[i]); err != nil {
				return nil, fmt.Errorf("read lock %q: %w", seen[i].Names.Name, err)
			}
		}
		if err := t.send(ctx); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// begin asks for what a semaphore keeps, or else for the hash, and for the queue of a mutex, since most
// locks are mutexes.
func (g *glance) begin() error {
	prefix, name, kind := strings.TrimSuffix(g.Names.Lock, g.Names.Name), g.Names.Name, g.Names.Kind
	own, err := wire.Mutex.Names(prefix, name)
	if err != nil {
		return err
	}
	if g.rw, err = wire.Write.Names(prefix, name); err != nil {
		return err
	}
	g.Names, g.semaphore = own, nil
	if !g.quorum {
		g.semaphore, _ = wire.Semaphore.Names(prefix, name)
	}
	if kind == wire.Semaphore && g.semaphore != nil {
		g.askPermits()
		return nil
	}
	g.askHash()
	return nil
}

// askHash asks for the hash, and for the queue of a mutex.
func (g *glance) askHash() {
	g.ask(func(said driver.Value) error {
		if wrongType(said) { // there is no hash
			g.whole = true
			return nil
		}
		cursor, fields, err := page(said)
		g.fields, g.whole = fields, cursor == "0"
		return err
	}, "HSCAN", g.Names.Lock, "0", "COUNT", strconv.Itoa(hashCount))
	g.number(&g.left, "PTTL", g.Names.Lock)
	g.askWaiters(g.Names, &g.own)
}

// turn asks for the hash if there is no semaphore where one was.
func (g *glance) turn() error {
	if g.asked && !g.permits.stands() {
		g.askHash()
	}
	return nil
}

// askMore asks what the first answers left open: how long waiters have waited, how many wait for a
// read-write lock, which of its readers live, and the fields of a very large hash that tell whose
// it is.
func (g *glance) askMore() error {
	if g.asked && g.permits.stands() {
		return nil
	}
	if g.own.waiters > 0 {
		g.askLongest(g.Names, &g.own)
	}
	if g.whole {
		g.read(g.fields, g.now)
	} else {
		g.askKind()
	}
	if g.ReadWrite() || !g.whole || len(g.fields) == 0 { // there may be waiters for a free lock
		g.askWaiters(g.rw, &g.sides)
		g.askLongest(g.rw, &g.sides)
	}
	if g.whole && len(g.fields) == 0 && g.semaphore != nil && !g.asked { // it may be a semaphore, or one without its counter
		g.askPermits()
	}
	if g.whole && g.reads() {
		g.askAlive()
	}
	return nil
}

// askCount asks for the hold count of a shared owner that very many share.
func (g *glance) askCount() error {
	if g.whole {
		return nil
	}
	for i := 0; i+1 < len(g.fields); i += 2 {
		if parts := strings.SplitN(g.fields[i+1], ":", 3); g.fields[i] == firstField && len(parts) == 3 {
			g.askFields(parts[2])
			break
		}
	}
	return nil
}

// end completes the sighting from the answers.
func (g *glance) end() error {
	if g.asked && g.permits.stands() && len(g.fields) == 0 {
		g.endPermits()
		return nil
	}
	if !g.whole {
		g.read(g.fields, g.now)
		if g.reads() {
			g.Count = int(g.size) - 1 // the field that tells the mode
		}
	}
	g.TTL = time.Duration(g.left) * time.Millisecond
	g.dropCrashed()
	if !g.Held {
		g.TTL = 0
	}
	waits := g.own
	if g.ReadWrite() || g.Kind == "" && waits.waiters == 0 && g.sides.waiters > 0 {
		g.Names, waits = g.rw, g.sides
	}
	if g.Waiters = waits.waiters; g.Waiters > 0 {
		g.Longest = max(0, waits.longest)
	}
	switch {
	case g.ReadWrite() && strings.HasPrefix(g.Kind, KindRelock):
		g.client = wire.ClientOf(g.Holder)
	case g.whole && !g.ReadWrite():
		g.client = wire.ClientIn(g.fields)
	}
	return nil
}

// dropCrashed removes the readers whose processes have crashed: their fields stay in the hash as
// long as another reader lives. Without a live reader the lock is free.
func (g *glance) dropCrashed() {
	if len(g.beats) == 0 {
		return
	}
	var alive []Holding
	var longest time.Duration
	for i, b := range g.beats {
		left := time.Duration(b.left) * time.Millisecond
		if !b.stood { // it has unlocked since the hash was read, and is shown as it was then
			left = g.TTL
		} else if b.left == noKey {
			continue
		}
		if len(alive) == 0 || compareTTL(left, longest) > 0 {
			longest = left
		}
		alive = append(alive, g.Holders[i])
	}
	if g.Holders, g.Count = alive, len(alive); g.Count == 0 {
		g.Held, g.Holder = false, ""
		return
	}
	g.Holder = alive[0].Owner
	if compareTTL(longest, g.TTL) < 0 {
		g.TTL = longest
	}
}

// ask adds a command about the lock to the trip.
func (g *glance) ask(hear func(driver.Value) error, cmd ...string) {
	g.trip.ask(func(said driver.Value) error {
		if err := hear(said); err != nil {
			return fmt.Errorf("read lock %q: %w", g.Names.Name, err)
		}
		return nil
	}, cmd...)
}

// number adds a command whose answer is a number.
func (g *glance) number(into *int64, cmd ...string) { g.ask(intoNumber(into), cmd...) }

// askWaiters asks how many waiters are in a lock's queues. A score below 0 is no waiter's.
func (g *glance) askWaiters(names *wire.Names, into *queueStats) {
	for _, q := range queuesOf(names) {
		g.ask(func(said driver.Value) error {
			n, err := said.Int64()
			into.waiters += int(n)
			return err
		}, "ZCOUNT", q.key, "0", "+inf")
	}
}

// askLongest asks how long the first waiter in a lock's queues has waited.
func (g *glance) askLongest(names *wire.Names, into *queueStats) {
	for _, q := range queuesOf(names) {
		g.ask(func(said driver.Value) error {
			members, err := scored(said)
			for _, m := range members {
				into.longest = max(into.longest, g.now.Sub(m.came()))
			}
			return err
		}, firstIn(q, 1)...)
	}
}

// askKind asks for the size of a very large hash, and for the fields that tell what it is.
func (g *glance) askKind() {
	g.number(&g.size, "HLEN", g.Names.Lock)
	g.askFields(modeField, voteField, firstField)
}

// askFields asks for fields of the hash. Those that exist are added to g.fields.
func (g *glance) askFields(fields ...string) {
	g.ask(func(said driver.Value) error {
		values, err := said.Values()
		for i, v := range values {
			if value, err := v.Text(); err == nil {
				g.fields = append(g.fields, fields[i], value)
			}
		}
		return err
	}, append([]string{"HMGET", g.Names.Lock}, fields...)...)
}

const (
	noKey = -2 // PTTL's answer if there is no key
	// maxBeat bounds the keys asked for per reader: a thread of Redisson has one for each time that
	// it entered.
	maxBeat = 10
)

// askAlive asks for how long each reader's keys live, and after that whether its field still is in the
// hash. A reader that unlocked meanwhile has no field, and is not taken for a dead one.
func (g *glance) askAlive() {
	times := make(map[string]int)
	for i := 0; i+1 < len(g.fields); i += 2 {
		times[g.fields[i]], _ = strconv.Atoi(g.fields[i+1])
	}
	g.beats = make([]beat, len(g.Holders))
	owners := make([]string, len(g.Holders))
	for i, r := range g.Holders {
		owners[i], g.beats[i].left = r.Owner, noKey
		for n := 1; n <= min(times[r.Owner], maxBeat); n++ {
			g.ask(func(said driver.Value) error {
				left, err := said.Int64()
				// The longest counts: no key is less than a time, and a time less than never, which is negative.
				if longest := &g.beats[i].left; *longest == noKey || left < 0 && left != noKey || *longest >= 0 && left > *longest {
					*longest = left
				}
				return err
			}, "PTTL", g.rw.Pulse(r.Owner, n))
		}
	}
	g.ask(func(said driver.Value) error {
		values, err := said.Values()
		for i, v := range values {
			g.beats[i].stood = !v.IsNil()
		}
		return err
	}, append([]string{"HMGET", g.Names.Lock}, owners...)...)
}
