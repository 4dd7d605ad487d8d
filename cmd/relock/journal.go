package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// The journal makes the expected count exact although a process is killed.
//
// A worker reads the counter, writes a line (the section is open), sends its SET, and writes another line once the SET
// is answered (the section is done). Only then it unlocks. Each line is one write(2) to a pipe, so it survives its
// writer. If the lock excludes, at most one section of all processes is open at any time, and all increments outside of
// it are reported. A killed worker leaves at most its own section open, and its SET ran or did not. The next holder's
// reading of the counter tells: the SET was sent about a lease before the next grant. So the expected count is known
// exactly, and the count found must be equal.

// kind says what an event is.
type kind string

const (
	kindReady kind = "ready" // connected; Client is set
	kindBegin kind = "begin" // the counter was read, the SET comes next; G, Token, Read and Wait are set
	kindHold  kind = "hold"  // as kindBegin, and the worker stays in the section until killed
	kindDone  kind = "done"  // the SET of goroutine G's section was answered; the lock is still held
	kindFail  kind = "fail"  // the worker gives up; Text is set
	kindCount kind = "count" // a part of the worker's metrics; Data and Last are set
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
	begun  time.Time // when its first line reached the parent
	done   bool
}

// journal is what all workers have written.
type journal struct {
	sections []section
	open     map[place]int // index in sections of the one that the goroutine is in
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
