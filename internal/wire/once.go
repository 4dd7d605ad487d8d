package wire

import (
	"context"
	"strings"
	"time"
)

// oncePrefix starts the key of the result of a run under a lock. For a lock whose whole name is a hash tag,
// onceTagPrefix does, as Kind.Line stands for Kind.Queue.
const (
	oncePrefix    = "relock_once:"
	onceTagPrefix = "relock_once_tag:"
)

// Once is the key of the result of a run under the lock.
func (n *Names) Once() string {
	if n.Queue == n.Kind.Line+n.Tag {
		return onceTagPrefix + n.Tag
	}
	return oncePrefix + n.Tag
}

// Kept is what became of a result that a run was to leave.
type Kept int64

// The answers of the script keep.
const (
	Forgotten Kept = -1 // ForgetResult came during the run
	NotHeld   Kept = 0
	IsKept    Kept = 1
)

// Result reads what a run under the lock has left, if one is found. Bytes that no run has written are none.
func (r *Redis) Result(ctx context.Context, n *Names) (result string, found bool, err error) {
	v, err := r.link.Do(ctx, r.link.Timeout, r.of(n.Kind).result, []string{n.Once()}, nil, nil)
	if err != nil || v.IsNil() {
		return "", false, err
	}
	text, err := v.Text()
	client, rest, _ := strings.Cut(text, ":")
	nr, result, found := strings.Cut(rest, ":")
	return result, found && IsID(client+":"+nr), err
}

// KeepResult leaves a result of e's run, for as long as stays says, if e holds the lock.
func (r *Redis) KeepResult(ctx context.Context, e *Entry, result string, stays time.Duration) (Kept, error) {
	args := []string{e.ID, result, MS(stays)}
	n, err := integer(r.link.Do(ctx, e.Timeout, r.of(e.Names.Kind).keep, []string{e.Names.Lock, e.Names.Once()}, args, nil))
	return Kept(n), err
}

// ForgetResult takes the result away. A run that holds the lock then leaves none.
func (r *Redis) ForgetResult(ctx context.Context, n *Names) error {
	_, err := integer(r.link.Do(ctx, r.link.Timeout, r.of(n.Kind).forget, []string{n.Lock, n.Once()}, nil, nil))
	return err
}
