package interop

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// load is what the load command does in either language: increment a number by reading it and writing it back under the
// lock, in several threads, and write a journal. Permits are many at a time: there the number is how many are held, by the
// account of those that hold them.
type load struct {
	which    string // kind:name, rw:percent:name or permits:k:name
	counter  string // key of the number, "" for none
	threads  int
	rounds   int           // of each thread; 0: no bound
	duration time.Duration // 0: no bound
}

// args are the arguments of the load command.
func (l load) args(journal string) []string {
	return []string{
		l.which, l.counter, strconv.Itoa(l.threads), strconv.Itoa(l.rounds),
		strconv.FormatInt(l.duration.Milliseconds(), 10), journal,
	}
}

func parseLoad(args []string) (l load, journal string, err error) {
	if len(args) != 6 {
		return l, "", fmt.Errorf("load has %d arguments", len(args))
	}
	var n [3]int
	for i := range n {
		if n[i], err = strconv.Atoi(args[2+i]); err != nil {
			return l, "", err
		}
	}
	l = load{which: args[0], counter: args[1], threads: n[0], rounds: n[1]}
	l.duration = time.Duration(n[2]) * time.Millisecond
	return l, args[5], nil
}

// entry is one holding of the lock. locked and unlocking were taken inside of it.
type entry struct {
	who                      string
	token                    int64 // of permits: how many were held, this one's with them
	asked, locked, unlocking int64 // microseconds
}

func (e entry) wait() time.Duration { return time.Duration(e.locked-e.asked) * time.Microsecond }

// run is the Go side of the load command. It returns the entries of all threads.
func (l load) run(ctx context.Context, locks *relock.Client, rdb rueidis.Client) ([]entry, error) {
	kind, name, _ := strings.Cut(l.which, ":")
	round := func(ctx context.Context) (entry, error) { return l.increment(ctx, locks.Mutex(name).Lock, rdb) }
	switch kind {
	case "rw":
		round = l.readOrWrite(locks, rdb)
	case "permits":
		round = l.take(locks, rdb)
	case "multi":
		round = l.all(locks, rdb)
	}
	began := time.Now()
	entries, errs := make([][]entry, l.threads), make([]error, l.threads)
	var wg sync.WaitGroup
	for i := range l.threads {
		wg.Go(func() {
			for n := 0; errs[i] == nil && (l.rounds == 0 || n < l.rounds); n++ {
				if l.duration > 0 && time.Since(began) >= l.duration {
					return
				}
				var e entry
				e, errs[i] = round(ctx)
				entries[i] = append(entries[i], e)
			}
		})
	}
	wg.Wait()
	return slices.Concat(entries...), errors.Join(errs...)
}

// readOrWrite is a round of the kind rw:percent:name: so many of a hundred read.
func (l load) readOrWrite(locks *relock.Client, rdb rueidis.Client) func(context.Context) (entry, error) {
	_, rest, _ := strings.Cut(l.which, ":")
	percent, name, _ := strings.Cut(rest, ":")
	n, err := strconv.Atoi(percent)
	rw := locks.RWMutex(name)
	reads := load{}
	return func(ctx context.Context) (entry, error) {
		if err != nil {
			return entry{}, err
		}
		if rand.IntN(100) < n {
			e, err := reads.increment(ctx, rw.RLock, rdb)
			e.token = 0
			return e, err
		}
		e, err := l.increment(ctx, rw.Lock, rdb)
		e.token = 1
		return e, err
	}
}

// noSize is the size that Go would make a semaphore with: far more than any that these tests make.
const noSize = 1000

// take is a round of the kind permits:k:name.
func (l load) take(locks *relock.Client, rdb rueidis.Client) func(context.Context) (entry, error) {
	_, rest, _ := strings.Cut(l.which, ":")
	many, name, _ := strings.Cut(rest, ":")
	k, err := strconv.Atoi(many)
	sem := locks.Semaphore(name, noSize)
	return func(ctx context.Context) (entry, error) {
		if err != nil {
			return entry{}, err
		}
		e := entry{asked: time.Now().UnixMicro()}
		permit, err := sem.Acquire(ctx, k)
		if err != nil {
			return e, err
		}
		e.locked = time.Now().UnixMicro()
		if e.token, err = rdb.Do(ctx, rdb.B().Incrby().Key(l.counter).Increment(int64(k)).Build()).AsInt64(); err != nil {
			return e, err
		}
		e.unlocking = time.Now().UnixMicro()
		if err := rdb.Do(ctx, rdb.B().Decrby().Key(l.counter).Decrement(int64(k)).Build()).Error(); err != nil {
			return e, err
		}
		return e, permit.Unlock(ctx)
	}
}

// all is a round of the kind multi:kind:name,kind:name of mutexes.
func (l load) all(locks *relock.Client, rdb rueidis.Client) func(context.Context) (entry, error) {
	_, rest, _ := strings.Cut(l.which, ":")
	var parts []relock.Locker
	for _, one := range strings.Split(rest, ",") {
		_, name, _ := strings.Cut(one, ":")
		parts = append(parts, locks.Mutex(name))
	}
	all := relock.All(parts...)
	return func(ctx context.Context) (entry, error) {
		e := entry{asked: time.Now().UnixMicro()}
		lease, err := all.Lock(ctx)
		if err != nil {
			return e, err
		}
		e.locked = time.Now().UnixMicro()
		if err := l.count(ctx, rdb); err != nil {
			return e, err
		}
		e.unlocking = time.Now().UnixMicro()
		return e, lease.Unlock(ctx)
	}
}

func (l load) increment(ctx context.Context, lock func(context.Context) (*relock.Lease, error), rdb rueidis.Client) (entry, error) {
	e := entry{asked: time.Now().UnixMicro()}
	lease, err := lock(ctx)
	if err != nil {
		return e, err
	}
	e.token, e.locked = lease.Token(), time.Now().UnixMicro()
	if err := l.count(ctx, rdb); err != nil {
		return e, err
	}
	e.unlocking = time.Now().UnixMicro()
	return e, lease.Unlock(ctx)
}

// count reads the number, if there is one, and writes it back greater by one.
func (l load) count(ctx context.Context, rdb rueidis.Client) error {
	if l.counter == "" {
		return nil
	}
	n, err := rdb.Do(ctx, rdb.B().Get().Key(l.counter).Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return rdb.Do(ctx, rdb.B().Set().Key(l.counter).Value(strconv.FormatInt(n+1, 10)).Build()).Error()
}

// writeJournal writes entries as Redisson's side writes them.
func writeJournal(path string, entries []entry) error {
	var text strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&text, "%d\t%d\t%d\t%d\n", e.token, e.asked, e.locked, e.unlocking)
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

func readJournal(t testing.TB, who, path string) (entries []entry) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		e := entry{who: who}
		_, err := fmt.Sscan(lines.Text(), &e.token, &e.asked, &e.locked, &e.unlocking)
		require.NoError(t, err)
		entries = append(entries, e)
	}
	return entries
}

// runLoads runs each language's load in all its peers and returns the entries in the order of the holdings. The lock is
// held back until every process waits for it.
func runLoads(t testing.TB, s site, server *redistest.Server, loads map[string]load, peers map[string][]*peer) []entry {
	t.Helper()
	_, name, _ := strings.Cut(loads[java].which, ":")
	barrier, err := s.locks(t).Mutex(name).Lock(t.Context())
	require.NoError(t, err)
	return runBehind(t, s, server, loads, peers, func() error { return barrier.Unlock(t.Context()) }, channelOf(name))
}

// runBehind does so with a barrier of the caller's, which ends when every process listens to one of the channels.
func runBehind(
	t testing.TB, s site, server *redistest.Server, loads map[string]load, peers map[string][]*peer, open func() error, channels ...string,
) []entry {
	t.Helper()
	type run struct {
		who, path string
		answer    <-chan answer
	}
	var runs []run
	for who, group := range peers {
		for i, p := range group {
			path := fmt.Sprintf("%s/%s%d", t.TempDir(), who, i)
			runs = append(runs, run{who, path, p.Go("load", "load", loads[who].args(path)...)})
		}
	}
	subscribed := "NUMSUB"
	if s.Kind == cluster {
		subscribed = "SHARDNUMSUB"
	}
	eventually(t, "waiters in all processes", func() bool {
		listen := 0
		for _, channel := range channels {
			_, n, _ := strings.Cut(server.Do("PUBSUB", subscribed, channel), "\n")
			more, _ := strconv.Atoi(n)
			listen += more
		}
		return listen == len(runs)
	})
	require.NoError(t, open())
	var entries []entry
	for _, r := range runs {
		require.NoError(t, await(t, r.answer).err, r.who)
		entries = append(entries, readJournal(t, r.who, r.path)...)
	}
	slices.SortFunc(entries, order)
	return entries
}

// order is the order of holdings, however many of them fall into one microsecond. Those that do not overlap have no
// other order: of two that began at once, the one that ended first came first, and where both ended at once too, the
// one with the lower token.
func order(a, b entry) int {
	return cmp.Or(cmp.Compare(a.locked, b.locked), cmp.Compare(a.unlocking, b.unlocking), cmp.Compare(a.token, b.token))
}

// requireExclusive fails the test when two holdings overlap on the machine's clock.
func requireExclusive(t testing.TB, entries []entry) {
	t.Helper()
	for i := 1; i < len(entries); i++ {
		require.False(t, overlap(entries[i-1], entries[i]), "held at once: %+v and %+v", entries[i-1], entries[i])
	}
}

// overlap reports whether a holding began before the one ahead of it in the order had ended.
func overlap(before, after entry) bool { return after.locked < before.unlocking }

// Holdings of one microsecond are put in the order in which they were, whatever the order they come in, and two that
// overlap are found among them.
func TestOrderOfHoldings(t *testing.T) {
	right := []entry{
		{token: 1, locked: 7, unlocking: 9},
		{token: 2, locked: 9, unlocking: 9},
		{token: 3, locked: 9, unlocking: 9},
		{token: 4, locked: 9, unlocking: 10},
		{token: 5, locked: 10, unlocking: 12},
	}
	for range 100 {
		entries := slices.Clone(right)
		rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		slices.SortFunc(entries, order)
		require.Equal(t, right, entries)
		requireExclusive(t, entries)
	}
	for _, crossing := range []entry{{locked: 8, unlocking: 8}, {locked: 8, unlocking: 11}, {locked: 11, unlocking: 11}} {
		entries := append(slices.Clone(right), crossing)
		slices.SortFunc(entries, order)
		found := false
		for i := 1; i < len(entries); i++ {
			found = found || overlap(entries[i-1], entries[i])
		}
		require.True(t, found, "%+v", crossing)
	}
}
