// Package eventlog writes a client's events to a logger, and bounds how many lines that takes. It
// knows events by numbers and texts. The caller says what they mean, and which of them are alarms.
package eventlog

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Record is one event. A field that is zero is not written.
type Record struct {
	Rank  Rank
	Kind  int    // the kind's number
	Name  string // of the kind: what a line at debug begins with
	Alarm string // what a line at warn begins with
	// Topic is why there is a line at warn. Alarms of one kind and node whose innermost errors have
	// the same text are one topic.
	Topic error

	Node           int
	Lock, LockKind string
	How            string // how the lease was got
	Token          int64  // the lease's, written beside How
	Wait, Hold     time.Duration
	Cause          error
}

// Rank says what becomes of an event.
type Rank uint8

const (
	// Quiet is written at debug.
	Quiet Rank = iota
	// Alarm is written at warn. An Alarm that is held back there is written at debug.
	Alarm
	// Down is an Alarm: from now on the node does not answer.
	Down
	// Up is an Alarm if a Down was told before, and is not written otherwise. Its line says how long
	// the node was down.
	Up
)

// Log writes to a logger. Its methods may be called from any goroutine.
type Log struct {
	*Panics
	log   *slog.Logger
	warns *lines
	debug []budget // by kind

	mu   sync.Mutex
	down map[int]time.Time // by node, since when it does not answer; guarded by mu
}

// New returns a Log of so many kinds of events, numbered from 0. before maps a kind to another one:
// events of the other kind that are held back are written before a line of the kind.
func New(log *slog.Logger, kinds int, before map[int]int) *Log {
	l := &Log{Panics: &Panics{log: log}, log: log, debug: make([]budget, kinds), down: make(map[int]time.Time)}
	l.warns = newLines(l.warn, before)
	return l
}

// Debugs reports whether lines at debug are wanted. If not, a Quiet event need not be told.
func (l *Log) Debugs() (wanted bool) {
	l.guardLog(func() { wanted = l.log.Enabled(context.Background(), slog.LevelDebug) })
	return wanted
}

// Tell writes a line, or keeps the event for a later one.
func (l *Log) Tell(r Record) {
	switch r.Rank {
	case Up:
		l.up(r)
		return
	case Down:
		l.wentDown(r.Node)
	}
	written := r.Rank != Quiet && l.warns.add(r)
	if !written && l.Debugs() {
		l.tell(&r)
	}
}

// tell writes a line at debug, if there were not too many of the kind lately.
func (l *Log) tell(r *Record) {
	skipped, ok := l.debug[r.Kind].take()
	if !ok {
		return
	}
	attrs := r.attrs()
	if skipped > 0 {
		attrs = append(attrs, slog.Int("skipped", skipped))
	}
	l.write(slog.LevelDebug, r.Name, attrs)
}

// wentDown notes that from now on a node does not answer.
func (l *Log) wentDown(node int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down[node].IsZero() {
		l.down[node] = time.Now()
	}
}

// up writes that a node answers again, if a Down was told before.
func (l *Log) up(r Record) {
	l.mu.Lock()
	since, told := l.down[r.Node]
	delete(l.down, r.Node)
	l.mu.Unlock()
	if told {
		r.Wait = time.Since(since)
		l.warns.add(r)
	}
}

// warn writes one line about some events of the same topic. r is the last of them, and locks has
// the names of some of their locks.
func (l *Log) warn(r Record, events int, locks []string) {
	attrs := r.attrs()
	if events > 1 || locks != nil {
		attrs = append(attrs, slog.Int("since the line before", events))
	}
	if len(locks) > 0 {
		attrs = append(attrs, slog.String("locks", strings.Join(locks, " ")))
	}
	l.write(slog.LevelWarn, r.Alarm, attrs)
}

// write writes a line. A handler that panics loses it.
func (l *Log) write(level slog.Level, what string, attrs []slog.Attr) {
	l.guardLog(func() { l.log.LogAttrs(context.Background(), level, "relock: "+what, attrs...) })
}

// Close writes what is held back.
func (l *Log) Close() { l.warns.close() }

// attrs are what a line says of an event, beside its first words.
func (r *Record) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 8)
	if r.Lock != "" {
		attrs = append(attrs, slog.String("lock", r.Lock), slog.String("kind", r.LockKind))
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
