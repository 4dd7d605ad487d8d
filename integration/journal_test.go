//go:build unix

package integration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// now reads the clock that all processes of this machine share.
func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// What a worker writes into its journal.
const (
	ready     = "ready"     // the client is made; note: its id
	want      = "want"      // Lock is about to be called
	granted   = "granted"   // Lock returned a lease
	gaveUp    = "gave-up"   // Lock ended because the worker was told to stop
	failed    = "failed"    // what may not happen happened; note: what
	trusted   = "trusted"   // at this instant the lease was valid; see the package's spans
	lost      = "lost"      // the lease's context was seen to be done
	unlocking = "unlocking" // Unlock is about to be called
	unlocked  = "unlocked"  // Unlock returned; note: ok, lost or unanswered
	resigning = "resigning" // Resign is about to be called
)

// reads is the note of what a reader wrote that was granted, or trusted its lease.
const reads = "reads"

// event is one entry of a journal.
type event struct {
	at    time.Duration
	kind  string
	who   string // worker and goroutine
	lock  string
	token int64
	note  string
}

func (e event) String() string {
	return fmt.Sprintf("%d %s %s %s %d %s", e.at, e.kind, e.who, e.lock, e.token, strings.ReplaceAll(e.note, "\n", "; "))
}

// parseEvent reads what String wrote.
func parseEvent(line string) (e event, err error) {
	parts := strings.SplitN(line, " ", 6)
	if len(parts) != 6 {
		return e, fmt.Errorf("journal entry %q of %d parts", line, len(parts))
	}
	at, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return e, err
	}
	e = event{at: time.Duration(at), kind: parts[1], who: parts[2], lock: parts[3], note: parts[5]}
	e.token, err = strconv.ParseInt(parts[4], 10, 64)
	return e, err
}

// journal gathers what all workers of a test write.
type journal struct {
	mu     sync.Mutex
	events []event       // guarded by mu
	passed int           // guarded by mu; await does not look at so many of the oldest
	grown  chan struct{} // guarded by mu; closed with the next entry
}

func newJournal() *journal { return &journal{grown: make(chan struct{})} }

func (j *journal) add(e event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
	close(j.grown)
	j.grown = make(chan struct{})
}

// all returns the entries so far in the order of their time.
func (j *journal) all() []event {
	j.mu.Lock()
	defer j.mu.Unlock()
	events := slices.Clone(j.events)
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	return events
}

// last returns the newest entry of a kind, looking back as far as to entries made before since.
func (j *journal) last(kind string, since time.Duration) (event, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range slices.Backward(j.events) {
		if e.at < since {
			break
		}
		if e.kind == kind {
			return e, true
		}
	}
	return event{}, false
}

// pass makes await look at the newest entries alone, so many of them, and at those to come.
func (j *journal) pass(newest int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.passed = max(j.passed, len(j.events)-newest)
}

// count returns how many entries of a kind there are.
func (j *journal) count(kind string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.events {
		if j.events[i].kind == kind {
			n++
		}
	}
	return n
}

// await returns the first entry that was made at since or later and is as wanted. It fails the test when there is none
// within limit.
func (j *journal) await(t *testing.T, limit, since time.Duration, what string, wanted func(event) bool) event {
	t.Helper()
	timeout := time.After(limit)
	j.mu.Lock()
	seen := j.passed
	j.mu.Unlock()
	for {
		j.mu.Lock()
		events, grown := j.events[seen:], j.grown
		seen = len(j.events)
		j.mu.Unlock()
		if i := slices.IndexFunc(events, func(e event) bool { return e.at >= since && wanted(e) }); i >= 0 {
			return events[i]
		}
		select {
		case <-grown:
		case <-timeout:
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// kind matches entries of one kind about one lock.
func kind(k, lock string) func(event) bool {
	return func(e event) bool { return e.kind == k && e.lock == lock }
}

// only returns the entries that match.
func only(events []event, wanted func(event) bool) []event {
	return slices.DeleteFunc(slices.Clone(events), func(e event) bool { return !wanted(e) })
}
