package relock

import (
	"context"
	"strings"
)

// How messages travel.
const (
	modePlain    = 1 + iota // inbox and unlock channels by PUBLISH
	modeSharded             // both by SPUBLISH
	modeRaceOnly            // PUBLISH on a Cluster: nobody can count listeners, so nothing is handed over
)

// route returns how messages about a lock travel. On a Cluster the first calls ask the server.
func (n *node) route(ctx context.Context, nm *names) (route, error) {
	mode := n.mode.Load()
	if mode == 0 {
		var err error
		if mode, err = n.probe(ctx); err != nil {
			return route{}, err
		}
	}
	switch mode {
	case modeSharded:
		return route{inbox: inboxPrefix + nm.tag + ":", publish: "SPUBLISH"}, nil
	case modeRaceOnly:
		return route{publish: "PUBLISH"}, nil
	default:
		return route{inbox: inboxPrefix, publish: "PUBLISH"}, nil
	}
}

// probe is the question which channels a Cluster has. One is out at a time; who needs the answer waits for it as long as
// the own context lives.
type probe struct {
	done chan struct{} // closed once mode or err is set
	mode int32
	err  error
}

func (n *node) probe(ctx context.Context) (int32, error) {
	p, err := n.ask()
	if err != nil {
		return 0, err
	}
	select {
	case <-p.done:
		return p.mode, p.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// ask returns the question that is out, or a new one.
func (n *node) ask() (*probe, error) {
	n.modeMu.Lock()
	defer n.modeMu.Unlock()
	if n.probing == nil {
		p := &probe{done: make(chan struct{})}
		if p.mode = n.mode.Load(); p.mode != 0 {
			close(p.done) // answered meanwhile
			return p, nil
		}
		if !n.hub.start(func() { n.answer(p) }) {
			return nil, ErrClosed
		}
		n.probing = p
	}
	return n.probing, nil
}

// answer settles p, and the node's mode where Redis answered.
func (n *node) answer(p *probe) {
	p.mode, p.err = n.askMode()
	if p.err == nil {
		if p.mode == modeRaceOnly {
			n.hub.startPlain(false)
		} else {
			n.hub.startSharded()
		}
		n.mode.Store(p.mode)
	}
	n.modeMu.Lock()
	n.probing = nil
	n.modeMu.Unlock()
	close(p.done)
}

// askMode asks a Cluster for sharded channels, as Redisson does. Only an answer that they are unknown says that there
// are none: one that comes from a Cluster in trouble must not decide for the client's whole life.
func (n *node) askMode() (int32, error) {
	switch n.pubsub {
	case PubSubPlain:
		return modeRaceOnly, nil
	case PubSubSharded:
		return modeSharded, nil
	}
	ctx, cancel := context.WithTimeout(n.hub.ctx, n.timeout)
	defer cancel()
	rdb := n.hub.rdb
	err := rdb.Do(ctx, rdb.B().Arbitrary("PUBSUB", "SHARDNUMSUB").Build()).Error()
	reply := replied(err)
	code, _, _ := strings.Cut(reply, " ")
	switch {
	case err == nil:
		return modeSharded, nil
	case reply != "" && !upper(code): // the client library leaves out a plain ERR
		return modeRaceOnly, nil
	case code == "NOPERM" && !strings.Contains(reply, "pubsub|shardnumsub"):
		return modeRaceOnly, nil // before Redis 7, which would name the subcommand
	default:
		return 0, err
	}
}
