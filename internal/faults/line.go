package faults

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// maxTold bounds the told calls that were not read yet. Further ones are dropped.
const maxTold = 4096

// Line is the switch for the faults of one client. Its methods may be called by many goroutines.
type Line struct {
	told chan *Call

	mu      sync.Mutex // guards what follows; held while the filter is asked
	filter  Filter
	kept    []func()          // send the late calls
	release chan struct{}     // closed by Release
	texts   map[string]string // of scripts, by their hash
}

func newLine() *Line {
	return &Line{told: make(chan *Call, maxTold), release: make(chan struct{}), texts: make(map[string]string)}
}

// Filter sets the filter for the calls to come; nil lets all pass.
func (l *Line) Filter(f Filter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filter = f
}

// Told returns a channel that receives the calls whose fate is to be told.
func (l *Line) Told() <-chan *Call { return l.told }

// Release lets go of all calls that are held or stalled at present.
func (l *Line) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.release)
	l.release = make(chan struct{})
}

// Kept returns how many late calls there are.
func (l *Line) Kept() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.kept)
}

// Flush sends the late calls, in their order, and returns when they have run.
func (l *Line) Flush() {
	l.mu.Lock()
	kept := l.kept
	l.kept = nil
	l.mu.Unlock()
	for _, send := range kept {
		send()
	}
}

// passes reports whether there is no filter.
func (l *Line) passes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.filter == nil
}

// judge returns a call's fate, and the channel that a held or stalled call waits for.
func (l *Line) judge(c *Call) (Fate, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.filter == nil {
		return Pass, nil
	}
	return l.filter(c), l.release
}

// keep keeps a late call for Flush.
func (l *Line) keep(send func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, send)
}

// tell sends a call to the receiver of Told.
func (l *Line) tell(c *Call) {
	select {
	case l.told <- c:
	default:
	}
}

// text returns the text of the script that a command runs, "" if it runs none. known is false if
// the command has only a hash, and no command with the text came before.
func (l *Line) text(words []string, hash func(string) string) (text string, known bool) {
	if len(words) < 3 {
		return "", true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case strings.EqualFold(words[0], "EVAL"):
		l.texts[hash(words[1])] = words[1]
		return words[1], true
	case strings.EqualFold(words[0], "SCRIPT") && strings.EqualFold(words[1], "LOAD"):
		l.texts[hash(words[2])] = words[2]
	case strings.EqualFold(words[0], "EVALSHA"):
		text, known := l.texts[words[1]]
		return text, known
	}
	return "", true
}

// way fulfils the calls of one kind, whose answers are an R.
type way[R any] struct {
	send   func(context.Context) R
	refuse func(reply string) R
	fail   func(error) R
}

// carry asks for the fate of a call, and fulfils it.
func carry[R any](l *Line, c *Call, w way[R]) R {
	c.Words = slices.Clone(c.Words) // the client library uses its own again
	c.Send = func() { w.send(context.Background()) }
	fate, release := l.judge(c)
	if fate.held {
		l.tell(c)
		select {
		case <-release:
		case <-c.Context.Done():
			return w.fail(c.Context.Err())
		}
	} else if fate.told && !fate.stalled {
		defer l.tell(c)
	}
	switch fate.act {
	case sendTwice:
		w.send(c.Context)
	case loseReply:
		w.send(c.Context)
		return lose(c, fate, w)
	case sendLate:
		l.keep(c.Send)
		return lose(c, fate, w)
	case loseCall:
		return lose(c, fate, w)
	case refuse:
		return w.refuse(fate.reply)
	}
	answer := w.send(c.Context)
	if fate.stalled {
		l.tell(c)
		<-release
	}
	return answer
}

// lose fails a call without an answer, at once or when its context ends.
func lose[R any](c *Call, fate Fate, w way[R]) R {
	if !fate.hangs {
		return w.fail(ErrNoAnswer)
	}
	<-c.Context.Done()
	return w.fail(c.Context.Err())
}

// deliver passes a Pub/Sub message on by calling pass, unless the filter drops, holds or delays it.
func (l *Line) deliver(channel, message string, pass func()) {
	l.signal([]string{"MESSAGE", channel, message}, pass)
}

// signal carries a call without an answer, which pass fulfils.
func (l *Line) signal(words []string, pass func()) {
	carry(l, &Call{Context: context.Background(), Words: words}, way[struct{}]{
		send:   func(context.Context) struct{} { pass(); return struct{}{} },
		refuse: func(string) struct{} { return struct{}{} },
		fail:   func(error) struct{} { return struct{}{} },
	})
}
