package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// The journal makes the expected count exact although a process is killed.
//
// A worker writes a line when it has read the counter, then sends its SET, and writes another when the SET is answered;
// only then does it unlock. Each line is one write(2) to a pipe, so what was written survives the writer. Hence, under
// a lock that excludes, at any instant at most one section in all processes is open, that is begun and not done, and
// every increment outside it is reported. A worker that is killed leaves at most its own section open, and the SET in
// it ran or did not. The next holder's reading tells which: that SET was sent to Redis a lease or so before the next
// grant. So the expected count is known to the unit, and the found one has to be equal to it.

// kind says what an event is.
type kind string

const (
	kindReady kind = "ready" // connected; Client is set
	kindBegin kind = "begin" // the counter was read, the SET comes next; G, Token, Read and Wait are set
	kindHold  kind = "hold"  // likewise, and this section will never be left
	kindDone  kind = "done"  // the SET of goroutine G's section was answered; the lock is still held
	kindFail  kind = "fail"  // the worker gives up; Text is set
	kindCount kind = "count" // a part of what it has counted; Data and Last are set
)

// event is one line of a worker's journal.
type event struct {
	Kind   kind          `json:"kind"`
	G      int           `json:"g,omitempty"`
	Token  int64         `json:"token,omitempty"`
	Read   int64         `json:"read,omitempty"`
	Wait   time.Duration `json:"wait,omitempty"`
	Client string        `json:"client,omitempty"`
	Text   string        `json:"text,omitempty"`
	Data   []byte        `json:"data,omitempty"`
	Last   bool          `json:"last,omitempty"`
}

// scribe writes a worker's journal.
type scribe struct {
	mu  sync.Mutex // guards enc
	enc *json.Encoder
}

func newScribe(w io.Writer) *scribe { return &scribe{enc: json.NewEncoder(w)} }

// write returns when the line is in the pipe.
func (s *scribe) write(e event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enc.Encode(e)
}

// section is one passage of a goroutine through the critical section, as its journal tells it.
type section struct {
	worker int
	token  int64
	read   int64 // the counter's value; read+1 was written
	wait   time.Duration
	begun  time.Time // when its first line arrived here
	done   bool
}

// journal is what all workers have written.
type journal struct {
	sections []section
	open     map[place]int // index of the section that a goroutine is in
}

// place is a goroutine of a worker. It is in one section at a time.
type place struct{ worker, g int }

func newJournal() *journal { return &journal{open: make(map[place]int)} }

// note enters an event that arrived at now.
func (j *journal) note(worker int, e event, now time.Time) {
	at := place{worker, e.G}
	switch e.Kind {
	case kindBegin, kindHold:
		j.open[at] = len(j.sections)
		j.sections = append(j.sections, section{
			worker: worker, token: e.Token, read: e.Read, wait: e.Wait, begun: now,
		})
	case kindDone:
		if i, ok := j.open[at]; ok {
			j.sections[i].done = true
			delete(j.open, at)
		}
	}
}
