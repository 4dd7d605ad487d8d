//go:build unix

package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	permitted   = "permits" // the semaphore
	permitSize  = 5
	permitLease = 500 * time.Millisecond
)

// permits takes one to three permits again and again. While it trusts them it says so: token is the number of the call, and note
// how many permits those are.
func (p *performer) permits(name string, size, who int) {
	s := p.locks.Semaphore(name, size)
	for call := int64(1); p.ctx.Err() == nil; call++ {
		k := 1 + rand.IntN(3)
		waiting, cancel := context.WithCancelCause(context.Background()) // a permit must not end with p.ctx
		stop := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
		held, err := s.Acquire(waiting, k)
		going := stop()
		switch {
		case err != nil && p.ctx.Err() == nil:
			p.write(now(), failed, name, who, call, fmt.Sprintf("Acquire: %v", err))
			return
		case err != nil:
			return
		}
		for end := now() + rand.N(10*time.Millisecond); going; time.Sleep(time.Millisecond) {
			at := now() // before asking: see span
			if held.Context().Err() != nil {
				break
			}
			p.write(at, trusted, name, who, call, strconv.Itoa(k))
			going = at < end
		}
		err = held.Unlock(context.Background())
		if err != nil && !errors.Is(err, relock.ErrLost) && !errors.Is(err, relock.ErrUnavailable) {
			p.write(now(), failed, name, who, call, fmt.Sprintf("Release: %v", err))
		}
	}
}

// most returns how many permits were trusted at one instant at most, and by which calls.
func most(events []event, name string) (count int, by []string) {
	type use struct {
		from, to time.Duration
		k        int
	}
	uses := make(map[string]*use)
	for _, e := range only(events, kind(trusted, name)) {
		call := fmt.Sprintf("%s #%d", e.who, e.token)
		if uses[call] == nil {
			k, _ := strconv.Atoi(e.note)
			uses[call] = &use{from: e.at, to: e.at, k: k}
		}
		uses[call].from, uses[call].to = min(uses[call].from, e.at), max(uses[call].to, e.at)
	}
	type change struct {
		at   time.Duration
		k    int
		call string
	}
	var changes []change
	for call, u := range uses {
		changes = append(changes, change{u.from, u.k, call}, change{u.to, -u.k, call})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.k, a.k)) })
	held, now := make(map[string]int), 0
	for _, c := range changes {
		if now += c.k; c.k > 0 {
			held[c.call] = c.k
		} else {
			delete(held, c.call)
		}
		if now > count {
			count, by = now, nil
			for call, k := range held {
				by = append(by, fmt.Sprintf("%s: %d", call, k))
			}
		}
	}
	return count, by
}

// What may happen in a round.
var permitFaults = []string{"kill", "stop", "counter", "cut messages", "cut commands", "nothing"}

// TestPermitsStandAllFaults has processes take permits of one semaphore, and does something to them in each round: never more are
// trusted than there are, the permits of the dead come back, and the size is exact again within a second.
func TestPermitsStandAllFaults(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	jl := newJournal()
	next := 0
	start := func() *worker {
		next++
		w := startWorker(t, jl, next, jobFor(s.Option(), permitLease))
		for range 3 {
			w.order("permits %s %d", permitted, permitSize)
		}
		return w
	}
	workers := []*worker{start(), start(), start(), start()}
	var late, mend time.Duration
	met := make(map[string]int)
	for range rounds(24, 1000) {
		time.Sleep(rand.N(100 * time.Millisecond))
		i, fault := rand.IntN(len(workers)), permitFaults[rand.IntN(len(permitFaults))]
		began := time.Now()
		switch fault {
		case "kill":
			workers[i].kill()
			killed := time.Now()
			gone := func() bool {
				return !strings.Contains(s.Do("ZRANGE", "{permits}:timeout", "0", "-1"), workers[i].client)
			}
			require.Eventually(t, gone, permitLease+time.Second, time.Millisecond, "the permits of the dead")
			late = max(late, time.Since(killed)-permitLease)
			workers[i] = start()
		case "stop":
			workers[i].pause()
			time.Sleep(rand.N(2 * permitLease))
			workers[i].resume()
		case "counter":
			s.Do("DEL", permitted)
		case "cut messages":
			s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		case "cut commands":
			s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
		if fault == "counter" {
			began = time.Now()
		}
		exact := func() bool {
			return s.Do("EVAL", "return (redis.call('GET', KEYS[1]) or -1000) + redis.call('ZCARD', KEYS[2])", "2", permitted, "{permits}:timeout") ==
				strconv.Itoa(permitSize)
		}
		require.Eventually(t, exact, 3*time.Second, time.Millisecond, "the size after %q: %s and %s", fault, s.Do("GET", permitted), s.Do("ZCARD", "{permits}:timeout"))
		if fault == "counter" {
			mend = max(mend, time.Since(began))
		}
		met[fault]++
	}
	finish(t, workers...)
	events := jl.all()
	nothingFailed(t, events)
	count, by := most(events, permitted)
	require.LessOrEqual(t, count, permitSize, "%q", by)
	require.Equal(t, permitSize, count, "all permits were used")
	require.Eventually(t, func() bool { return s.Do("GET", permitted) == strconv.Itoa(permitSize) }, 3*permitLease, time.Millisecond)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "{permits}:timeout", "relock_permits:{permits}") == "0" }, 5*permitLease, time.Millisecond)
	t.Logf("%v; permits of the dead %v behind their lease at most; a deleted counter exact again after %v at most", met, late, mend)
}

// The judge of TestPermitsStandAllFaults finds one permit too many.
func TestMostPermits(t *testing.T) {
	at := func(ms int, who string, call int64, k string) event {
		return event{at: time.Duration(ms) * time.Millisecond, kind: trusted, who: who, lock: permitted, token: call, note: k}
	}
	count, _ := most([]event{at(1, "a", 1, "2"), at(5, "a", 1, "2"), at(5, "b", 1, "3"), at(9, "b", 1, "3"), at(10, "a", 2, "1")}, permitted)
	require.Equal(t, 5, count, "the ends of both are one instant")
	count, by := most([]event{at(1, "a", 1, "2"), at(6, "a", 1, "2"), at(5, "b", 1, "3"), at(9, "b", 1, "3"), at(5, "c", 1, "1"), at(7, "c", 1, "1")}, permitted)
	require.Equal(t, 6, count)
	require.Len(t, by, 3)
}
