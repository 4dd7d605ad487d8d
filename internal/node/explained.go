package node

import (
	"errors"

	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// Explained is err with what is known of those of its nodes that were silent. In a NodeError of one
// Redis it also tells the caller that left from the command that ran out of time.
func Explained(err error, nodes []*Node, quorum bool) error {
	switch e := err.(type) {
	case *wire.NodeError:
		told := *e
		if left := new(link.Left); e.Cause == nil && errors.As(e.Err, &left) {
			told.Err = wire.ErrNoAnswer
			if left.Cause != wire.ErrNoAnswer { // else the time of the command was up, and not the caller's
				told.Cause = left.Cause
			}
		}
		if !quorum && len(nodes) == 1 {
			told.Err = nodes[0].Explained(told.Err)
		}
		return &told
	case *wire.QuorumError:
		told := *e
		told.Nodes = make([]*wire.NodeError, len(e.Nodes))
		for i, said := range e.Nodes {
			of := *said
			of.Err = nodes[said.Node-1].Explained(said.Err)
			told.Nodes[i] = &of
		}
		return &told
	case *wire.HeldError:
		if e.Cause != nil {
			told := *e
			told.Cause = Explained(e.Cause, nodes, quorum)
			return &told
		}
	}
	return err
}
