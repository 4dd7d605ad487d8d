// Package eventlog writes what a client's observer is told to a logger, and bounds how much that is. It
// knows events by numbers and texts: what they mean, and which of them alarm, is said above.
package eventlog

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/throttle"
	"github.com/relock-go/relock/internal/wire"
)

// Record is one event. What is zero is not written.
type Record struct {
	Rank  Rank
	Kind  int    // its number
	Name  string // of the kind, for a line at debug
	Alarm string // what a line at warn begins with
	Topic error  // why there is one: lines at warn are counted by what is at the bottom of it

	Node       int
	Lock, Sort string
	How        string // the lease was got, with its
	Token      int64
	Wait, Hold time.Duration
	Cause      error
}

// Rank says what becomes of an event.
type Rank uint8

const (
	// Quiet is written at debug.
	Quiet Rank = iota
	// Alarm is written at warn, and what is held back of it at debug too.
	Alarm
	// Down is an Alarm: from now on the node does not answer.
	Down
	// Up is written at warn, if a Down was told before. It says how long that was.
	Up
)

// Log writes to a logger. Its methods may be called from any goroutine.
type Log struct {
	log   *slog.Logger
	warns *throttle.Lines[Record]
	debug []throttle.Budget // by kind

	mu   sync.Mutex
	down map[int]time.Time // since when a node does not answer; guarded by mu
}

// New returns a Log of so many kinds of events. before maps a kind to the kind that must come first:
// what is held back of that one is written before a line of the kind.
func New(log *slog.Logger, kinds int, before map[int]int) *Log {
	l := &Log{log: log, debug: make([]throttle.Budget, kinds), down: make(map[int]time.Time)}
	l.warns = throttle.New(l.warn, before)
	return l
}

// Debugs reports whether lines at debug are wanted: else what is Quiet need not be told.
func (l *Log) Debugs() bool { return l.log.Enabled(context.Background(), slog.LevelDebug) }

// Tell writes a line, or keeps the event for a later one.
func (l *Log) Tell(r Record) {
	switch r.Rank {
	case Up:
		l.up(r)
		return
	case Down:
		l.wentDown(r.Node)
	}
	if r.Rank != Quiet && l.warns.Add(r.topic(), r, r.Lock) {
		return
	}
	if l.Debugs() {
		l.tell(&r)
	}
}

// tell writes a line at debug, if there were not too many of the kind lately.
func (l *Log) tell(r *Record) {
	skipped, ok := l.debug[r.Kind].Take()
	if !ok {
		return
	}
	attrs := r.attrs()
	if skipped > 0 {
		attrs = append(attrs, slog.Int("skipped", skipped))
	}
	l.log.LogAttrs(context.Background(), slog.LevelDebug, "relock: "+r.Name, attrs...)
}

// wentDown notes since when a node does not answer.
func (l *Log) wentDown(node int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down[node].IsZero() {
		l.down[node] = time.Now()
	}
}

// up writes that a node answers again, if a line said that it does not.
func (l *Log) up(r Record) {
	l.mu.Lock()
	since, told := l.down[r.Node]
	delete(l.down, r.Node)
	l.mu.Unlock()
	if told {
		r.Wait = time.Since(since)
		l.warns.Add(r.topic(), r, "")
	}
}

// topic is what lines at warn are counted by.
func (r *Record) topic() throttle.Key {
	return throttle.Key{Kind: r.Kind, Node: r.Node, Cause: root(r.Topic)}
}

// root is the text of what is at the bottom of an error: that does not name the lock. Of an answer of
// Redis's it is the code: what follows may tell how much time is left.
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

// warn writes one line for some events of the same topic: r is the last of them, events is how many
// there were, and locks are the names of their locks.
func (l *Log) warn(r Record, events int, locks []string) {
	attrs := r.attrs()
	if events > 1 || locks != nil {
		attrs = append(attrs, slog.Int("since the line before", events))
	}
	if len(locks) > 0 {
		attrs = append(attrs, slog.String("locks", strings.Join(locks, " ")))
	}
	l.log.LogAttrs(context.Background(), slog.LevelWarn, "relock: "+r.Alarm, attrs...)
}

// Close writes what has not been written.
func (l *Log) Close() { l.warns.Close() }

// attrs are what a line says of an event.
func (r *Record) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 8)
	if r.Lock != "" {
		attrs = append(attrs, slog.String("lock", r.Lock), slog.String("sort", r.Sort))
	}
	if r.Node > 0 {
		attrs = append(attrs, slog.Int("node", r.Node))
	}
	if r.How != "" {
		attrs = append(attrs, slog.String("how", r.How), slog.Int64("token", r.Token))
	}
	if d := cmp.Or(r.Wait, r.Hold); d > 0 {
		name := "held"
		switch {
		case r.Rank == Up:
			name = "after"
		case r.Wait > 0:
			name = "waited"
		}
		attrs = append(attrs, slog.Duration(name, d.Round(time.Microsecond)))
	}
	if r.Cause != nil {
		attrs = append(attrs, slog.Any("cause", r.Cause))
	}
	return attrs
}
