package node

import (
	"context"
	"strings"

	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// How messages travel. 0 says that it is not known yet.
const (
	modePlain    = 1 + iota // grants and unlocks by PUBLISH
	modeSharded             // both by SPUBLISH, on a Cluster
	modeRaceOnly            // unlocks by PUBLISH, on a Cluster. No grants: scripts cannot count listeners
)

// probe is the question which channels a Cluster has. One is out at a time.
type probe struct {
	done chan struct{} // closed once mode or err is set
	mode int32
	err  error
}

// probe returns the mode once Redis has told it. It waits for the answer as long as ctx lives, and
// asks unless the question is out already or was answered.
func (n *Node) probe(ctx context.Context) (int32, error) {
	n.modeMu.Lock()
	p := n.probing
	if p == nil {
		p = &probe{done: make(chan struct{})}
		if !n.hub.Go(func() { n.answer(p) }) {
			n.modeMu.Unlock()
			return 0, wire.ErrClosed
		}
		n.probing = p
	}
	n.modeMu.Unlock()
	select {
	case <-p.done:
		return p.mode, p.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// answer asks Redis and completes p. If Redis answered, it also sets the node's mode; otherwise the
// next caller asks again.
func (n *Node) answer(p *probe) {
	defer close(p.done)
	if p.mode, p.err = n.askMode(); p.err != nil {
		n.modeMu.Lock()
		n.probing = nil
		n.modeMu.Unlock()
		return
	}
	if p.mode == modeRaceOnly {
		n.hub.StartPlain(false)
	} else {
		n.hub.StartSharded()
	}
	n.mode.Store(p.mode)
}

// askMode asks a Cluster whether it has sharded channels, as Redisson does. Only an answer that
// they are unknown counts as no: an answer of a Cluster in trouble must not decide for the client's
// whole life.
func (n *Node) askMode() (int32, error) {
	if n.cfg.Plain {
		return modeRaceOnly, nil
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
		return modeRaceOnly, nil // a Redis before 7: a newer one would name the subcommand
	default:
		return 0, err
	}
}
