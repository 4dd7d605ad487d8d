package single

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// Gather takes the free locks of several claims in one command: all of them, or the first that is free.
func (s *Single) Gather(ctx context.Context, claims []claim.Claim, one bool) ([]node.Grant, error) {
	all, of := make([]*contender, len(claims)), make([]*node.Claim, len(claims))
	for i, c := range claims {
		all[i] = c.(*contender)
		all[i].Enter()
		of[i] = &all[i].Claim
	}
	replies, failure := s.node.Gather(ctx, of, one)
	if wire.ReplyCode(link.Reply(failure)) == "NOPERM" { // a right to one of the keys is missing, and Redis ran nothing
		replies, failure = inTurn(ctx, of, one), nil
	}
	if failure != nil {
		for _, c := range all {
			c.End(link.MayHaveRun(failure))
		}
		return nil, &wire.NodeError{Op: driver.Acquire, Name: all[0].entry.Names.Name, Err: failure}
	}
	grants, granted := make([]node.Grant, len(all)), 0
	for i, c := range all {
		name, r := c.entry.Names.Name, &replies[i]
		switch {
		case !r.Asked:
			c.End(false)
		case r.Err != nil:
			c.End(link.MayHaveRun(r.Err))
			if !wire.HasNoSize(failure) { // which says that the locks have to be asked for by themselves
				failure = &wire.NodeError{Op: driver.Acquire, Name: name, Err: r.Err}
			}
		case r.Mine:
			grants[i], granted = c.granted(), granted+1
		default:
			c.Forget()
			if failure == nil {
				failure = &wire.HeldError{Name: name, Holder: r.Holder, TTL: r.TTL, Wanted: r.Wanted}
			}
		}
	}
	if one && granted > 0 || granted == len(all) {
		return grants, nil
	}
	if failure == nil {
		failure = &wire.NodeError{Op: driver.Acquire, Name: all[0].entry.Names.Name, Err: errNotAsked}
	}
	for i, c := range all {
		if grants[i].Token > 0 {
			c.Abandon()
		}
	}
	return nil, failure
}

// inTurn asks for several claims as the script of Gather does, with a command for each: so the error of one
// is its own.
func inTurn(ctx context.Context, claims []*node.Claim, one bool) []wire.Reply {
	replies := make([]wire.Reply, len(claims))
	for i, c := range claims {
		r := &replies[i]
		r.Asked = true
		if r.Answer, _, r.Err = c.Ask(ctx, wire.NoTicket); r.Mine == one || link.Unanswered(r.Err) {
			break
		}
	}
	return replies
}

// errNotAsked would be an answer that no script gives.
var errNotAsked = errors.New("gather: a lock was not asked for, and none was refused")
