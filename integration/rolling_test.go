//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rolling is a quorum whose nodes are restarted one after another, and what runs on it meanwhile.
type rolling struct {
	t     *testing.T
	lease time.Duration
	nodes []*redistest.Server
	stop  chan struct{}
	wg    sync.WaitGroup

	mu    sync.Mutex // guards the rest
	lost  []string
	done  map[string]int           // how often each job was done
	gaps  map[string]time.Duration // how long it was not, at most
	calls figures                  // of each Lock that waited
}

// client returns one with connections of its own.
func (r *rolling) client() *relock.Client {
	r.t.Helper()
	var rdbs []rueidis.Client
	for _, s := range r.nodes {
		rdbs = append(rdbs, s.Client())
	}
	c, err := relock.NewRedlock(rdbs, relock.WithLease(r.lease), relock.WithRestartGuard(r.lease),
		relock.WithCommandTimeout(r.lease/6)) // a busy machine is no node that is silent
	require.NoError(r.t, err)
	r.t.Cleanup(c.Close)
	return c
}

// holds keeps a lock that nobody contends for to the end.
func (r *rolling) holds(c *relock.Client, name string) {
	l, err := c.Mutex(name).Lock(r.t.Context())
	require.NoError(r.t, err)
	begun := now()
	r.wg.Go(func() {
		select {
		case <-r.stop:
		case <-l.Context().Done():
		}
		if err := l.Unlock(context.WithoutCancel(r.t.Context())); err != nil {
			r.note(func() { r.lost = append(r.lost, fmt.Sprintf("%s, held for %v: %v", name, now()-begun, err)) })
		}
	})
}

// works does a job again and again until the end, each time under the lock of the name that it is given.
func (r *rolling) works(job string, pause time.Duration, take func(n int) (*relock.Lease, error)) {
	r.wg.Go(func() {
		last := now()
		for n := 0; ; n++ {
			select {
			case <-r.stop:
				r.note(func() { r.gaps[job] = max(r.gaps[job], now()-last) })
				return
			case <-time.After(pause):
			}
			l, err := take(n)
			if err != nil {
				continue
			}
			r.note(func() {
				r.gaps[job] = max(r.gaps[job], now()-last)
				r.done[job]++
			})
			last = now()
			time.Sleep(pause / 10)
			if err := l.Unlock(context.WithoutCancel(r.t.Context())); errors.Is(err, relock.ErrLost) {
				r.note(func() { r.lost = append(r.lost, fmt.Sprintf("%s: %v", job, err)) })
			}
		}
	})
}

func (r *rolling) note(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what()
}

// Every node of a quorum is restarted, one after another with a pause of a quarantine and a lease between, as in a round of
// maintenance. Meanwhile holds that nobody contends for stay, jobs that only try are done, each under a name of its own or
// again and again under the same, and who waits is given the lock. RELOCK_LONG=1 does twenty rounds.
func TestRollingRestart(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			r := &rolling{t: t, lease: 3 * time.Second, stop: make(chan struct{}), done: map[string]int{}, gaps: map[string]time.Duration{}}
			for range n {
				r.nodes = append(r.nodes, redistest.Start(t, "--appendonly", "yes"))
			}
			leader, jobs, a, b := r.client(), r.client(), r.client(), r.client()
			for i := range 4 {
				r.holds(leader, fmt.Sprintf("leader-%d", i))
			}
			r.works("fresh", r.lease/100, func(n int) (*relock.Lease, error) {
				return jobs.Mutex(fmt.Sprintf("fresh-%d", n)).TryLock(t.Context())
			})
			r.works("cron", r.lease/20, func(int) (*relock.Lease, error) { return jobs.Mutex("cron").TryLock(t.Context()) })
			r.works("seldom", 2*r.lease, func(int) (*relock.Lease, error) { return jobs.Mutex("seldom").TryLock(t.Context()) })
			for i, c := range []*relock.Client{a, b, a, b} {
				r.works(fmt.Sprintf("line-%d", i), r.lease/40, func(int) (*relock.Lease, error) {
					begun := now()
					l, err := c.Mutex("line").Lock(t.Context())
					r.note(func() { r.calls = append(r.calls, now()-begun) })
					return l, err
				})
			}
			machine := startDrag(t)
			for range rounds(1, 20) {
				for _, s := range r.nodes {
					s.Restart()
					time.Sleep(2 * r.lease) // a quarantine, and a lease
				}
			}
			close(r.stop)
			r.wg.Wait()
			still := machine.end()
			t.Logf("done: %v; not done for at most: %v; Lock took %v; the machine stood still for %v", r.done, r.gaps, r.calls, still)
			require.Empty(t, r.lost)
			for job, gap := range r.gaps {
				most := r.lease + 2*still
				if job == "seldom" {
					most += 2 * 2 * r.lease // it may come while a node is down, once
				}
				assert.Less(t, gap, most, "%s was stuck", job)
			}
		})
	}
}
