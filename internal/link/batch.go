package link

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// Script is a script that may be sent for several callers in one command. Calls that come while many
// commands are out queue, and go as one command once an answer has come: much of the work of Redis
// and the client library is per command.
type Script struct {
	One   *driver.Script // for one caller
	Many  *driver.Script // for several: takes the number of calls, then the arguments of each, as many for all
	Spare []string       // values of the arguments, for those that a call leaves out at the end
	Most  int            // callers in one command: as many as Redis is busy with for 0.2 ms
}

// BatchFrom is how many callers' commands must be out before further calls queue. Only the simulated
// world, which has few callers, changes it, while no Link is in use.
var BatchFrom = 32

const (
	fewCommands  = 2                      // with fewer out, a batch is sent before it is full
	mostCommands = 64                     // with as many out, even a full batch waits
	maxWait      = 250 * time.Microsecond // when a batch is as old, any answer sends it, however small
)

// batcher is the group commit of one Redis, or of one slot of a Cluster.
//
// It has two states. While few callers have a command out, each call is a command of its own. While
// many have, calls queue, and the ends of earlier commands pace the batches. When a command ends, the
// batch that has waited longest is sent: if it is full, if it has waited for maxWait, or if hardly any
// other command is out. A batch that fills up meanwhile is sent at once, unless too many commands are
// out. While a batch waits, at least one command is out, so that its end may send the batch.
type batcher struct {
	mu       sync.Mutex // guards what follows
	out      int        // callers with a command out
	inFlight int        // commands that are out for them
	batching bool       // calls queue
	queue    []*batch   // the oldest first; none is empty
}

// batch is the calls of one script that go as one command.
type batch struct {
	script *Script
	since  time.Time // when the first of them came
	calls  []*command
}

// joined is the keys and arguments of a batch, in memory that is reused.
type joined struct{ keys, args []string }

// Share is Do for a script that may be batched with other callers' calls. A batch runs without the
// values of its callers' contexts.
func (l *Link) Share(ctx context.Context, timeout time.Duration, s *Script, keys, args []string,
	late Latecomer) (driver.Value, error) {
	if p, is := ctx.(*Part); is && p.comes() {
		return p.share(l, timeout, s, keys, args, late)
	}
	b := l.batcherOf(keys)
	if b.alone() {
		lane := l.lane(keys)
		left, err := enter(ctx, timeout, lane)
		if err != nil {
			l.dispatch(b, b.ended(1))
			return driver.Value{}, err
		}
		return l.send(l.newCommand(ctx, max(timeout, l.Timeout), keys, args, late), left, s.One, lane, b)
	}
	if ctx.Err() != nil {
		return driver.Value{}, unsent(context.Cause(ctx))
	}
	c := l.newCommand(ctx, timeout, keys, args, late)
	l.dispatch(b, b.enqueue(c, s))
	got, answered := c.wait(nil)
	if answered {
		l.recycle(c)
	} else if b.withdraw(c) {
		got.err = unsent(got.err)
	}
	return got.value, got.err
}

// batcherOf returns the batcher of the keys' slot, or the only one.
func (l *Link) batcherOf(keys []string) *batcher {
	if l.batchers == nil {
		return &l.batcher
	}
	slot := &l.batchers[driver.Slot(keys[0])]
	if slot.Load() == nil {
		slot.CompareAndSwap(nil, new(batcher))
	}
	return slot.Load()
}

// alone reports whether a caller's command goes by itself, and counts it then. Batching starts at
// BatchFrom outstanding callers and stops at half of that. Without the gap, callers that return
// from one batch would be sent singly.
func (b *batcher) alone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.batching = b.out >= BatchFrom || len(b.queue) > 0 || b.batching && b.out > BatchFrom/2
	if b.batching {
		return false
	}
	b.out++
	b.inFlight++
	return true
}

// enqueue adds c to a batch of its script. It returns the batch if that is to be sent now.
func (b *batcher) enqueue(c *command, s *Script) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	var own *batch
	for _, other := range b.queue {
		if other.script == s && len(other.calls) < s.Most {
			own = other
		}
	}
	if own == nil {
		own = &batch{script: s, since: time.Now()}
		b.queue = append(b.queue, own)
	}
	own.calls = append(own.calls, c)
	// With no command out, no answer would come that sends the batch.
	if b.inFlight == 0 || len(own.calls) == s.Most && b.inFlight < mostCommands {
		return b.take(own)
	}
	return nil
}

// withdraw removes a call that is still queued. It returns false if the call is not queued any more.
func (b *batcher) withdraw(c *command) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, queued := range b.queue {
		at := slices.Index(queued.calls, c)
		if at < 0 {
			continue
		}
		if queued.calls = slices.Delete(queued.calls, at, at+1); len(queued.calls) == 0 {
			b.queue = slices.Delete(b.queue, i, i+1)
		}
		return true
	}
	return false
}

// ended notes that a command for n callers is no longer out. It returns the batch to send next, nil
// for none.
func (b *batcher) ended(n int) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out -= n
	b.inFlight--
	if len(b.queue) == 0 {
		return nil
	}
	first := b.queue[0]
	full := len(first.calls) == first.script.Most && b.inFlight < mostCommands
	if b.inFlight < min(fewCommands, BatchFrom) || full || time.Since(first.since) > maxWait {
		return b.take(first)
	}
	return nil
}

// take removes a batch from the queue and counts it as sent. The caller holds b.mu.
func (b *batcher) take(ready *batch) *batch {
	at := slices.Index(b.queue, ready)
	b.queue = slices.Delete(b.queue, at, at+1)
	b.out += len(ready.calls)
	b.inFlight++
	return ready
}

// dispatch sends a batch in the background, and then the batches that are due when it has ended. It
// does nothing if ready is nil.
func (l *Link) dispatch(b *batcher, ready *batch) {
	if ready == nil {
		return
	}
	l.out.Join()
	go func() {
		defer l.out.Leave()
		l.sendBatch(ready.script, ready.calls)
		l.sendNext(b, len(ready.calls))
	}()
}

// sendNext is called when a command for n callers has ended. It sends the batch that is due then, and
// the next one when that has ended, until none is due.
func (l *Link) sendNext(b *batcher, n int) {
	for ready := b.ended(n); ready != nil; ready = b.ended(n) {
		n = len(ready.calls)
		l.sendBatch(ready.script, ready.calls)
	}
}

// sendBatch sends the calls as one command, and gives each of them its answer. A batch that Redis
// refuses for one of its calls ran for none of them. It is sent again in halves, so that one lock's
// refusal is not told to the others.
func (l *Link) sendBatch(s *Script, calls []*command) {
	answers, err := l.runBatch(s, calls)
	if len(calls) > 1 && Reply(err) != "" && l.Apart != nil && l.Apart(err) {
		half := len(calls) / 2
		l.sendBatch(s, calls[:half])
		l.sendBatch(s, calls[half:])
		return
	}
	if l.report != nil {
		l.report(Silence(err))
	}
	for i, c := range calls {
		got := answer{err: err}
		if err == nil {
			got = answer{value: answers[i], err: answers[i].Err()}
		}
		c.deliver(got, err)
	}
}

// runBatch returns an answer for each call, or one error for all of them.
func (l *Link) runBatch(s *Script, calls []*command) ([]driver.Value, error) {
	timeout := l.Timeout
	for _, c := range calls {
		timeout = max(timeout, c.timeout)
	}
	// The command has a context of its own: no caller that leaves must cut the others' command short.
	f := l.newCommand(context.Background(), timeout, nil, nil, nil)
	defer l.recycle(f)
	if len(calls) == 1 {
		value, err := l.exec(f, s.One, calls[0].keys, calls[0].args)
		return []driver.Value{value}, err
	}
	j, _ := l.joined.Get().(*joined)
	if j == nil {
		j = new(joined)
	}
	j.fill(s, calls)
	value, err := l.exec(f, s.Many, j.keys, j.args)
	j.keys, j.args = emptied(j.keys), emptied(j.args)
	l.joined.Put(j)
	if err != nil {
		return nil, err
	}
	answers, err := value.Values()
	if err == nil && len(answers) != len(calls) {
		err = errors.New("a script for many answered to others")
	}
	return answers, err
}

// fill makes j the keys and arguments of a batch. Each call gets as many arguments as the longest,
// because the script reads them at a fixed distance.
func (j *joined) fill(s *Script, calls []*command) {
	width := 0
	for _, c := range calls {
		width = max(width, len(c.args))
	}
	j.args = append(j.args, strconv.Itoa(len(calls)))
	for _, c := range calls {
		j.keys = append(j.keys, c.keys...)
		j.args = append(append(j.args, c.args...), s.Spare[len(c.args):width]...)
	}
}

// emptied returns an empty slice in the memory of used. It keeps none of the old strings alive.
func emptied(used []string) []string {
	clear(used)
	return used[:0]
}
