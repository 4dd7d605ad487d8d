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

// Script is one that may go for several callers together. What comes while much is out waits for
// an answer, and then goes in one command: Redis and the client library have a good part of their
// work per command.
type Script struct {
	One   *driver.Script // for one caller
	Many  *driver.Script // for several: how many, and behind it the arguments of each, as many for all
	Spare []string       // arguments as they are taken to be where the last ones are left out
	Most  int            // callers in one command: as many as Redis is busy with for 0.2 ms
}

// Crowded is how many callers' commands are out before others wait for one another. It is a constant
// but for the simulated world, where few do what takes many, and which sets it while no Link is in use.
var Crowded = 32

const (
	few    = 2                      // commands out: with fewer, what waits goes as it is
	most   = 64                     // commands out with which more wait
	linger = 250 * time.Microsecond // after which any answer takes what waits along, however little
)

// crowd is who asks one Redis, or one slot of a Cluster, by scripts that may go together.
type crowd struct {
	mu      sync.Mutex // guards what follows
	out     int        // callers whose commands are out
	flights int        // commands that are out for them
	dense   bool       // who comes waits for others
	waiting []*party   // as they came; none of them empty
}

// party is who goes together: callers of one script.
type party struct {
	script *Script
	since  time.Time // the first of them came
	of     []*command
}

// joined is what one command asks for many, whose room is used again.
type joined struct{ keys, args []string }

// call is what a caller asks for who goes together with others.
type call struct {
	keys, args []string
	timeout    time.Duration
	who        Latecomer
}

// Share is Do for a script that may go together with those of other callers, then without the
// values of their contexts. It keeps a copy of args.
func (l *Link) Share(ctx context.Context, timeout time.Duration, s *Script, keys, args []string,
	who Latecomer) (driver.Value, error) {
	near := l.crowdOf(keys)
	if near.alone() {
		lane := l.lane(keys)
		if err := enter(ctx, timeout, lane); err != nil {
			l.dispatch(near, near.landed(1))
			return driver.Value{}, err
		}
		return l.send(ctx, timeout, lane, near, s.One, keys, slices.Clone(args), who)
	}
	if ctx.Err() != nil {
		return driver.Value{}, unsent(ctx)
	}
	c := l.newCommand(ctx, timeout)
	c.call = call{keys: keys, args: append(c.call.args, args...), timeout: timeout, who: who}
	if c.told.Store(true); c.over.Load() { // the timer may have looked before
		return driver.Value{}, fmt.Errorf("%w: %w", ErrUnsent, &Left{Cause: context.DeadlineExceeded})
	}
	l.dispatch(near, near.join(c, s))
	return l.await(ctx, near, c)
}

func (l *Link) crowdOf(keys []string) *crowd {
	if l.crowds == nil {
		return &l.crowd
	}
	slot := &l.crowds[l.rdb.Slot(keys[0])]
	if slot.Load() == nil {
		slot.CompareAndSwap(nil, new(crowd))
	}
	return slot.Load()
}

// dispatch sends a command for a party, if there is one, and what waits for its end.
func (l *Link) dispatch(near *crowd, p *party) {
	if p == nil {
		return
	}
	l.out.Join()
	go func() {
		defer l.out.Leave()
		l.ask(p.script, p.of)
		l.follow(near, len(p.of))
	}()
}

// await waits for the answer to a command that goes together with others. Who leaves before it went
// takes it out.
func (l *Link) await(ctx context.Context, near *crowd, c *command) (driver.Value, error) {
	got, err := c.hear(ctx)
	switch {
	case err == nil && got.err != errOverdue:
		if c.timer.Stop() { // nobody else holds it
			c.call = call{args: emptied(c.call.args)}
			c.told.Store(false)
			c.claimed.Store(false)
			l.commands.Put(c)
		}
		return got.value, got.err
	case err == nil:
		err = context.DeadlineExceeded
	}
	if near.withdraw(c) {
		return driver.Value{}, fmt.Errorf("%w: %w", ErrUnsent, &Left{Cause: err})
	}
	if got.err != errOverdue && !c.claimed.CompareAndSwap(false, true) {
		if got = <-c.answer; got.err != errOverdue {
			return got.value, got.err
		}
	}
	return driver.Value{}, err
}

// hear returns the answer, which errOverdue stands for once the time is over, or why the caller
// leaves before.
func (c *command) hear(ctx context.Context) (answer, error) {
	done := ctx.Done()
	if done == nil { // to select takes as long as to wake up
		return <-c.answer, nil
	}
	select {
	case got := <-c.answer:
		return got, nil
	case <-done:
		return answer{}, &Left{Cause: context.Cause(ctx)}
	}
}

// errOverdue is what the timer of a command tells its caller.
var errOverdue = errors.New("no answer in time")

// overdue tells a caller that waits for others, or for the answer, that its time is over.
func (c *command) overdue() {
	if c.told.Load() && c.claimed.CompareAndSwap(false, true) {
		c.answer <- answer{err: errOverdue}
	}
}

// alone reports whether a caller's command goes by itself. A crowd is dense until half of it is left:
// else those who come back from one command would go one by one again.
func (near *crowd) alone() bool {
	near.mu.Lock()
	defer near.mu.Unlock()
	near.dense = near.out >= Crowded || len(near.waiting) > 0 || near.dense && near.out > Crowded/2
	if near.dense {
		return false
	}
	near.out++
	near.flights++
	return true
}

// join lets c wait for others. It returns those that are to go now.
func (near *crowd) join(c *command, s *Script) *party {
	near.mu.Lock()
	defer near.mu.Unlock()
	var p *party
	for _, other := range near.waiting {
		if other.script == s && len(other.of) < s.Most {
			p = other
		}
	}
	if p == nil {
		p = &party{script: s, since: time.Now()}
		near.waiting = append(near.waiting, p)
	}
	p.of = append(p.of, c)
	if near.flights == 0 || len(p.of) == p.script.Most && near.flights < most {
		return near.take(p)
	}
	return nil
}

// take makes a party go. The caller holds near.mu.
func (near *crowd) take(p *party) *party {
	at := slices.Index(near.waiting, p)
	near.waiting = slices.Delete(near.waiting, at, at+1)
	near.out += len(p.of)
	near.flights++
	return p
}

// withdraw takes out a command that has not gone.
func (near *crowd) withdraw(c *command) bool {
	near.mu.Lock()
	defer near.mu.Unlock()
	for i, p := range near.waiting {
		at := slices.Index(p.of, c)
		if at < 0 {
			continue
		}
		if p.of = slices.Delete(p.of, at, at+1); len(p.of) == 0 {
			near.waiting = slices.Delete(near.waiting, i, i+1)
		}
		return true
	}
	return false
}

// landed notes that a command for so many is out no more. It returns who goes next.
func (near *crowd) landed(n int) *party {
	near.mu.Lock()
	defer near.mu.Unlock()
	near.out -= n
	near.flights--
	if len(near.waiting) == 0 {
		return nil
	}
	p := near.waiting[0] // they stand as they came
	if near.flights < min(few, Crowded) || len(p.of) == p.script.Most && near.flights < most || time.Since(p.since) > linger {
		return near.take(p)
	}
	return nil
}

// follow sends what waited for the end of a command for n callers, and what waits for that in turn.
func (l *Link) follow(near *crowd, n int) {
	for p := near.landed(n); p != nil; p = near.landed(n) {
		n = len(p.of)
		l.ask(p.script, p.of)
	}
}

// ask sends one command for all of a party, and tells each of what became of its own. What is
// refused for one of them ran for none, and is asked again in halves: one lock's refusal takes no
// other along.
func (l *Link) ask(s *Script, of []*command) {
	answers, err := l.askAll(s, of)
	if len(of) > 1 && err != nil && Reply(err) != "" && l.Apart != nil && l.Apart(err) {
		half := len(of) / 2
		l.ask(s, of[:half])
		l.ask(s, of[half:])
		return
	}
	silent := err
	if !Unanswered(err) {
		silent = nil
	}
	if l.answered != nil {
		l.answered(silent)
	}
	for i, c := range of {
		got := answer{err: err}
		if err == nil {
			got = answer{value: answers[i], err: answers[i].Err()}
		}
		who := c.call.who // read before: a caller that has its answer gives c away
		if c.claimed.CompareAndSwap(false, true) {
			c.answer <- got
		} else if who != nil {
			who.Late(silent)
		}
	}
}

// askAll returns an answer for each command, or why there is none for any.
func (l *Link) askAll(s *Script, of []*command) ([]driver.Value, error) {
	timeout := l.Timeout
	for _, c := range of {
		timeout = max(timeout, c.call.timeout)
	}
	f := l.newCommand(context.Background(), timeout)
	defer func() {
		if f.timer.Stop() {
			l.commands.Put(f)
		}
	}()
	if len(of) == 1 {
		one := &of[0].call
		value, err := l.rdb.Run(f, s.One, one.keys, one.args)
		return []driver.Value{value}, err
	}
	j, _ := l.joined.Get().(*joined)
	if j == nil {
		j = new(joined)
	}
	j.join(s, of)
	value, err := l.rdb.Run(f, s.Many, j.keys, j.args)
	j.keys, j.args = emptied(j.keys), emptied(j.args)
	l.joined.Put(j)
	if err != nil {
		return nil, err
	}
	answers, err := value.Values()
	if err == nil && len(answers) != len(of) {
		err = errors.New("a script for many answered to others")
	}
	return answers, err
}

// join makes j the keys and arguments of many.
func (j *joined) join(s *Script, of []*command) {
	width := 0
	for _, c := range of {
		width = max(width, len(c.call.args))
	}
	j.args = append(j.args, strconv.Itoa(len(of)))
	for _, c := range of {
		j.keys = append(j.keys, c.call.keys...)
		j.args = append(append(j.args, c.call.args...), s.Spare[len(c.call.args):width]...)
	}
}

// emptied is room for other strings, which keeps none of these in memory.
func emptied(room []string) []string {
	clear(room)
	return room[:0]
}
