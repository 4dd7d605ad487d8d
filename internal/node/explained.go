package node

import (
	"errors"

	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// Explained returns err, and adds to each of its nodes that gave no answer the error with which the
// node had just failed, if any. It also makes a NodeError tell whether the caller gave up or a
// command's time was over.
func Explained(err error, nodes []*Node, quorum bool) error {
	switch e := err.(type) {
	case *wire.NodeError:
		told := *e
		if left := new(link.Left); e.Cause == nil && errors.As(e.Err, &left) {
			told.Err = wire.ErrNoAnswer
			if left.Cause != wire.ErrNoAnswer { // ErrNoAnswer: the command's time was over, not the caller's
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
