// Package throttle bounds how many lines a log gets. It knows neither the log nor what a line says.
package throttle

import (
	"sync"
	"time"
)

const (
	// Every is how far apart the lines of one key are.
	Every = 10 * time.Second
	// MaxNames is how many names one line gives.
	MaxNames = 20
	// MaxLines is how many lines a Budget has for each Every.
	MaxLines = 100
	// MaxCauses bounds how many causes of one kind and node have lines of their own at a time.
	MaxCauses = 8
)

// Key is what one line stands for.
type Key struct {
	Kind  int
	Node  int
	Cause string
}

// Lines holds lines back. The first line of a key is written at once. Those that follow become one
// line every 10 seconds. E is what a line is made from. All methods may be called from any
// goroutine.
type Lines[E any] struct {
	write  func(last E, count int, names []string)
	before map[int]int

	// order is held from when pending lines are taken until they are written: else a line could be
	// overtaken by another that has to come behind it. It is locked before mu.
	order sync.Mutex

	// mu guards what follows. A key stays for as long as its timer runs: until Every has passed in
	// which nothing was added to it.
	mu     sync.Mutex
	keys   map[Key]*pending[E]
	closed bool
}

// pending is what was held back of a key since its last line.
type pending[E any] struct {
	count int
	names []string
	last  E
	timer *time.Timer
}

// New returns Lines that write by write: a line about count things, of which last was the last,
// with some of their names. before maps a kind to the kind that must come first: what is held back
// of that one is written before a line of the kind.
func New[E any](write func(last E, count int, names []string), before map[int]int) *Lines[E] {
	return &Lines[E]{write: write, before: before, keys: make(map[Key]*pending[E])}
}

// Add writes a line, or holds it back. It reports whether the line was written. Once closed, Lines
// hold nothing back.
func (l *Lines[E]) Add(k Key, e E, name string) bool {
	if !l.due(k, e, name) {
		return false
	}
	if _, waits := l.before[k.Kind]; waits {
		l.order.Lock()
		defer l.order.Unlock()
		l.flushBefore(k.Kind)
	}
	l.write(e, 1, nil)
	return true
}

// due reports whether a line is to be written at once, and else holds it back.
func (l *Lines[E]) due(k Key, e E, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true
	}
	k = l.bounded(k)
	p := l.keys[k]
	if p == nil {
		l.keys[k] = &pending[E]{timer: time.AfterFunc(Every, func() { l.end(k) })}
		return true
	}
	p.count, p.last = p.count+1, e
	if name != "" && len(p.names) < MaxNames {
		p.names = append(p.names, name)
	}
	return false
}

// bounded is k, or the key for all further causes once there are too many. Causes hold text that
// comes from outside, and may all differ. The caller holds l.mu.
func (l *Lines[E]) bounded(k Key) Key {
	if l.keys[k] != nil {
		return k
	}
	causes := 0
	for other := range l.keys {
		if other.Kind == k.Kind && other.Node == k.Node {
			causes++
		}
	}
	if causes >= MaxCauses {
		k.Cause = ""
	}
	return k
}

// flushBefore writes what is held back of the kind that comes before kind. The caller holds
// l.order.
func (l *Lines[E]) flushBefore(kind int) {
	first, is := l.before[kind]
	if !is {
		return
	}
	var held []pending[E]
	l.mu.Lock()
	for k, p := range l.keys {
		if k.Kind == first && p.count > 0 {
			held = append(held, p.take())
		}
	}
	l.mu.Unlock() // before writing: a handler may take its time, and Add must not wait for it
	for _, p := range held {
		l.write(p.last, p.count, p.names)
	}
}

// take empties p. Its key stays for another Every.
func (p *pending[E]) take() pending[E] {
	was := *p
	p.count, p.names = 0, nil
	p.timer.Reset(Every)
	return was
}

// end writes what was held back of a key, or forgets the key if that is nothing.
func (l *Lines[E]) end(k Key) {
	l.order.Lock()
	defer l.order.Unlock()
	l.mu.Lock()
	p := l.keys[k]
	if p == nil { // closed meanwhile
		l.mu.Unlock()
		return
	}
	if p.count == 0 {
		delete(l.keys, k)
		l.mu.Unlock()
		return
	}
	was := p.take()
	l.mu.Unlock()
	l.flushBefore(k.Kind)
	l.write(was.last, was.count, was.names)
}

// Close writes what is held back.
func (l *Lines[E]) Close() {
	l.mu.Lock()
	left := l.keys
	l.keys, l.closed = nil, true
	l.mu.Unlock()
	for _, p := range left {
		p.timer.Stop()
		if p.count > 0 {
			l.write(p.last, p.count, p.names)
		}
	}
}

// Budget allows MaxLines lines in each Every. The zero Budget is ready.
type Budget struct {
	mu             sync.Mutex
	since          time.Time
	lines, skipped int
}

// Take reports whether a line may be written. The first line of a period also learns how
// many lines were refused in the period before.
func (b *Budget) Take() (skipped int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.since) >= Every {
		skipped = b.skipped
		b.since, b.lines, b.skipped = now, 0, 0
	}
	if b.lines++; b.lines > MaxLines {
		b.skipped++
		return 0, false
	}
	return skipped, true
}
