package eventlog

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

const (
	// Every is how far apart the lines of one topic are.
	Every = 10 * time.Second

	maxLocks  = 20  // locks that one line names
	maxCauses = 8   // causes of one kind and node that have lines of their own at a time
	maxDebug  = 100 // lines of one kind at debug, for each Every
)

// topic says which events share their lines at warn.
type topic struct {
	kind  int
	node  int
	cause string
}

func (r *Record) topic() topic { return topic{kind: r.Kind, node: r.Node, cause: root(r.Topic)} }

// root returns the text of the innermost error in err, which does not name the lock. Of an answer
// of Redis it returns the code alone: the text behind the code may tell how much time is left.
func root(err error) string {
	for err != nil {
		var next error
		switch err := err.(type) {
		case interface{ Unwrap() error }:
			next = err.Unwrap()
		case interface{ Unwrap() []error }:
			if all := err.Unwrap(); len(all) > 0 {
				next = all[0]
			}
		}
		if next == nil {
			return cmp.Or(wire.ReplyCode(err.Error()), err.Error())
		}
		err = next
	}
	return ""
}

// lines holds lines back. The first record of a topic is written at once. The records that follow
// become one line every 10 seconds. The methods may be called from any goroutine.
type lines struct {
	// write writes one line about so many events, of which last was the last, with the names of some
	// of their locks.
	write func(last Record, events int, locks []string)
	// before maps a kind to another one: records of the other kind that are held back are written
	// before a line of the kind.
	before map[int]int

	// order is held from when held records are taken until they are written: no later line may
	// overtake them. It is locked before mu.
	order sync.Mutex

	// mu guards what follows. A topic stays for as long as its timer runs: until Every has passed
	// without a record of it.
	mu     sync.Mutex
	topics map[topic]*held
	closed bool
}

// held is what was held back of a topic since its last line.
type held struct {
	events int
	locks  []string
	last   Record
	timer  *time.Timer
}

func newLines(write func(last Record, events int, locks []string), before map[int]int) *lines {
	return &lines{write: write, before: before, topics: make(map[topic]*held)}
}

// add writes a line about r, or holds r back. It reports whether the line was written. Once closed,
// lines hold nothing back.
func (l *lines) add(r Record) bool {
	if !l.due(&r) {
		return false
	}
	if _, waits := l.before[r.Kind]; waits {
		l.order.Lock()
		defer l.order.Unlock()
		l.flushBefore(r.Kind)
	}
	l.write(r, 1, nil)
	return true
}

// due reports whether to write a line about r at once. If not, it holds r back.
func (l *lines) due(r *Record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true
	}
	t := l.bounded(r.topic())
	h := l.topics[t]
	if h == nil {
		l.topics[t] = &held{timer: time.AfterFunc(Every, func() { l.end(t) })}
		return true
	}
	h.events, h.last = h.events+1, *r
	if r.Lock != "" && len(h.locks) < maxLocks && !slices.Contains(h.locks, r.Lock) {
		h.locks = append(h.locks, r.Lock)
	}
	return false
}

// bounded returns t, or, once the kind and node have maxCauses topics, the one topic that collects
// all further causes. Causes hold text that comes from outside, and may all differ. The caller
// holds l.mu.
func (l *lines) bounded(t topic) topic {
	if l.topics[t] != nil {
		return t
	}
	causes := 0
	for other := range l.topics {
		if other.kind == t.kind && other.node == t.node {
			causes++
		}
	}
	if causes >= maxCauses {
		t.cause = ""
	}
	return t
}

// flushBefore writes the records that are held back of the kind that comes before kind, if there is
// one. The caller holds l.order.
func (l *lines) flushBefore(kind int) {
	first, is := l.before[kind]
	if !is {
		return
	}
	var all []held
	l.mu.Lock()
	for t, h := range l.topics {
		if t.kind == first && h.events > 0 {
			all = append(all, h.take())
		}
	}
	l.mu.Unlock() // before writing: a slow handler must not block add
	for _, h := range all {
		l.write(h.last, h.events, h.locks)
	}
}

// take empties h. Its topic stays for another Every.
func (h *held) take() held {
	was := *h
	h.events, h.locks = 0, nil
	h.timer.Reset(Every)
	return was
}

// end writes the records that were held back of a topic, or forgets the topic if there are none.
func (l *lines) end(t topic) {
	l.order.Lock()
	defer l.order.Unlock()
	l.mu.Lock()
	h := l.topics[t]
	if h == nil || h.events == 0 { // closed meanwhile, or quiet
		delete(l.topics, t)
		l.mu.Unlock()
		return
	}
	was := h.take()
	l.mu.Unlock()
	l.flushBefore(t.kind)
	l.write(was.last, was.events, was.locks)
}

// close writes what is held back.
func (l *lines) close() {
	l.mu.Lock()
	left := l.topics
	l.topics, l.closed = nil, true
	l.mu.Unlock()
	for _, h := range left {
		h.timer.Stop()
		if h.events > 0 {
			l.write(h.last, h.events, h.locks)
		}
	}
}

// budget allows maxDebug lines in each Every. The zero budget is ready.
type budget struct {
	mu             sync.Mutex
	since          time.Time
	lines, skipped int
}

// take reports whether a line may be written. For the first line of a period it also returns how
// many were skipped in the period before.
func (b *budget) take() (skipped int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.since) >= Every {
		skipped = b.skipped
		b.since, b.lines, b.skipped = now, 0, 0
	}
	if b.lines++; b.lines > maxDebug {
		b.skipped++
		return 0, false
	}
	return skipped, true
}
