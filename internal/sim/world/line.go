package world

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/sim"
)

var (
	errBroken  = errors.New("sim: the connection broke")
	errRefused = driver.Unsent(errors.New("dial sim: connection refused"))
)

// answer is a server's, with shorthands.
type answer struct{ driver.Value }

func (a answer) number() int64 {
	n, _ := a.Int64()
	return n
}

func (a answer) texts() []string {
	list, _ := a.Texts()
	return list
}

// line is the driver of one client for one node. What no fault delays keeps its order, as on one
// connection. The world's mutex guards it.
type line struct {
	w      *World
	proc   *process
	node   *node
	conn   *sim.Conn
	epoch  int       // counts broken connections
	spoilt spans     // when faults touched what is sent over it
	silent time.Time // when an answer last did not come in the time that it had
	out    map[*command]struct{}
	there  time.Time // when the last command that nothing delays arrives
	here   time.Time // when the last answer to one does
}

var _ driver.Redis = (*line)(nil)

func newLine(p *process, n *node) *line {
	l := &line{w: p.w, proc: p, node: n, out: map[*command]struct{}{}}
	n.lines = append(n.lines, l)
	return l
}

// command is one on its way.
type command struct {
	op, lock string
	args     []string
	conn     func() *sim.Conn     // that it is sent over
	ordered  bool                 // nothing that is sent over it later overtakes a copy
	then     func(driver.Value)   // told under the world's mutex that it ran, nil for nobody
	heard    []func(driver.Value) // called under the world's mutex when its answer comes
	fate     fate
	question *question // about a lock
	asks     []*stay   // that it asks for
	gathered []string  // the locks of a gather, in the order of its entries
	epoch    int
	sent     time.Time
	trip     int          // in the trace
	names    parameters   // of a script
	done     chan outcome // one slot
}

// verb is what a trace calls a command.
func (c *command) verb() string {
	if c.op == subscribes {
		return c.args[0]
	}
	return c.op
}

type outcome struct {
	value driver.Value
	err   error
}

// Cluster is false.
func (l *line) Cluster() bool { return false }

// Client is the line itself.
func (l *line) Client() any { return l }

// Close leaves nothing behind: what is out ends by itself.
func (l *line) Close(context.Context) {}

var scriptNames sync.Map // of *driver.Script

// nameOf is the file that a script's text ends with.
func nameOf(s *driver.Script) string {
	if name, known := scriptNames.Load(s.SHA); known {
		return name.(string)
	}
	name := "script"
	for _, file := range [...]string{"acquire", "release", "recount", "renew", "force", "refill", "move", "resize", "inspect", "vote", "unvote", "fence", "result", "keep", "forget"} {
		if strings.Contains(s.Text, "-- "+file+": ") {
			name = file
		}
	}
	if strings.Contains(s.Text, "local function one()") {
		name = "sweep"
	}
	if strings.Contains(s.Text, "-- many: ") {
		name = "many"
		manyAsks.Store(s.SHA, strings.Contains(s.Text, "-- acquire: "))
	}
	if strings.Contains(s.Text, "-- gather: ") {
		name = "gather"
	}
	scriptNames.Store(s.SHA, name)
	return name
}

// Run sends a script by its hash, and by its text where the server asks for that.
func (l *line) Run(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	op := nameOf(s)
	lock := "" // of the script that declares a node new
	if len(keys) > 0 {
		lock = keys[0]
	}
	v, err := l.send(ctx, &command{op: op, lock: lock, args: scriptCall("EVALSHA", s.SHA, keys, args), names: parametersIn(s)})
	if err == nil && v.Err() != nil && strings.HasPrefix(v.Err().Error(), "NOSCRIPT") {
		v, err = l.send(ctx, &command{op: op, lock: lock, args: scriptCall("EVAL", s.Text, keys, args), names: parametersIn(s)})
	}
	if err == nil && v.Err() != nil {
		return driver.Value{}, v.Err()
	}
	return v, err
}

func scriptCall(how, what string, keys, args []string) []string {
	out := make([]string, 0, 3+len(keys)+len(args))
	out = append(out, how, what, small(len(keys)))
	return append(append(out, keys...), args...)
}

// Do sends commands in one round trip.
func (l *line) Do(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	answers := make([]driver.Value, len(commands))
	for i, args := range commands {
		v, err := l.send(ctx, &command{op: strings.ToLower(args[0]), args: args})
		if err != nil {
			return nil, err
		}
		answers[i] = v
	}
	return answers, nil
}

// send is one round trip.
func (l *line) send(ctx context.Context, c *command) (driver.Value, error) {
	if c.conn == nil {
		c.conn = l.connect
	}
	v, err := l.sends(ctx, c)
	l.proc.hearsOf(c, v, err)
	return v, err
}

func (l *line) sends(ctx context.Context, c *command) (driver.Value, error) {
	c.done = make(chan outcome, 1)
	if refused := l.begin(c); refused != nil {
		return driver.Value{}, refused
	}
	defer l.end(c)
	select {
	case o := <-c.done:
		return o.value, o.err
	case <-ctx.Done():
	}
	l.gaveUp()
	if c.fate.kind == hang {
		select { // the library returns when it likes
		case o := <-c.done:
			return o.value, o.err
		case <-time.After(c.fate.again):
		}
	}
	return driver.Value{}, ctx.Err()
}

// gaveUp notes that an answer was not waited for any longer.
func (l *line) gaveUp() {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.silent = time.Now()
}

// begin puts a command on its way, unless no connection is to be had.
func (l *line) begin(c *command) error {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent(l, c.op)
	w.follows(l.proc, c)
	w.firstAsks(l, c)
	l.proc.puts(l, c)
	w.setsUnasked(l.proc, c)
	if l.proc.dead {
		return errRefused
	}
	c.fate = w.fates.command(meeting{proc: l.proc.index, node: l.node.index, op: c.op, lock: c.lock})
	c.epoch, c.sent, c.trip = l.epoch, time.Now(), w.trace.trip()
	e := entry{proc: l.proc.index, node: l.node.index, what: "sends " + c.verb(), lock: c.lock, fate: c.fate.name, trip: c.trip}
	if e.fate == "" && w.parted(l.proc, l.node) {
		e.fate = "nothing passes"
	}
	w.trace.add(e)
	if c.fate.kind != fine {
		l.disturb(time.Now().Add(2 * w.plan.Timeout()))
	}
	if c.fate.kind == refused {
		return errRefused
	}
	l.out[c] = struct{}{}
	w.after(inOrder(&l.there, c.fate.kind, c.fate.out), func() { l.arrive(c) })
	if c.fate.kind == late {
		if !c.fate.silent {
			w.after(c.fate.out, func() { l.reply(c, outcome{err: errBroken}) })
		}
	}
	return nil
}

// inOrder is the delay of what may not overtake what went before, unless it is slow itself.
func inOrder(last *time.Time, kind doom, delay time.Duration) time.Duration {
	now := time.Now()
	at := now.Add(delay)
	if kind != slow {
		if !at.After(*last) {
			at = last.Add(time.Nanosecond)
		}
		*last = at
	}
	return at.Sub(now)
}

func (l *line) end(c *command) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	delete(l.out, c)
}

// arrive is called, under the world's mutex, when a command reaches its node.
func (l *line) arrive(c *command) {
	switch {
	case l.proc.dead:
		return
	case c.fate.kind == late:
		l.w.after(c.fate.again, func() { l.node.whenAwake(func() { l.execute(c, false) }) })
		return
	case l.w.parted(l.proc, l.node):
		if c.fate.out%2 == 0 { // what TCP repeats comes when the line is well again
			l.w.whenHealed(l.proc, l.node, func() { l.arrive(c) })
		}
		return
	case c.fate.kind == loseCall:
		if !c.fate.silent {
			l.reply(c, outcome{err: errBroken})
		}
		return
	}
	l.node.whenAwake(func() { l.execute(c, true) })
	if c.fate.kind == twice {
		again := c.fate.again
		if c.ordered {
			again = 0
		}
		l.w.after(again, func() { l.node.whenAwake(func() { l.execute(c, false) }) })
	}
}

// execute runs a command at its node.
func (l *line) execute(c *command, answered bool) {
	if answered && c.epoch != l.epoch {
		return // it died with its connection
	}
	conn := c.conn()
	if conn == nil {
		if answered {
			l.reply(c, outcome{err: errRefused})
		}
		return
	}
	n := l.node
	if !answered {
		l.w.copied(c)
	}
	c.ranLate()
	l.w.before(n, c)
	shut, kept := l.w.shuts(n, c), l.w.keepsResult(n, c)
	v := n.server.Exec(conn, c.args)
	kept(v)
	l.w.staysShut(n, c, v, shut)
	if c.then != nil {
		c.then(v)
	}
	l.w.executed(l, c, v, answered)
	if !answered {
		if v.Err() != nil {
			l.w.torn[c.lock] = true
		}
		return
	}
	switch {
	case c.fate.kind == loseReply:
		if !c.fate.silent {
			l.reply(c, outcome{err: errBroken})
		}
	default:
		kind := c.fate.kind
		if c.fate.lags {
			kind = slow
		}
		l.w.after(inOrder(&l.here, kind, c.fate.back), func() { l.comeBack(c, outcome{value: v}) })
	}
}

// comeBack is called when an answer reaches its process.
func (l *line) comeBack(c *command, o outcome) {
	switch {
	case l.proc.dead, c.epoch != l.epoch:
	case l.w.parted(l.proc, l.node):
		if c.fate.back%2 == 0 {
			l.w.whenHealed(l.proc, l.node, func() { l.comeBack(c, o) })
		}
	default:
		l.reply(c, o)
	}
}

func (l *line) reply(c *command, o outcome) {
	select {
	case c.done <- o:
		if o.err != nil {
			l.w.trace.add(entry{proc: l.proc.index, node: l.node.index, what: "fails " + c.verb(), lock: c.lock, err: o.err, trip: c.trip})
		} else {
			l.w.trace.add(entry{proc: l.proc.index, node: l.node.index, what: "hears " + c.verb(), lock: c.lock, trip: c.trip})
			for _, do := range c.heard {
				do(o.value)
			}
		}
	default:
	}
}

// connect returns the connection for commands, a new one where it was lost; nil where the node is
// down.
func (l *line) connect() *sim.Conn {
	if l.conn == nil || l.conn.Closed() {
		l.conn = l.node.server.Open(user, "", nil, func(error) { l.cut(errBroken) })
	}
	return l.conn
}

// cut breaks the connection: all that is out fails.
func (l *line) cut(why error) {
	l.epoch++
	if l.conn != nil {
		l.conn.Close()
	}
	out := make([]*command, 0, len(l.out))
	for c := range l.out {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *command) int { return int(a.fate.out - b.fate.out) })
	for _, c := range out {
		if c.fate.kind != hang {
			l.reply(c, outcome{err: why})
		}
	}
}
