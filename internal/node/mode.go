package node

import (
	"context"
	"strings"

	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// PubSub says which kind of channels a Cluster is used with.
type PubSub int

// The kinds of channels.
const (
	PubSubAuto PubSub = iota
	PubSubPlain
	PubSubSharded
)

// How messages travel.
const (
	modePlain    = 1 + iota // inbox and unlock channels by PUBLISH
	modeSharded             // both by SPUBLISH
	modeRaceOnly            // PUBLISH on a Cluster: listeners cannot be counted, so nothing is handed over
)

// probe is the question which channels a Cluster has. One is out at a time; a caller that needs the answer
// waits for it as long as the own context lives.
type probe struct {
	done chan struct{} // closed once mode or err is set
	mode int32
	err  error
}

// probe returns the mode once Redis has told it. It waits for the answer as long as ctx lives.
func (n *Node) probe(ctx context.Context) (int32, error) {
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
func (n *Node) ask() (*probe, error) {
	n.modeMu.Lock()
	defer n.modeMu.Unlock()
	if n.probing == nil {
		p := &probe{done: make(chan struct{})}
		if p.mode = n.mode.Load(); p.mode != 0 {
			close(p.done) // answered meanwhile
			return p, nil
		}
		if !n.hub.Go(func() { n.answer(p) }) {
			return nil, wire.ErrClosed
		}
		n.probing = p
	}
	return n.probing, nil
}

// answer settles p, and the node's mode where Redis answered.
func (n *Node) answer(p *probe) {
	p.mode, p.err = n.askMode()
	if p.err == nil {
		if p.mode == modeRaceOnly {
			n.hub.StartPlain(false)
		} else {
			n.hub.StartSharded()
		}
		n.mode.Store(p.mode)
	}
	n.modeMu.Lock()
	n.probing = nil
	n.modeMu.Unlock()
	close(p.done)
}

// askMode asks a Cluster for sharded channels, as Redisson does. Only an answer that they are
// unknown says that there are none: one that comes from a Cluster in trouble must not decide for
// the client's whole life.
func (n *Node) askMode() (int32, error) {
	switch n.cfg.PubSub {
	case PubSubPlain:
		return modeRaceOnly, nil
	case PubSubSharded:
		return modeSharded, nil
	}
	ctx, cancel := context.WithTimeout(n.hub.Context(), n.cfg.Timeout)
	defer cancel()
	got, err := n.redis.Do(ctx, []string{"PUBSUB", "SHARDNUMSUB"})
	if err == nil {
		err = got[0].Err()
	}
	reply := link.Reply(err)
	switch {
	case err == nil:
		return modeSharded, nil
	case wire.PlainError(reply):
		return modeRaceOnly, nil
	case strings.HasPrefix(reply, "NOPERM ") && !strings.Contains(reply, "pubsub|shardnumsub"):
		return modeRaceOnly, nil // before Redis 7, which would name the subcommand
	default:
		return 0, err
	}
}
