package world

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// Lingering: an acquisition of a live process that has no lease is ended, unless it lingers: until so long after it was
// first asked for, and until its process hears that another process wants the lock. What was lengthened, doubted, or granted
// later than by its first question is not taken from the cache. The judge sees each acquisition's id where a process sends
// or hears it, so no fault of the network is mixed up with that.

// stay is what is known of one acquisition. The world's mutex guards it.
type stay struct {
	past   past
	placed placed

	proc    *process
	id      string
	lock    string    // that a lease of it is for
	first   time.Time // when it was first asked for
	asked   int       // how often, of all nodes; a question that is sent again apart from others counts once
	handed  bool      // a message told that it was granted
	wanted  time.Time // when its process heard that the lock is wanted
	doubt   time.Time // when its process heard that the lock was taken away, zero once it has renewed it since
	kept    time.Time // Redis was asked to keep it up to here
	lease   time.Duration
	ended   bool      // a command was sent that ends it
	over    time.Time // when the first of them was
	late    bool      // a question for it ran when it had been over for more than its lease
	stale   bool      // one ran so late that the sweeper may have given it up before it sent anything
	copied  bool      // a copy of a command for it ran, or it is back in a queue: its process does not hear of that
	live    int       // leases that are not let go
	leaving int       // leases whose Unlock has not returned
	given   bool      // it had a lease
	turn    int       // counts the leases
	filling time.Time // when Redis was last asked to keep it longer while no lease of it was live
	filled  time.Time // when it was asked for that first, since the lease of that number was over
	fills   int
	linger  time.Duration
	handle  bool      // of a hand-over: it stands until its time is over
	least   time.Time // by WithMinHold it may be kept up to here
	held    []*Held   // its leases, but for those that were over when the last one was given
	last    time.Time // when one of them was given out, or let go

	askedAt, grantedAt uint8 // nodes that were asked for it, and those that granted it by the first question
	ears               int   // nodes at which its process heard, when its first lease was given out
}

// has reports whether a lease of it may be live.
func (s *stay) has() bool {
	return slices.ContainsFunc(s.held, func(h *Held) bool { return !h.over.Load() })
}

// idle reports whether no lease and no caller stands in the way of its end.
func (s *stay) idle() bool {
	return s.given && s.live+s.leaving == 0 && !s.ended && !s.proc.dead && !time.Now().Before(s.least)
}

// end is until when it may linger. The library rounds that down.
func (s *stay) end() time.Time { return s.first.Add(s.linger) }

// soon is longer than a process needs to send what ends an acquisition: votes that are out are waited for first.
func (w *World) soon() time.Duration { return w.plan.Timeout() + 20*time.Millisecond }

// fillPause is longer than a caller rests, of what it asks Redis for, until it asks again to lengthen a fixed lease that it
// was handed short: a tenth of a lease, behind an answer that does not come.
func (w *World) fillPause() time.Duration { return w.plan.Longest()/10 + w.soon() }

// ends are the commands that end acquisitions. Others of their ids keep one, raise the counter of its lock, ask for more tokens, or
// leave the result of its run.
var ends = []string{"release", "unvote", "sweep", "many"}

// manyAsks says of the hash of a script for many whether it asks for locks; else it ends acquisitions.
var manyAsks sync.Map

// follows notes what a command that is sent says of acquisitions. The caller holds the world's mutex.
func (w *World) follows(p *process, c *command) {
	if p.foreign || c.args[0] != "EVALSHA" || c.lock == "" { // with its text it is sent again
		return
	}
	n, _ := strconv.Atoi(c.args[2])
	args, entries, prefix := c.args[3+n:], 1, p.client.ID()+":"
	if c.op == "move" {
		w.moves(p, c, args[0], args[1], msIn(args[2]), args[3] == "0")
		return
	}
	asks := c.op == "acquire" || c.op == "vote"
	if c.op == "many" {
		many, _ := manyAsks.Load(c.args[1])
		asks, _ = many.(bool)
		entries, _ = strconv.Atoi(args[0])
		args = args[1:]
	}
	if c.op == "sweep" {
		width, _ := strconv.Atoi(args[0])
		args = args[1:]
		entries = len(args) / width
	}
	if c.op == "gather" {
		asks, args = true, w.gathers(p, c, args)
		entries = len(c.gathered)
	}
	for e := range entries {
		ids, released := 0, (*stay)(nil)
		for i := e * len(args) / entries; i < (e+1)*len(args)/entries; i++ {
			id := args[i]
			if !strings.HasPrefix(id, prefix) {
				continue
			}
			if ids++; ids > 1 && (asks || c.op == "sweep") { // its owner
				if asks {
					w.comesBeside(args[:i], id)
				}
				continue
			}
			queued := ids > 1 && c.op != "renew" // in the place of what is released
			s := w.stays[id]
			if s == nil && (asks || queued) {
				s = &stay{proc: p, id: id, first: time.Now()}
				w.stays[id] = s
			}
			if ids == 1 {
				released = s
			} else if queued && released != nil { // granted to callers that have given up, it lingers as the one before
				s.linger = max(s.linger, released.linger)
			}
			switch {
			case s == nil:
			case asks || queued:
				s.asks(c)
				if asks { // its lease and its block are before it, else behind
					s.lease = msIn(args[i-2])
				} else if i+1 < len(args) {
					s.lease = msIn(args[i+1])
				}
				if c.op == "acquire" {
					w.queues(s, c, args, i)
				}
			case c.op == "renew" || c.op == "recount":
				s.lengthens(c.op, args[i+2])
				if before := s.doubt; !before.IsZero() {
					c.heard = append(c.heard, func(driver.Value) { s.sure(before) })
				}
			case slices.Contains(ends, c.op) && !s.ended:
				w.leavesPlace(s)
				s.ended, s.over = true, time.Now()
			}
		}
	}
}

// asks notes that a command asks for it. One for many that Redis refuses for one of its keys runs for none: each is asked for
// again, apart from that key, and only that question counts.
func (s *stay) asks(c *command) {
	s.asked++
	c.asks = append(c.asks, s)
	if c.op == "many" {
		c.heard = append(c.heard, func(v driver.Value) {
			if wire.OfOneKey(v.Err()) {
				s.asked--
			}
		})
	}
}

// ranLate notes the acquisitions that a command asks for and that their process has ended more than a lease ago: so long it comes
// back to them, and no longer. The network, or a node that is paused, may keep a command for longer. The caller holds the
// world's mutex.
func (c *command) ranLate() {
	for _, s := range c.asks {
		s.late = s.late || s.ended && s.lease > 0 && time.Since(s.over) > s.lease
		s.stale = s.stale || !s.ended && s.lease > 0 && time.Since(c.sent) > 2*s.lease
	}
}

// copied notes the acquisitions that a command is for which runs unasked. The caller holds the world's mutex.
func (w *World) copied(c *command) {
	for _, arg := range c.args {
		if s := w.stays[arg]; s != nil {
			s.copied = true
		}
	}
}

// bringsBack notes that a node which forgets may have an acquisition back in its queue that has ended. The message of its grant
// may be lost. The caller holds the world's mutex.
func (w *World) bringsBack() {
	for _, s := range w.stays {
		s.copied = s.copied || !s.has()
	}
}

// lengthens notes that Redis is asked to keep an acquisition for so many milliseconds.
func (s *stay) lengthens(op, lease string) {
	s.kept = later(s.kept, time.Now().Add(msIn(lease)))
	if op == "recount" && s.live == 0 {
		s.filling = time.Now() // a fixed lease that is passed on is lengthened before it is given out
		if s.fills != s.turn || s.filled.IsZero() {
			s.fills, s.filled = s.turn, s.filling
		}
	}
}

// msIn is a duration that a command spells.
func msIn(text string) time.Duration {
	ms, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(ms) * time.Millisecond
}

// sure notes that a renewal was answered that was sent after a doubt.
func (s *stay) sure(of time.Time) {
	if s.doubt.Equal(of) {
		s.doubt = time.Time{}
	}
}

// hears notes what a message says of an acquisition. The caller holds the world's mutex.
func (w *World) hears(channel, message string) {
	if !strings.HasPrefix(channel, wire.InboxPrefix) {
		return
	}
	g, err := wire.ParseGrant(message)
	s := w.stays[g.ID]
	switch {
	case err != nil || s == nil:
	case g.Tokens.First > 0:
		s.handed = true
		w.cutsShort(s.proc, g.Name)
	case g.Wanted:
		s.wanted = time.Now()
		w.rests(s)
	case !g.Nudge && s.given:
		s.doubt = time.Now()
	}
}

// askedFor is when the lock was first asked for that a lease was granted with: a caller that gave up leaves its place to
// the next of its process.
func (w *World) askedFor(h *Held) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.stays[h.id]; s != nil && !s.given {
		return earlier(h.asked, s.first)
	}
	return h.asked
}

// gives notes a lease, and demands of one from the cache that it may have been there.
func (w *World) gives(h, outer *Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stays[h.id]
	if s == nil {
		return
	}
	how := relock.How(reflect.ValueOf(h.Lease).Elem().FieldByName("how").Uint())
	if outer == nil || outer.id != h.id {
		w.again(s, h, how)
	}
	if how == relock.HowCached && !h.fixed { // a fixed lease may be lengthened since it was taken
		if why := w.uncacheable(s, h); why != "" {
			w.failed(h.Name, "token %d of p%d comes from the cache, and the hold %s", h.Token, h.proc.index, why)
		}
	}
	s.lock = h.Name
	if !s.given && s.ears == 0 {
		s.ears = w.hearing(s.proc)
	}
	s.given, s.live, s.turn, s.last = true, s.live+1, s.turn+1, time.Now()
	s.held = append(slices.DeleteFunc(s.held, func(h *Held) bool { return h.over.Load() }), h)
	if outer == nil || outer.id != h.id {
		if h.took.IsZero() && w.grasps[asking{s.proc, s.lock}] == 0 {
			s.linger = h.linger
		} else { // a call of All took the lock before, and another caller may have taken it since
			s.linger = max(s.linger, h.linger)
		}
		s.least = time.Time{}
		if h.minHold > 0 { // then Redis keeps it a little longer
			s.least = time.Now().Add(h.minHold + max(h.minHold, h.lease)/50 + w.soon())
		}
	}
}

// uncacheable is why a hold may not have lingered until now, "" for nothing.
func (w *World) uncacheable(s *stay, h *Held) string {
	now := h.taken()
	switch {
	case s.given && now.After(s.end()): // the first caller may have left: then nothing tells how long it lingers
		return "may not linger any more since " + now.Sub(s.end()).String()
	case !s.wanted.IsZero() && s.wanted.Before(now):
		return "is wanted since " + now.Sub(s.wanted).String()
	case !s.doubt.IsZero() && s.doubt.Before(now):
		return "is in doubt since " + now.Sub(s.doubt).String()
	case h.took.IsZero() && s.kept.After(now.Add(h.first+5*time.Millisecond)):
		return "was lengthened beyond its lease by " + (s.kept.Sub(now) - h.first).String()
	case len(w.nodes) == 1 && (s.asked > 1 || s.handed):
		return "was granted later than by its first question"
	}
	return w.unheardOf(s)
}

// going is how far the first Unlock of a lease has come.
type going uint8

const (
	remains going = iota
	isLeft
	hasLeft
)

// leaves notes that Unlock of a lease is called, hasLeft that it has returned.
func (w *World) leaves(h *Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.stays[h.id]; s != nil && h.going == remains {
		h.going = isLeft
		s.last = time.Now()
		s.live--
		s.leaving++
	}
}

func (w *World) hasLeft(h *Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.stays[h.id]; s != nil && h.going == isLeft {
		h.going = hasLeft
		s.leaving--
		w.rests(s)
	}
}

// rests sees to it that a hold which lies idle is ended in time. The caller holds the world's mutex.
func (w *World) rests(s *stay) {
	if left := time.Until(s.least); left > 0 {
		w.after(left, func() { w.rests(s) })
		return
	}
	if !s.idle() {
		return
	}
	if s.proc.closed {
		return // what is held when its client is closed is left to its lease
	}
	end, turn := later(time.Now(), s.end()), s.turn
	if !s.wanted.IsZero() {
		end = time.Now()
	}
	w.after(time.Until(end)+w.soon(), func() {
		switch {
		case !s.idle() || s.turn != turn || s.proc.closed || !w.stillKept(s): // its lease may be over, say while a node was paused
		case w.grasps[asking{s.proc, s.lock}] > 0 || s.wanted.IsZero() && s.end().After(end): // All has it, or had it and gave it back
			w.after(w.soon(), func() { w.rests(s) })
		case w.hindered(s.proc) || time.Since(s.filling) < w.fillPause():
			w.after(w.soon(), func() { w.rests(s) })
		default:
			w.failed(s.lock, "the idle hold %s of p%d, asked for %v ago, for %v, is not given back %v after its end", s.id,
				s.proc.index, time.Since(s.first), s.linger, time.Since(end))
		}
	})
}

// stillKept reports whether some node has the acquisition. The caller holds the world's mutex.
func (w *World) stillKept(s *stay) bool {
	for _, n := range w.nodes {
		if w.form.held(n, s.lock, s.id) {
			return true
		}
	}
	return false
}

// hindered reports whether what a process has sent may be out for long, so that what is to follow waits. The caller holds
// the world's mutex.
func (w *World) hindered(p *process) bool {
	// What was not answered is swept again after a pause of a second at most.
	since := time.Now().Add(-w.soon() - time.Second)
	for _, n := range w.nodes {
		if n.disturbed.After(since) {
			return true
		}
	}
	return p.disturbed.After(since)
}

// idleOf are the holds of a process that lie idle when it is about to be closed, each with how many leases it had.
func (w *World) idleOf(p *process) map[*stay]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.closed = true
	idle := make(map[*stay]int)
	for _, s := range w.stays {
		if s.proc == p && s.idle() && w.grasps[asking{p, s.lock}] == 0 {
			idle[s] = s.turn
		}
	}
	return idle
}

// keptBy demands that a client that is closed has given back what lay idle, unless a caller took it up before Close found it.
func (w *World) keptBy(p *process, idle map[*stay]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s, turn := range idle {
		if s.turn == turn && s.idle() && w.stillKept(s) {
			w.failed(s.lock, "p%d is closed, and has not given back the idle hold %s", p.index, s.id)
		}
	}
}
