package eventlog

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Panics guards a client against code of the user's that panics: its observers, and the handler of its
// logger. A panic there would leave a lock that is held for no caller, or a gate that stays shut, and end
// the process where the library has called from a goroutine of its own. The zero Panics writes to
// slog.Default.
type Panics struct {
	log  *slog.Logger
	next atomic.Int64 // no line before this time, in nanoseconds since 1970
}

// Guard calls do, and writes that what it calls panicked, if it does: every 10 seconds at most, at level
// error. runtime.Goexit goes on.
func (p *Panics) Guard(what string, do func()) {
	defer func() {
		if said := recover(); said != nil {
			p.write(what, said, p.log)
		}
	}()
	do()
}

// guardLog is Guard for the logger itself: slog.Default hears of its panics.
func (p *Panics) guardLog(do func()) {
	defer func() {
		if said := recover(); said != nil {
			p.write("a handler of slog", said, nil)
		}
	}()
	do()
}

func (p *Panics) write(what string, said any, log *slog.Logger) {
	now := time.Now()
	if next := p.next.Load(); now.UnixNano() < next || !p.next.CompareAndSwap(next, now.Add(Every).UnixNano()) {
		return
	}
	if log == nil {
		log = slog.Default()
	}
	defer func() { _ = recover() }() // this handler panics too: nothing is left that could be told
	log.Error("relock: "+what+" panicked", "panic", fmt.Sprint(said), "stack", string(debug.Stack()))
}
