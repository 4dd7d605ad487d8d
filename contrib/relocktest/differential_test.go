package relocktest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

var (
	differential = flag.Int("differential", 3, "how many random sequences TestTheSameAsARealRedis compares")
	seeds        = flag.String("differential-seed", "", "the seed of a sequence to repeat")
)

// sentinels are the errors that a caller can tell apart.
var sentinels = map[string]error{
	"notAcquired": relock.ErrNotAcquired, "unavailable": relock.ErrUnavailable, "refused": relock.ErrRefused, "lost": relock.ErrLost,
	"misuse": relock.ErrMisuse, "closed": relock.ErrClosed, "unsupported": errors.ErrUnsupported, "notHeld": relock.ErrNotHeld,
	"handedOver": relock.ErrHandedOver, "maxHold": relock.ErrMaxHold, "upgrade": relock.ErrUpgrade, "tooMany": relock.ErrTooMany,
	"wrongKind": relock.ErrWrongKind, "notAsked": relock.ErrNotAsked, "tooLarge": relock.ErrTooLarge, "name": relock.ErrInvalidName,
	"option": relock.ErrInvalidOption, "owner": relock.ErrInvalidOwner,
	"canceled": context.Canceled, "deadline": context.DeadlineExceeded,
}

// said is all that err matches, in order, and which lock was held.
func said(err error) string {
	if err == nil {
		return "ok"
	}
	var all []string
	for name, is := range sentinels {
		if errors.Is(err, is) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	text := strings.Join(all, " ")
	if held := (*relock.HeldError)(nil); errors.As(err, &held) {
		text += fmt.Sprintf(" held %s local=%v", held.Name, held.Local)
	}
	return text
}

// had is what a random sequence got.
type had struct {
	of     string // the lock
	client int
	ctx    context.Context
	lease  *relock.Lease
	multi  *relock.MultiLease
	nested bool // under another lease
}

// stranger plays a random sequence of calls, each of which ends at once, and writes down what came of them.
type stranger struct {
	t       *testing.T
	rand    *rand.Rand
	clients []*relock.Client
	has     []*had
	handles []string
	told    []string
}

func (s *stranger) note(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf("%3d ", len(s.told))+fmt.Sprintf(format, args...))
}

// lost waits until the leases of a lock that was forced open have heard of it.
func (s *stranger) lost(of string) {
	for _, h := range s.has {
		if h.of == of || h.of == "all" {
			if h.multi != nil && h.multi.Lease(of) == nil {
				continue
			}
			within(s.t, h.ctx.Done())
		}
	}
}

func (s *stranger) keep(h *had, err error) {
	if err == nil {
		s.told[len(s.told)-1] += fmt.Sprintf(" #%d", len(s.has))
		s.has = append(s.has, h)
	}
}

// under is the context of a call: of no lease, of one that the client has or had, of an owner, or ended.
func (s *stranger) under(client int) (context.Context, string) {
	switch s.rand.IntN(8) {
	case 0:
		for range 4 {
			if len(s.has) == 0 {
				break
			}
			i := s.rand.IntN(len(s.has))
			if s.has[i].nested && s.has[i].ctx.Err() != nil {
				continue // its context ended with the outer one: nothing tells when its own loss is known
			}
			if s.has[i].client == client {
				return s.has[i].ctx, fmt.Sprintf("under %d", i)
			}
		}
	case 1:
		return relock.WithOwner(s.t.Context(), "owner"), "as owner"
	case 2:
		if s.rand.IntN(3) == 0 {
			ctx, end := context.WithCancel(s.t.Context())
			end()
			return ctx, "cancelled"
		}
	}
	return s.t.Context(), ""
}

func (s *stranger) lease(what, of string, client int, around string, l *relock.Lease, err error) {
	h := &had{of: of, client: client, lease: l, nested: strings.HasPrefix(around, "under")}
	if err == nil {
		h.ctx = l.Context()
		s.note("p%d %s %s %s: %s count=%d token=%v", client, what, of, around, said(err), l.Count(), l.Token() != 0)
	} else {
		s.note("p%d %s %s %s: %s", client, what, of, around, said(err))
	}
	s.keep(h, err)
}

func (s *stranger) step() {
	i := s.rand.IntN(len(s.clients))
	c := s.clients[i]
	ctx, around := s.under(i)
	name := []string{"a", "b"}[s.rand.IntN(2)]
	m, rw, sem := c.Mutex("m:"+name), c.RWMutex("rw:"+name), c.Semaphore("s:"+name, 3)
	switch s.rand.IntN(22) {
	case 0, 1:
		l, err := m.TryLock(ctx)
		s.lease("TryLock", "m:"+name, i, around, l, err)
	case 2:
		l, err := c.Mutex("m:"+name, relock.WithWait(300*time.Millisecond)).Lock(ctx)
		s.lease("Lock", "m:"+name, i, around, l, err)
		for err != nil { // the place in the queue is given up in the background
			if st, asked := m.State(s.t.Context()); asked == nil && st.Waiters == 0 {
				break
			}
			time.Sleep(pause)
		}
	case 3:
		l, err := rw.TryLock(ctx)
		s.lease("TryLock", "rw:"+name, i, around, l, err)
	case 4, 5:
		l, err := rw.TryRLock(ctx)
		s.lease("TryRLock", "rw:"+name, i, around, l, err)
	case 6:
		k := 1 + s.rand.IntN(4)
		l, err := sem.TryAcquire(ctx, k)
		s.lease(fmt.Sprint("TryAcquire ", k), "s:"+name, i, around, l, err)
	case 7:
		l, err := sem.Locker(1 + s.rand.IntN(3)).TryLock(ctx)
		s.lease("TryLock", "s:"+name, i, around, l, err)
	case 8:
		other := c.Mutex([]string{"m:a", "m:b", "m:c"}[s.rand.IntN(3)])
		l, err := relock.All(m, other).TryLock(ctx)
		s.note("p%d All m:%s %s %s: %s", i, name, other.Name(), around, said(err))
		if err == nil {
			s.keep(&had{of: "all", client: i, ctx: l.Context(), multi: l}, nil)
		}
	case 9:
		l, err := relock.Any(m, c.Mutex("held")).TryLock(ctx) // of two free ones it takes any
		what, _, _ := strings.Cut(said(err), " held ")        // which of the two it names is by chance
		s.note("p%d Any m:%s %s: %s", i, name, around, what)
		if err == nil {
			s.keep(&had{of: l.Name(), client: i, ctx: l.Context(), lease: l}, nil)
		}
	case 10, 11, 12, 13:
		s.end()
	case 14:
		st, err := m.State(ctx)
		mine := strings.HasPrefix(st.Holder, c.ID())
		s.note("p%d State m:%s: %s held=%v mine=%v count=%d", i, name, said(err), st.Held, mine, st.Count)
	case 15:
		st, err := rw.State(ctx)
		read := st.Readers > 0 // how many share a hold is a matter of time
		s.note("p%d State rw:%s: %s held=%v count=%d read=%v", i, name, said(err), st.Held, st.Count, read)
		st, err = sem.State(ctx)
		s.note("p%d State s:%s: %s held=%v permits=%d free=%d", i, name, said(err), st.Held, st.Permits, st.Free)
	case 16:
		if s.rand.IntN(3) > 0 {
			return
		}
		force, of := m.ForceUnlock, "m:"+name
		switch s.rand.IntN(3) {
		case 0:
			force, of = rw.ForceUnlock, "rw:"+name
		case 1:
			force, of = sem.ForceUnlock, "s:"+name
		}
		freed, err := force(ctx)
		s.note("p%d Force %s: %s %v", i, of, said(err), freed)
		if freed {
			s.lost(of)
		}
	case 17:
		n := s.rand.IntN(5)
		s.note("p%d SetPermits s:%s %d: %s", i, name, n, said(sem.SetPermits(ctx, n)))
	case 18:
		value, ran, err := c.Flight("o:"+name, time.Minute).Do(ctx, func(context.Context) ([]byte, error) {
			if s.rand.IntN(3) == 0 {
				return nil, errors.ErrUnsupported
			}
			return fmt.Appendf(nil, "value %d", len(s.told)), nil
		})
		s.note("p%d Flight o:%s %s: %q %v %s", i, name, around, value, ran, said(err))
	case 19:
		if s.rand.IntN(2) == 0 {
			value, found, err := c.Flight("o:"+name, time.Minute).Get(ctx)
			s.note("p%d Get o:%s %s: %q %v %s", i, name, around, value, found, said(err))
			break
		}
		s.note("p%d Forget o:%s: %s", i, name, said(c.Flight("o:"+name, time.Minute).Forget(ctx)))
	case 20:
		handle := "no handle"
		if len(s.handles) > 0 {
			handle = s.handles[s.rand.IntN(len(s.handles))]
		}
		l, err := m.TakeOver(ctx, handle)
		s.lease("TakeOver", "m:"+name, i, around, l, err)
	case 21:
		of := []string{"m:" + name, "rw:" + name, "s:" + name, "rl:none", "", "x" + strings.Repeat("y", 2000),
			"}{", "ü\x00\xff"}[s.rand.IntN(8)]
		l, err := c.Mutex(of).TryLock(ctx) // perhaps a lock of another kind, or none
		s.lease("TryLock", of, i, around, l, err)
		if err == nil && !strings.HasPrefix(of, "m:") {
			s.note("unlocked: %s", said(l.Unlock(s.t.Context())))
		}
	}
}

// end ends something, or tries to: it may be over.
func (s *stranger) end() {
	if len(s.has) == 0 {
		return
	}
	i := s.rand.IntN(len(s.has))
	h := s.has[i]
	ctx := s.t.Context()
	cause := said(context.Cause(h.ctx))
	switch what := s.rand.IntN(6); {
	case h.multi != nil:
		s.note("Unlock all %d %s: %s", i, cause, said(h.multi.Unlock(ctx)))
	case what == 0:
		s.note("Extend %d %s: %s", i, cause, said(h.lease.Extend(ctx, []time.Duration{-1, 2 * time.Minute, time.Hour}[s.rand.IntN(3)])))
	case what == 1:
		handle, err := h.lease.HandOver(ctx, time.Minute)
		s.note("HandOver %d %s: %s", i, cause, said(err))
		if err == nil {
			s.handles = append(s.handles, handle)
		}
	case what == 2:
		l, err := h.lease.Downgrade(ctx)
		s.note("Downgrade %d %s: %s", i, cause, said(err))
		if err == nil {
			s.keep(&had{of: h.of, client: h.client, ctx: l.Context(), lease: l}, nil)
		}
	default:
		s.note("Unlock %d %s: %s, then %s", i, cause, said(h.lease.Unlock(ctx)), said(context.Cause(h.ctx)))
	}
}

// play returns what came of a random sequence on a server.
func play(t *testing.T, server *Server, seed uint64, steps int) []string {
	s := &stranger{t: t, rand: rand.New(rand.NewPCG(seed, 0))}
	for range 3 {
		s.clients = append(s.clients, server.New(t, relock.WithLease(time.Minute)))
	}
	Hold(t, s.clients[0], "held")
	for range steps {
		s.step()
	}
	return s.told
}

// A random sequence of all calls that end at once has the same results, call by call, on a Redis in memory and on a real
// one: what was granted, what a state shows, and all that an error matches.
func TestTheSameAsARealRedis(t *testing.T) {
	for range *differential {
		seed := rand.Uint64()
		if *seeds != "" {
			var err error
			seed, err = strconv.ParseUint(*seeds, 10, 64)
			require.NoError(t, err)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var memory, real []string
			t.Run("memory", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { memory = play(t, memoryServer(t), seed, 300) })
			})
			t.Run("redis", func(t *testing.T) { real = play(t, Redis(t), seed, 300) })
			for i := range min(len(memory), len(real)) {
				require.Equal(t, real[i], memory[i], "after\n%s", strings.Join(real[:i], "\n"))
			}
			require.Len(t, memory, len(real))
			require.Greater(t, len(real), 150)
		})
	}
}
