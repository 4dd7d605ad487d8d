package node

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// Gather asks a Redis that decides alone for the free locks of several claims in one command, as
// wire.Redis.Gather does. Each claim learns what became of its question as by Ask.
func (n *Node) Gather(ctx context.Context, claims []*Claim, one bool) ([]wire.Reply, error) {
	way, err := n.route(ctx, claims[0].Entry.Names)
	if err != nil {
		return nil, err
	}
	sent, entries := clock.Now(), make([]*wire.Entry, len(claims))
	for i, c := range claims {
		c.Belief.Begin(sent)
		entries[i] = c.Entry
	}
	replies, err := n.wire.Gather(ctx, way, entries, one, together(claims))
	for i, c := range claims {
		if err != nil {
			c.Noted(err)
		} else if r := &replies[i]; r.Asked {
			if c.Noted(r.Err); r.Err == nil {
				c.Belief.Answered(&r.Answer, c.Entry, false, sent)
			}
		}
	}
	return replies, err
}

// together are the claims of one command, as its latecomer.
type together []*Claim

func (all together) Late(err error) {
	for _, c := range all {
		c.Late(err)
	}
}
