// Package faultproxy puts a proxy with switchable faults between a client and a
// server: the network's part in the tests.
package faultproxy

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/rs/zerolog"
)

// Proxy passes TCP connections on to one upstream address until told otherwise.
//
// Faults add up, each until Heal. They affect the connections open when they
// begin as well as those opened later. A connection that lost bytes is never
// used again: what came after the gap would be taken for the answer to another
// question, so Heal closes it. All methods may be called from several
// goroutines. Heal fails the test when the proxy cannot listen any more.
type Proxy struct {
	tb       redistest.TB
	server   *toxiproxy.ApiServer
	listen   string
	upstream string
	board    *board

	mu   sync.Mutex
	line *toxiproxy.Proxy // guarded by mu; nil while cut
}

// New starts a proxy without faults for upstream, a host:port. It listens on a
// loopback port of its own until tb's cleanup.
func New(tb redistest.TB, upstream string) *Proxy {
	tb.Helper()
	p := &Proxy{
		tb:       tb,
		server:   toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		listen:   net.JoinHostPort("127.0.0.1", strconv.Itoa(redistest.FreePort(tb))),
		upstream: upstream,
		board:    newBoard(),
	}
	tb.Cleanup(p.Cut)
	p.Heal()
	return p
}

// Addr returns the host:port on which the proxy listens, the same all its life.
func (p *Proxy) Addr() string { return p.listen }

// Cut closes all connections and refuses new ones, as a server that is down
// does. On return no connection is open.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != nil {
		p.line.Stop()
		p.line = nil
	}
	p.board.hangUp()
}

// Heal ends every fault. Connections that lost bytes are closed right after;
// what Stall held back is delivered, late.
func (p *Proxy) Heal() {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.board.clear()
	if p.line != nil {
		return
	}
	// A new toxiproxy.Proxy each time: the collection of links that a stopped one leaves behind
	// still changes while its connections die.
	line := toxiproxy.NewProxy(p.server, p.listen, p.listen, p.upstream)
	if err := p.install(line); err != nil {
		p.tb.Fatalf("faultproxy: %v", err)
		return
	}
	if err := line.Start(); err != nil {
		p.tb.Fatalf("faultproxy: listen on %s: %v", p.listen, err)
		return
	}
	p.line = line
}

// install puts a gate in both directions of every connection of line.
func (p *Proxy) install(line *toxiproxy.Proxy) error {
	for _, direction := range []string{"upstream", "downstream"} {
		wrapper, err := line.Toxics.AddToxicJson(strings.NewReader(
			`{"type":"` + gateType + `","stream":"` + direction + `","attributes":{}}`))
		if err != nil {
			return err
		}
		g := wrapper.Toxic.(*gate)
		g.board, g.replies = p.board, direction == "downstream"
	}
	return nil
}

// BlackHole makes the network swallow everything both ways. Connections stay open and new ones are
// accepted, but a client hears nothing any more. If one end closes its connection, the other end
// still sees that.
func (p *Proxy) BlackHole() {
	p.board.set(func(f *faults) { f.loseRequests, f.loseReplies = true, true })
}

// LoseReplies lets requests reach the server, where they run, and swallows all
// that comes back: replies and Pub/Sub messages. A new connection's handshake
// gets no reply either.
func (p *Proxy) LoseReplies() {
	p.board.set(func(f *faults) { f.loseReplies = true })
}

// Stall keeps everything back, both ways, until Heal delivers it: commands run
// long after their callers gave up. While it lasts it looks like BlackHole.
func (p *Proxy) Stall() {
	p.board.set(func(f *faults) { f.stall = true })
}

// Latency delays every byte by d on the way to the server and by d on the way
// back, so a round trip takes 2d longer. It replaces an earlier Latency.
func (p *Proxy) Latency(d time.Duration) {
	p.board.set(func(f *faults) { f.delay = d })
}

// DropConnections closes the connections that are open, once, within moments of its return. New
// connections are accepted all the time. A connection that has not carried a byte yet may count as
// new. Faults stay as they are.
func (p *Proxy) DropConnections() { p.board.hangUp() }
