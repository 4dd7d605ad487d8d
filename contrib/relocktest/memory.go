package relocktest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/sim"
)

// memory is a Redis in this process, without sockets: the simulated server of the library's own
// tests, which runs the scripts as a real server does. Goroutines wait only on channels, so it can be
// used in synctest's bubbles.
type memory struct {
	mu     sync.Mutex // guards the server and its connections
	server *sim.Server
}

func newMemory() *memory { return &memory{server: sim.NewServer(sim.Options{Name: "relocktest"})} }

// open returns the driver of one more process.
func (m *memory) open() driver.Redis {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &inMemory{m: m, conn: m.server.Open("", "", nil, nil)}
}

// exec runs a command over a connection.
func (m *memory) exec(c *sim.Conn, args ...string) driver.Value {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.server.Exec(c, args)
}

// inMemory is the driver of one process.
type inMemory struct {
	m    *memory
	conn *sim.Conn
	crew crew.Crew
}

var _ driver.Redis = (*inMemory)(nil)

// Cluster returns false.
func (d *inMemory) Cluster() bool { return false }

// Client returns the driver itself.
func (d *inMemory) Client() any { return d }

// Run runs a script by its hash, or by its text if the server does not know the hash.
func (d *inMemory) Run(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	if err := ctx.Err(); err != nil {
		return driver.Value{}, err
	}
	v := d.m.exec(d.conn, scriptCall("EVALSHA", s.SHA, keys, args)...)
	if err := v.Err(); err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		v = d.m.exec(d.conn, scriptCall("EVAL", s.Text, keys, args)...)
	}
	if err := v.Err(); err != nil {
		return driver.Value{}, err
	}
	return v, nil
}

func scriptCall(how, what string, keys, args []string) []string {
	words := append([]string{how, what, strconv.Itoa(len(keys))}, keys...)
	return append(words, args...)
}

// Do runs commands one after the other.
func (d *inMemory) Do(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	values := make([]driver.Value, len(commands))
	for i, words := range commands {
		values[i] = d.m.exec(d.conn, words...)
	}
	return values, nil
}

// Listen opens a connection for subscriptions.
func (d *inMemory) Listen(_ context.Context, h driver.Handler) (driver.Listener, error) {
	l := &listener{d: d, h: h, more: make(chan struct{}, 1), closed: make(chan struct{})}
	if !d.crew.Start(l.deliver) {
		return nil, driver.ErrClosed
	}
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	l.conn = d.m.server.Open("", "", func(channel, message string) {
		l.push(news{channel: channel, message: message})
	}, nil)
	return l, nil
}

var errNoCluster = errors.New("relocktest: no Cluster, so no sharded channels")

// Follow fails: only a Cluster has sharded channels.
func (d *inMemory) Follow(context.Context, driver.Handler, ...string) error { return errNoCluster }

// Close waits for the goroutines of the listeners, which the caller has closed.
func (d *inMemory) Close(ctx context.Context) { d.crew.End(ctx) }

// listener is a connection with subscriptions. A goroutine of its own passes messages to the handler, in
// order: the server writes them while it runs another process's command under memory.mu.
type listener struct {
	d    *inMemory
	h    driver.Handler
	conn *sim.Conn

	more   chan struct{} // one slot, full if the queue may have news
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex // guards the fields below
	queue  []news
}

// news is a message, or the confirmation of a subscription.
type news struct {
	channel, message string
	subscribed       bool
}

func (l *listener) push(n news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, n)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *listener) all() []news {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.queue
	l.queue = nil
	return queue
}

func (l *listener) deliver() {
	for {
		select {
		case <-l.closed:
			return
		case <-l.more:
		}
		for _, n := range l.all() {
			if n.subscribed {
				l.h.Subscribed(n.channel)
			} else {
				l.h.Message(n.channel, n.message)
			}
		}
	}
}

// Subscribe subscribes channels with one command.
func (l *listener) Subscribe(_ context.Context, channels ...string) error {
	return l.exec("SUBSCRIBE", channels)
}

// SubscribeApart subscribes each channel with a command of its own.
func (l *listener) SubscribeApart(_ context.Context, channels ...string) []error {
	errs := make([]error, len(channels))
	for i, channel := range channels {
		errs[i] = l.exec("SUBSCRIBE", []string{channel})
	}
	return errs
}

// Unsubscribe ends subscriptions with one command.
func (l *listener) Unsubscribe(_ context.Context, channels ...string) error {
	return l.exec("UNSUBSCRIBE", channels)
}

func (l *listener) exec(command string, channels []string) error {
	m := l.d.m
	m.mu.Lock()
	defer m.mu.Unlock() // at the end, so that confirmations stand in the queue before any message
	if err := m.server.Exec(l.conn, append([]string{command}, channels...)).Err(); err != nil {
		return err
	}
	if command == "SUBSCRIBE" {
		for _, channel := range channels {
			l.push(news{channel: channel, subscribed: true})
		}
	}
	return nil
}

// Dropped returns a channel that never receives: this connection does not break.
func (l *listener) Dropped() <-chan error { return nil }

// Close ends the connection.
func (l *listener) Close() {
	l.once.Do(func() {
		l.d.m.mu.Lock()
		defer l.d.m.mu.Unlock()
		l.conn.Close()
		close(l.closed)
	})
}
