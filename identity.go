package relock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// identity is who a node was when it was first asked.
type identity struct {
	run    string // run id, "" when the server tells none
	marked bool   // the incarnation marker was there
}

// incarnationKey is spelled in guard.lua too.
const incarnationKey = "relock_incarnation"

// prepare checks the nodes before the first use, and returns once a quorum has answered: what the others say counts when
// they are asked to vote. Only where no node that answered is marked it waits for all: where every one of them is fresh
// it declares so, since nobody can hold a lock then.
func (q *quorum) prepare(ctx context.Context) error {
	if q.ready.Load() {
		return nil
	}
	out := newOutcome("prepare", "", q)
	idle := q.idle(q.seats)
	for i, s := range q.seats {
		if idle[i] {
			out.note(s, errIdle)
			continue
		}
		if !q.crew.start(func() {
			ctx, cancel := context.WithTimeout(q.ctx, q.cfg.commandTimeout())
			defer cancel()
			out.note(s, q.check(ctx, s))
		}) {
			return ErrClosed
		}
	}
	for !q.known(out) {
		select {
		case <-out.news:
		case <-ctx.Done():
			return out.leave(q, causeOf(ctx))
		case <-q.done:
			return ErrClosed
		}
	}
	if err := out.invalid(); err != nil {
		return err
	}
	if err := out.err(); err != nil {
		return err
	}
	if q.cfg.guard == GuardAuto && out.answered() == len(q.seats) && !q.marked() {
		if err := q.initialize(ctx); err != nil {
			return err
		}
	}
	q.ready.Store(true)
	return nil
}

// known reports whether the answers are enough to go on, or all there are.
func (q *quorum) known(out *outcomes) bool {
	enough := out.answered() >= q.need && (q.cfg.guard != GuardAuto || q.marked())
	return enough || out.invalid() != nil || out.complete()
}

// marked reports whether a node that was asked was not fresh.
func (q *quorum) marked() bool {
	return slices.ContainsFunc(q.seats, func(s *seat) bool { who := s.who.Load(); return who != nil && who.marked })
}

// check asks a node once who it is, and holds that against the others.
func (q *quorum) check(ctx context.Context, s *seat) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if s.who.Load() != nil {
		return nil
	}
	who, err := s.identify(ctx)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, other := range q.seats {
		if o := other.who.Load(); o != nil && who.run != "" && o.run == who.run {
			return fmt.Errorf("%w: nodes %d and %d are the same server", ErrInvalidNodes, other.index, s.index)
		}
	}
	s.who.Store(&who)
	return nil
}

// initialize declares that no node has forgotten a lock that is held.
func (q *quorum) initialize(ctx context.Context) error {
	select {
	case <-q.done:
		return ErrClosed
	default:
	}
	out := newOutcome("initialize", "", q)
	q.each(ctx, q.cfg.commandTimeout(), out, func(ctx context.Context, s *seat) error {
		return s.initialize(ctx, q.cfg.longest)
	})
	return out.err()
}

// enter takes the node's slot for checks. It fails when ctx ends first.
func (s *seat) enter(ctx context.Context) error {
	select {
	case s.checking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *seat) leave() { <-s.checking }

// identify asks a server who it is. A replica or a server that is another seat too would make a quorum that is none.
func (s *seat) identify(ctx context.Context) (who identity, err error) {
	b := s.rdb.B()
	sent := clock.Now()
	got := s.rdb.DoMulti(ctx,
		b.Time().Build(),
		b.Exists().Key(incarnationKey).Build(),
		b.Info().Section("server").Build(),
		b.Info().Section("replication").Build(),
	)
	if err := got[0].NonRedisError(); err == nil || clock.Now().Since(sent) >= s.link.timeout || ctx.Err() == nil {
		s.heard(err)
	}
	parts, err := got[0].AsIntSlice()
	if err != nil {
		return who, err
	}
	if len(parts) != 2 {
		return who, fmt.Errorf("TIME answered %d parts", len(parts))
	}
	s.tick(parts[0]*1e6+parts[1], sent)
	marked, err := got[1].AsInt64()
	if err != nil {
		return who, err
	}
	who.marked = marked == 1
	server, _ := got[2].ToString() // an embedded server may tell neither
	replication, _ := got[3].ToString()
	who.run = infoField(server, "run_id")
	if role := infoField(replication, "role"); role != "" && role != "master" {
		return who, fmt.Errorf("%w: node %d is a %s; a quorum is of masters that do not know each other", ErrInvalidNodes, s.index, role)
	}
	return who, nil
}

// initialize declares that no lock is held that this server may have forgotten.
func (s *seat) initialize(ctx context.Context, longest time.Duration) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	who, err := s.identify(ctx) // it may have been restarted since it was checked
	if err != nil {
		return err
	}
	if who.run == "" {
		who.run = "unknown" // as guard.lua has it
	}
	return s.rdb.Do(ctx, s.rdb.B().Hset().Key(incarnationKey).FieldValue().
		FieldValue("run", who.run).FieldValue("born", "0").FieldValue("longest", ms(longest)).Build()).Error()
}

func infoField(info, field string) string {
	_, rest, found := strings.Cut(info, field+":")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}
