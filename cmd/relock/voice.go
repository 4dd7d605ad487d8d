package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// voice writes for a subcommand that must not wait: a pipe that nobody empties and a terminal that is held by
// Ctrl-S block whoever writes to them, and a lock may be lost meanwhile. One goroutine owns the writer. What it
// cannot take at once is queued, and dropped when the queue is full.
type voice struct {
	to      io.Writer
	name    string // what tells that lines were dropped begins with it
	lines   chan []byte
	dropped atomic.Int64
	over    chan struct{} // closed by end: write what is queued, and end
	ended   chan struct{} // closed once the goroutine has ended
	once    sync.Once
	failed  chan struct{} // closed when a write failed: its reader is gone, or its disk full
	err     error         // why, once failed is closed
}

const (
	// voiceLines bounds the queue.
	voiceLines = 64
	// voiceTime is how long relock stays for what is still queued when it ends.
	voiceTime = 500 * time.Millisecond
)

// newVoice returns a voice, which the caller ends.
func newVoice(to io.Writer, name string) *voice {
	v := &voice{
		to: to, name: name, lines: make(chan []byte, voiceLines),
		over: make(chan struct{}), ended: make(chan struct{}), failed: make(chan struct{}),
	}
	go v.speak()
	return v
}

// Write queues a line. It neither waits nor fails.
func (v *voice) Write(line []byte) (int, error) {
	select {
	case v.lines <- append([]byte(nil), line...):
	default:
		v.dropped.Add(1)
	}
	return len(line), nil
}

// speak writes what is queued, until end. After a failure it writes nothing any more.
func (v *voice) speak() {
	defer close(v.ended)
	for {
		select {
		case line := <-v.lines:
			v.write(line)
			continue
		default:
		}
		if n := v.dropped.Swap(0); n > 0 {
			v.write(fmt.Appendf(nil, "%s: %d lines were dropped, since nothing took them\n", v.name, n))
		}
		select {
		case line := <-v.lines:
			v.write(line)
		case <-v.over:
			if len(v.lines) == 0 {
				return
			}
		}
	}
}

func (v *voice) write(line []byte) {
	if v.err != nil {
		return
	}
	if _, err := v.to.Write(line); err != nil {
		v.err = err
		close(v.failed)
	}
}

// end waits until all is written, voiceTime at most. What is written to the voice afterwards is dropped.
func (v *voice) end() {
	v.once.Do(func() { close(v.over) })
	late := time.NewTimer(voiceTime)
	defer late.Stop()
	select {
	case <-v.ended:
	case <-late.C:
	}
}
