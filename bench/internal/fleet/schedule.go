package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/bench/internal/board"
)

const (
	stagger = 300 * time.Millisecond // between the starts of two schedulers
	early   = 150 * time.Millisecond // by which a run may come before its tick
)

// Runs are how often a job ran, by tick.
type Runs []int

// String says in how many ticks the job ran never, once, and more often.
func (r Runs) String() string {
	often, all := make([]int, size+1), 0
	for _, n := range r {
		often[min(n, size)]++
		all += n
	}
	return fmt.Sprintf("%d runs in %d ticks; never in %d, once in %d, twice in %d, three times or more in %d",
		all, len(r), often[0], often[1], often[2], often[3])
}

// Schedule has three schedulers run a job of each second, their starts 0.3 s apart.
func Schedule(ctx context.Context, peer, addr string, job time.Duration, ticks int) (Runs, error) {
	f, err := newFleet()
	if err != nil {
		return nil, err
	}
	defer f.close()
	first := board.Now() + int64(3*time.Second) // when all members are up
	for i := range size {
		if _, err := f.join(task{Peer: peer, Addr: addr, Job: job, Start: first + int64(i)*int64(stagger)}); err != nil {
			return nil, err
		}
	}
	runs := make(Runs, ticks)
	end := time.NewTimer(time.Until(board.Time(first).Add(time.Duration(ticks)*period + period/2)))
	defer end.Stop()
	for over := false; !over; {
		select {
		case e := <-f.heard:
			if e.What == failed {
				return nil, fmt.Errorf("%s: %s", peer, e.Text)
			}
			if at := (e.At - first + int64(early)) / int64(period); at >= 0 && at < int64(ticks) {
				runs[at]++
			}
		case <-end.C:
			over = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return runs, nil
}

// SchedulerPeers are the lockers that Schedule knows, the first ours.
func SchedulerPeers() []string { return []string{"relockgocron", "gocron-redis-lock"} }

// ElectionPeers are the elections that Elect knows, the first ours.
func ElectionPeers() []string { return []string{"relock", "etcd"} }
