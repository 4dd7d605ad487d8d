//go:build unix

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/election"
	"github.com/relock-go/relock/integration/faultproxy"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lead is the worker's side: it takes part in the election of m's name until SIGTERM, and says all the time whether it leads.
func (p *performer) lead(m *relock.Mutex, who int) {
	e := election.New(m)
	p.mu.Lock()
	p.parts[m.Name()] = e
	p.mu.Unlock()
	ctx, stop := signal.NotifyContext(p.ctx, syscall.SIGTERM)
	defer stop()
	p.write(now(), want, m.Name(), who, 0, "")
	err := e.Run(ctx, func(ctx context.Context) error {
		token := relock.Token(ctx)
		p.write(now(), granted, m.Name(), who, token, "")
		for at := now(); ctx.Err() == nil; at = now() { // before asking: see span
			p.write(at, trusted, m.Name(), who, token, "")
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Millisecond):
			}
		}
		p.write(now(), lost, m.Name(), who, token, fmt.Sprint(context.Cause(ctx)))
		return nil
	})
	if err != nil {
		p.write(now(), failed, m.Name(), who, 0, fmt.Sprintf("Run: %v", err))
	}
	p.write(now(), gaveUp, m.Name(), who, 0, "")
}

func (p *performer) resign(name string, who int) {
	p.mu.Lock()
	e := p.parts[name]
	p.mu.Unlock()
	p.write(now(), resigning, name, who, 0, "")
	e.Resign()
}

const (
	electionName  = "leader"
	electionLease = 2 * time.Second
)

// voter is a worker that takes part, and its lines to each Redis.
type voter struct {
	*worker
	lines []*faultproxy.Proxy
}

// ballot is an election of three processes, over one Redis or a quorum.
type ballot struct {
	t       *testing.T
	jl      *journal
	servers []*redistest.Server
	looks   *election.Election // of the test's own process, which only looks
	voters  []*voter
	started int
}

func startBallot(t *testing.T, nodes int) *ballot {
	b := &ballot{t: t, jl: newJournal()}
	var rdbs []rueidis.Client
	for range nodes {
		s := redistest.Start(t)
		b.servers, rdbs = append(b.servers, s), append(rdbs, s.Client())
	}
	opts := []relock.ClientOption{relock.WithLease(electionLease), relock.WithClientName("looks")}
	var c *relock.Client
	var err error
	if nodes == 1 {
		c, err = relock.New(rdbs[0], opts...)
	} else {
		c, err = relock.NewRedlock(rdbs, append(opts, relock.WithRestartGuard(electionLease))...)
	}
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b.looks = election.New(c.Mutex(electionName))
	for range 3 {
		b.join()
	}
	return b
}

// join starts one more process that takes part.
func (b *ballot) join() {
	b.started++
	v := &voter{}
	j := job{Lease: electionLease, Name: fmt.Sprintf("voter-%d", b.started), Single: true}
	if len(b.servers) > 1 {
		j.Quorum = &quorumJob{Longest: electionLease}
	}
	for _, s := range b.servers {
		line := faultproxy.New(b.t, s.Addr())
		v.lines, j.Addrs = append(v.lines, line), append(j.Addrs, line.Addr())
	}
	v.worker = startWorker(b.t, b.jl, b.started, j)
	v.order("lead %s", electionName)
	b.voters = append(b.voters, v)
}

// leave drops a process that is gone, or is to end.
func (b *ballot) leave(v *voter) {
	b.voters = slices.DeleteFunc(b.voters, func(other *voter) bool { return other == v })
}

// settled waits until one process leads, as it says and Redis by its name, and two wait. It returns the leader and its grant.
func (b *ballot) settled() (leader *voter, begun event) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		leader = nil
		begun, _ = b.jl.last(granted, 0)
		for _, v := range b.voters {
			if v.owns(begun) {
				leader = v
			}
		}
		st, err := b.looks.Leader(b.t.Context())
		return leader != nil && err == nil && st.Waiters >= 2 && st.Client.Name == fmt.Sprintf("voter-%d", leader.id)
	}, soon, 5*time.Millisecond)
	return leader, begun
}

// upsets befall a leader. Each returns when it began, and what is to be done once another process leads.
var upsets = map[string]func(b *ballot, v *voter) (at time.Duration, then func()){
	"SIGKILL": func(b *ballot, v *voter) (time.Duration, func()) {
		at := now()
		v.kill()
		return at, func() { b.leave(v); b.join() }
	},
	"SIGSTOP": func(b *ballot, v *voter) (time.Duration, func()) {
		at := now()
		v.pause()
		return at, v.resume
	},
	"cut": func(b *ballot, v *voter) (time.Duration, func()) {
		at := now()
		for _, line := range v.lines {
			line.Cut()
		}
		return at, func() {
			for _, line := range v.lines {
				line.Heal()
			}
		}
	},
	"Resign": func(b *ballot, v *voter) (time.Duration, func()) {
		asked := now()
		v.order("resign %s", electionName)
		return b.jl.await(b.t, soon, asked, "Resign", kind(resigning, electionName)).at, func() {}
	},
	"SIGTERM": func(b *ballot, v *voter) (time.Duration, func()) {
		at := now()
		require.NoError(b.t, v.cmd.Process.Signal(syscall.SIGTERM))
		return at, func() {
			b.jl.await(b.t, soon, at, "the end of Run", func(e event) bool { return e.kind == gaveUp && v.owns(e) })
			finish(b.t, v.worker)
			b.leave(v)
			b.join()
		}
	},
}

// Three processes elect a leader, and each leader is upset: no two lead at one instant, tokens rise, and another one leads in
// the end. How soon is printed, and not judged. RELOCK_LONG=1 does fifty rounds of each upset.
func TestElection(t *testing.T) {
	for topology, nodes := range map[string]int{"one Redis": 1, "a quorum of three": 3} {
		t.Run(topology, func(t *testing.T) {
			begin(t)
			b := startBallot(t, nodes)
			var order []string
			for name := range upsets {
				order = append(order, slices.Repeat([]string{name}, rounds(2, 50))...)
			}
			rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			took := make(map[string]figures)
			disturbed := 0
			machine := startDrag(t)
			for len(order) > 0 {
				leader, begun := b.settled()
				time.Sleep(rand.N(electionLease / 3)) // anywhere between two renewals
				at, then := upsets[order[0]](b, leader)
				next := b.jl.await(t, soon, begun.at, "the next leader after "+order[0], func(e event) bool {
					return e.kind == granted && !leader.owns(e)
				})
				then()
				if next.at < at { // the leader had lost its lead on a busy machine: that tells nothing of the upset
					disturbed++
					require.Less(t, disturbed, 20)
					continue
				}
				took[order[0]] = append(took[order[0]], next.at-at)
				order = order[1:]
			}
			b.settled()
			still := machine.end()
			for _, v := range b.voters {
				finish(t, v.worker)
			}
			for name, times := range took {
				t.Logf("%s: from %s of the leader to the next leader, lease %v: %v", topology, name, electionLease, times)
			}
			t.Logf("%s: the machine stood still for up to %v; %d rounds begun anew", topology, still, disturbed)

			events := b.jl.all()
			nothingFailed(t, events)
			sorted := spans(events, electionName)
			require.GreaterOrEqual(t, len(sorted), len(upsets)*rounds(2, 50))
			require.Empty(t, overlaps(sorted))
			require.Empty(t, disorder(sorted))
			require.Empty(t, repeated(events, electionName))
		})
	}
}
