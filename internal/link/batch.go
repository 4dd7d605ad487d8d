package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// Script is one that may be sent for several callers in one command. Calls that come while many
// commands are out queue, and go as one command once an answer has come: Redis and the client
// library have a good part of their work per command.
type Script struct {
	One   *driver.Script // for one caller
	Many  *driver.Script // for several: how many, and behind it the arguments of each, as many for all
	Spare []string       // arguments as they are taken to be where the last ones are left out
	Most  int            // callers in one command: as many as Redis is busy with for 0.2 ms
}

// BatchFrom is how many callers' commands must be out before further calls queue. It is a constant
// but for the simulated world, where a few callers do what takes many. That world sets it while no
// Link is in use.
var BatchFrom = 32

const (
	fewCommands  = 2                      // with fewer out, a batch is sent before it is full
	mostCommands = 64                     // with as many out, even a full batch waits
	maxWait      = 250 * time.Microsecond // after it, any answer sends the first batch, however small
)

// batcher is the group commit of one Redis, or of one slot of a Cluster.
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

// call is what one caller asks for in a batch.
type call struct {
	keys, args []string
	timeout    time.Duration
	late       Latecomer
}

// Share is Do for a script that may be batched with other callers' calls. A batch runs without the
// values of its callers' contexts. Share keeps a copy of args.
func (l *Link) Share(ctx context.Context, timeout time.Duration, s *Script, keys, args []string,
	late Latecomer) (driver.Value, error) {
	b := l.batcherOf(keys)
	if b.alone() {
		lane := l.lane(keys)
		if err := enter(ctx, timeout, lane); err != nil {
			l.dispatch(b, b.ended(1))
			return driver.Value{}, err
		}
		return l.send(ctx, timeout, lane, b, s.One, keys, slices.Clone(args), late)
	}
	if ctx.Err() != nil {
		return driver.Value{}, unsent(ctx)
	}
	c := l.newCommand(ctx, timeout)
	c.call = call{keys: keys, args: append(c.call.args, args...), timeout: timeout, late: late}
	// The timer may have fired before batched was set. Then it has sent no errOverdue, and await
	// would wait for it in vain.
	if c.batched.Store(true); c.expired.Load() {
		return driver.Value{}, fmt.Errorf("%w: %w", driver.ErrUnsent, &Left{Cause: context.DeadlineExceeded})
	}
	l.dispatch(b, b.enqueue(c, s))
	return l.await(ctx, b, c)
}

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

// dispatch sends a batch, and those that are due when it has ended. It does nothing for nil.
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

// await waits for the answer to a batched call. A caller that leaves while its call is queued takes
// the call out of the queue.
func (l *Link) await(ctx context.Context, b *batcher, c *command) (driver.Value, error) {
	got, err := c.receive(ctx)
	switch {
	case err == nil && got.err != errOverdue:
		if c.timer.Stop() { // the batch is done with c, and the timer will not touch it
			c.call = call{args: emptied(c.call.args)}
			c.batched.Store(false)
			c.claimed.Store(false)
			l.commands.Put(c)
		}
		return got.value, got.err
	case err == nil:
		err = context.DeadlineExceeded
	}
	if b.withdraw(c) {
		return driver.Value{}, fmt.Errorf("%w: %w", driver.ErrUnsent, &Left{Cause: err})
	}
	// The call is out, or has been answered in this moment. An overdue call was claimed by the
	// timer.
	if got.err != errOverdue && !c.claimed.CompareAndSwap(false, true) {
		if got = <-c.answer; got.err != errOverdue {
			return got.value, got.err
		}
	}
	return driver.Value{}, err
}

// receive returns what came by c.answer, which is errOverdue once the time is over. It returns an
// error if the caller leaves before.
func (c *command) receive(ctx context.Context) (answer, error) {
	done := ctx.Done()
	if done == nil { // a select takes as long as a wake-up
		return <-c.answer, nil
	}
	select {
	case got := <-c.answer:
		return got, nil
	case <-done:
		return answer{}, &Left{Cause: context.Cause(ctx)}
	}
}

// errOverdue is what the timer of a batched call sends to its caller.
var errOverdue = errors.New("no answer in time")

// overdue tells the caller of a batched call that its time is over. The caller waits for c.answer
// alone.
func (c *command) overdue() {
	if c.batched.Load() && c.claimed.CompareAndSwap(false, true) {
		c.answer <- answer{err: errOverdue}
	}
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

// take removes a batch from the queue and counts it as sent. The caller holds b.mu.
func (b *batcher) take(ready *batch) *batch {
	at := slices.Index(b.queue, ready)
	b.queue = slices.Delete(b.queue, at, at+1)
	b.out += len(ready.calls)
	b.inFlight++
	return ready
}

// withdraw removes a call that is still queued. It reports whether it did.
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

// ended notes that a command for n callers is no longer out. It returns the batch to send next.
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

// sendNext sends the batch that is due when a command for n callers has ended, and the batch that
// is due after that one, until none is.
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
	if len(calls) > 1 && err != nil && Reply(err) != "" && l.Apart != nil && l.Apart(err) {
		half := len(calls) / 2
		l.sendBatch(s, calls[:half])
		l.sendBatch(s, calls[half:])
		return
	}
	silent := err
	if !Unanswered(err) {
		silent = nil
	}
	if l.ended != nil {
		l.ended(silent)
	}
	for i, c := range calls {
		got := answer{err: err}
		if err == nil {
			got = answer{value: answers[i], err: answers[i].Err()}
		}
		late := c.call.late // read before: a caller that has its answer gives c away
		if c.claimed.CompareAndSwap(false, true) {
			c.answer <- got
		} else if late != nil {
			late.Late(silent)
		}
	}
}

// runBatch returns an answer for each call, or one error for all of them.
func (l *Link) runBatch(s *Script, calls []*command) ([]driver.Value, error) {
	timeout := l.Timeout
	for _, c := range calls {
		timeout = max(timeout, c.call.timeout)
	}
	// A command of its own is the context: no caller's end must cut the others' command short.
	f := l.newCommand(context.Background(), timeout)
	defer func() {
		if f.timer.Stop() {
			l.commands.Put(f)
		}
	}()
	if len(calls) == 1 {
		one := &calls[0].call
		value, err := l.rdb.Run(f, s.One, one.keys, one.args)
		return []driver.Value{value}, err
	}
	j, _ := l.joined.Get().(*joined)
	if j == nil {
		j = new(joined)
	}
	j.fill(s, calls)
	value, err := l.rdb.Run(f, s.Many, j.keys, j.args)
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
		width = max(width, len(c.call.args))
	}
	j.args = append(j.args, strconv.Itoa(len(calls)))
	for _, c := range calls {
		j.keys = append(j.keys, c.call.keys...)
		j.args = append(append(j.args, c.call.args...), s.Spare[len(c.call.args):width]...)
	}
}

// emptied is the memory of a slice for other strings. It keeps none of the old strings alive.
func emptied(used []string) []string {
	clear(used)
	return used[:0]
}
