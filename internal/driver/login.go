package driver

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
)

// Remembering wraps rdb, and remembers whether the server has let the client in. Its Run and Do mark the
// refusal of a login before that as ReplyError.Stranger.
func Remembering(rdb Redis) Redis { return &remembering{Redis: rdb} }

type remembering struct {
	Redis
	known atomic.Bool // a command was answered, and not by the refusal of a login
}

// RefusesLogin reports whether the reply is that the server does not let the client in: it knows no such user
// and password, or wants them and was given none.
func (e *ReplyError) RefusesLogin() bool {
	text := strings.TrimPrefix(e.Text, "ERR ")
	return strings.HasPrefix(text, "WRONGPASS ") || strings.HasPrefix(text, "NOAUTH ")
}

// marked returns the error of a command, with the mark.
func (r *remembering) marked(err error) error {
	var reply *ReplyError
	switch refused := errors.As(err, &reply) && reply.RefusesLogin(); {
	case err == nil, reply != nil && !refused:
		if !r.known.Load() {
			r.known.Store(true)
		}
	case refused && !r.known.Load():
		first := *reply
		first.Stranger = true
		return &first
	}
	return err
}

func (r *remembering) Run(ctx context.Context, s *Script, keys, args []string) (Value, error) {
	v, err := r.Redis.Run(ctx, s, keys, args)
	return v, r.marked(err)
}

func (r *remembering) Do(ctx context.Context, commands ...[]string) ([]Value, error) {
	answers, err := r.Redis.Do(ctx, commands...)
	if err != nil {
		return answers, r.marked(err)
	}
	for i, answer := range answers {
		if err := r.marked(answer.Err()); err != nil {
			answers[i] = Error(err.(*ReplyError))
		}
	}
	return answers, nil
}
