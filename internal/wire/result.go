package wire

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// resultPrefix starts the key of the result of a run under a lock, of what the root calls a Flight. For a lock
// whose whole name is a hash tag, resultTagPrefix does, as Kind.Line stands for Kind.Queue.
const (
	resultPrefix    = "relock_once:"
	resultTagPrefix = "relock_once_tag:"
)

// Result is the key of the result of a run under the lock.
func (n *Names) Result() string {
	if n.Queue == n.Kind.Line+n.Tag {
		return resultTagPrefix + n.Tag
	}
	return resultPrefix + n.Tag
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
	v, err := r.link.Do(ctx, r.link.Timeout, r.of(n.Kind).result, []string{n.Result()}, nil, nil)
	if err != nil || v.IsNil() {
		return "", false, err
	}
	text, err := v.Text()
	client, rest, _ := strings.Cut(text, ":")
	nr, result, found := strings.Cut(rest, ":")
	return result, found && IsID(client+":"+nr), err
}

// KeepResult leaves a result of e's run, for as long as stays says, if e holds the lock by the grant with
// that first token.
func (r *Redis) KeepResult(ctx context.Context, e *Entry, grant int64, result string, stays time.Duration) (Kept, error) {
	args := []string{e.ID, result, MS(stays), strconv.FormatInt(grant, 10)}
	n, err := integer(r.link.Do(ctx, e.Timeout, r.of(e.Names.Kind).keep, []string{e.Names.Lock, e.Names.Result()}, args, nil))
	return Kept(n), err
}

// ForgetResult takes the result away. A run that holds the lock then leaves none.
func (r *Redis) ForgetResult(ctx context.Context, n *Names) error {
	_, err := integer(r.link.Do(ctx, r.link.Timeout, r.of(n.Kind).forget, []string{n.Lock, n.Result()}, nil, nil))
	return err
}
