package relock

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/tools/floors"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// waits has p wait in the background, until Redis has it in line, and returns where the lease will come.
func (p *Pair) waits(t *testing.T, s *redistest.Server, line int) <-chan *Lease {
	t.Helper()
	got := make(chan *Lease, 1)
	go func() {
		l, err := p.Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	want := strconv.Itoa(line)
	require.Eventually(t, func() bool { return s.Do("ZCARD", p.names.Queue) == want }, patience, time.Millisecond)
	return got
}

// holds takes p, which is free.
func (p *Pair) holds(t *testing.T) *Lease {
	t.Helper()
	l, err := p.TryLock(t.Context())
	require.NoError(t, err)
	return l
}

// inboxHeard waits until c hears its inbox.
func inboxHeard(t *testing.T, s *redistest.Server, c *Client) {
	t.Helper()
	inbox := wire.InboxPrefix + c.ID()
	require.Eventually(t, func() bool { return s.Do("PUBSUB", "NUMSUB", inbox) == inbox+"\n1" }, patience, time.Millisecond)
}

// TestPair: two hold, of one process or of two; a third waits, hears that it may have the lock, and both who hold hear that it
// is wanted.
func TestPair(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client(), WithLease(time.Minute))
	d := newClient(t, s.Client(), WithLease(10*time.Minute)) // with polls so far apart, it has to be told
	one, two := a.Pair("k", 1).holds(t), b.Pair("k", 1).holds(t)
	require.NotEqual(t, one.Token(), two.Token())
	_, err := d.Pair("k", 1).TryLock(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired)
	third := d.Pair("k", 1).waits(t, s, 1)
	within(t, one.Wanted())
	within(t, two.Wanted())
	st, err := a.Pair("k", 1).State(t.Context())
	require.NoError(t, err)
	require.True(t, st.Held)
	require.Equal(t, 2, st.Count)
	require.Equal(t, 1, st.Waiters)
	require.Positive(t, st.TTL)
	require.LessOrEqual(t, st.TTL, defaultLease, "the lease that ends first")

	unlocked(t, one)
	l := within(t, third)
	require.Greater(t, l.Token(), two.Token())
	unlocked(t, two, l)

	var leases []*Lease
	for range 2 {
		leases = append(leases, a.Pair("k", 1).holds(t))
	}
	third = a.Pair("k", 1).waits(t, s, 1)
	unlocked(t, leases[1])
	unlocked(t, leases[0], within(t, third))
	require.Equal(t, "0", s.Do("EXISTS", "k", "relock_pair:{k}:k", "relock_pairs:{k}"))
	for _, c := range []*Client{a, b, d} {
		require.Zero(t, c.core.arbiter.Nodes()[0].Debug().Hub.Skipped())
		require.Zero(t, c.core.gates.Len())
	}
}

// One who waits for both parts gets them once both are free, and nobody overtakes it.
func TestPairAmount(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	one := a.Pair("k", 1).holds(t)
	both := b.Pair("k", 2).waits(t, s, 1)
	inboxHeard(t, s, b) // a waiter whose client listens not yet is taken for dead, and comes back once it does
	_, err := a.Pair("k", 1).TryLock(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired, "it would overtake")
	behind := a.Pair("k", 1).waits(t, s, 2)
	unlocked(t, one)
	l := within(t, both)
	require.Empty(t, behind)
	require.Equal(t, "2", strings.Split(s.Do("HGET", "k", "relock:"+l.h.entry.ID), ":")[0])
	unlocked(t, l)
	unlocked(t, within(t, behind))
}

// Callers that want different amounts have places of their own: none inherits another's.
func TestPairInheritsNoOtherAmount(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	both := a.Pair("k", 2).holds(t)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := b.Pair("k", 1).Lock(ctx)
		gaveUp <- err
	}()
	p := b.Pair("k", 2)
	require.Eventually(t, func() bool { return s.Do("ZCARD", p.names.Queue) == "1" }, patience, time.Millisecond)
	behind := p.waits(t, s, 2)
	cancel()
	require.ErrorIs(t, within(t, gaveUp), context.Canceled)
	unlocked(t, both)
	l := within(t, behind)
	_, err := a.Pair("k", 1).TryLock(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired)
	unlocked(t, l)
}

// A hand-over tells its winner alone, unless others may fit beside a whole batch of them.
func TestPairHandsOverToOne(t *testing.T) {
	s := redistest.Start(t)
	a, b, c := newClient(t, s.Client()), newClient(t, s.Client()), newClient(t, s.Client(), WithLease(10*time.Minute))
	one, two := a.Pair("k", 1).holds(t), a.Pair("k", 1).holds(t)
	second := b.Pair("k", 1).waits(t, s, 1)
	third := c.Pair("k", 1).waits(t, s, 2)
	heard := make(chan string, 10)
	channel, beside := "relock_pair_free:{k}", "relock_pair_listen:{k}" // who has the first alone is taken for Redisson
	go func() {
		_ = s.Client().Receive(t.Context(), s.Client().B().Subscribe().Channel(beside, channel).Build(),
			func(m rueidis.PubSubMessage) { heard <- m.Message })
	}()
	require.Eventually(t, func() bool { return s.Do("PUBSUB", "NUMSUB", channel) == channel+"\n3" }, patience, time.Millisecond)
	unlocked(t, one)
	within(t, second)
	s.Do("PUBLISH", channel, "marker")
	require.Equal(t, "marker", within(t, heard))
	unlocked(t, two)
	unlocked(t, within(t, third))
}

// A lease is re-entered under its context, each hold by itself.
func TestPairReentry(t *testing.T) {
	s := redistest.Start(t)
	p := newClient(t, s.Client()).Pair("k", 1)
	one, two := p.holds(t), p.holds(t)
	inner, err := p.Lock(one.Context())
	require.NoError(t, err)
	require.Equal(t, 2, inner.Count())
	require.Equal(t, 1, two.Count())
	require.Equal(t, "2", s.Do("HGET", "k", one.h.entry.ID))
	unlocked(t, inner, one, two)
}

// A lease of one part is not entered by a caller that wants both: it would believe that it has them.
func TestPairIsNotEnteredForMore(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	one, both := c.Pair("k", 1).holds(t), c.Pair("both", 2).holds(t)
	for _, lock := range []func(context.Context) (*Lease, error){c.Pair("k", 2).Lock, c.Pair("k", 2).TryLock} {
		_, err := lock(one.Context())
		require.ErrorIs(t, err, ErrMisuse)
	}
	inner, err := c.Pair("both", 1).Lock(both.Context())
	require.NoError(t, err)
	unlocked(t, inner, one, both)
}

// The locks a and {a} have one hash tag, and nothing else of the kind's in common.
func TestPairsOfOneTag(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	both, other := c.Pair("k", 2).holds(t), c.Pair("{k}", 2).holds(t)
	freed, err := c.Pair("{k}", 2).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	_, err = c.Pair("k", 1).TryLock(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired)
	unlocked(t, both)
	within(t, other.Context().Done())
}

// Two hundred leases are renewed with one command, by the kind's own hook, and a lost one is noticed.
func TestPairRenewal(t *testing.T) {
	s := redistest.Start(t)
	tap := faulty(s)
	c := newClient(t, tap, WithLease(10*time.Minute)) // it renews nothing by itself meanwhile
	ends := func(name string, l *Lease) float64 {
		at, err := strconv.ParseFloat(s.Do("ZSCORE", "relock_pair:{"+name+"}:"+name, l.h.entry.ID), 64)
		require.NoError(t, err)
		return at
	}
	const locks = 200
	var leases [locks]*Lease
	var granted [locks]float64
	var batch []claim.Renewal
	for i := range leases {
		name := "k" + strconv.Itoa(i)
		leases[i] = c.Pair(name, 1).holds(t)
		granted[i] = ends(name, leases[i])
		batch = append(batch, claim.Renewal{Claim: leases[i].h.claim, Lease: 20 * time.Minute})
	}
	var words []int
	tap.Filter(func(call *faults.Call) faults.Fate {
		if call.ScriptName() == "renew" {
			words = append(words, len(call.Words))
		}
		return faults.Pass
	})
	results := make(chan wire.Result, locks)
	c.core.arbiter.Renew(t.Context(), batch, func(_ int, got wire.Result, _ clock.Stamp, _ error) { results <- got })
	for i, l := range leases {
		require.Equal(t, wire.Renewed, within(t, results))
		require.Greater(t, ends("k"+strconv.Itoa(i), l), granted[i]+9*60e3)
	}
	require.Equal(t, []int{3 + locks*(6+3)}, words, "one command, with six keys and three arguments for each")

	inboxHeard(t, s, c)
	lost := leases[7]
	s.Do("HDEL", "k7", lost.h.entry.ID)
	s.Do("PUBLISH", wire.InboxPrefix+c.ID(), "0 0 "+lost.h.entry.ID+" 0 k7") // which makes the holder ask
	within(t, lost.Context().Done())
	require.ErrorIs(t, context.Cause(lost.Context()), ErrLost)
}

// ForceUnlock ends both, tells them, and lets in who waits.
func TestPairForceUnlock(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	one, two := a.Pair("k", 1).holds(t), b.Pair("k", 1).holds(t)
	next, last := a.Pair("k", 1).waits(t, s, 1), b.Pair("k", 1).waits(t, s, 2)
	freed, err := b.Pair("k", 1).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	for _, l := range []*Lease{one, two} {
		within(t, l.Context().Done())
		require.ErrorIs(t, context.Cause(l.Context()), ErrLost)
	}
	unlocked(t, within(t, next), within(t, last))
	freed, err = b.Pair("k", 1).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.False(t, freed)
}

// A grant that nobody waits for any more is ended as the kind ends one, and so is an entry whose caller gave up. What a
// dead client held counts no more when its lease is over.
func TestPairOrphans(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	kept := other.Pair("k", 1).holds(t)
	id := c.ID() + ":99"
	unlocked(t, c.Pair("warm", 1).holds(t)) // the inbox is subscribed
	inboxHeard(t, s, c)
	ends := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
	s.Do("HSET", "k", id, "1", "relock:"+id, "1:5:1")
	s.Do("ZADD", "relock_pair:{k}:k", ends, id)
	s.Do("PUBLISH", wire.InboxPrefix+c.ID(), "5:1 30000:pair "+id+" 0 k")
	require.Eventually(t, func() bool { return s.Do("ZSCORE", "relock_pair:{k}:k", id) == "" }, patience, time.Millisecond)
	require.Equal(t, "1", s.Do("HEXISTS", "k", kept.h.entry.ID))

	second := other.Pair("k", 1).holds(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.Pair("k", 1).Lock(ctx)
		failed <- err
	}()
	require.Eventually(t, func() bool { return s.Do("ZCARD", "relock_pairs:{k}") == "1" }, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, within(t, failed), context.Canceled)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "relock_pairs:{k}") == "0" }, patience, time.Millisecond)
	unlocked(t, second)

	s.Do("HSET", "k", "dead:1", "1", "relock:dead:1", "1:5:1")
	s.Do("ZADD", "relock_pair:{k}:k", strconv.FormatInt(time.Now().Add(300*time.Millisecond).UnixMilli(), 10), "dead:1")
	l, err := c.Pair("k", 1).Lock(t.Context())
	require.NoError(t, err)
	unlocked(t, l, kept)
}

// Locks of the kind that are asked for at one moment go as one command.
func TestPairsGoTogether(t *testing.T) {
	s := redistest.Start(t)
	tap := faulty(s)
	c := newClient(t, tap)
	unlocked(t, c.Pair("warm", 1).holds(t))
	leases, errs := faults.Together(t, tap, func(name string) (*Lease, error) { return c.Pair(name, 1).Lock(t.Context()) })
	for i, err := range errs {
		require.NoError(t, err)
		require.Equal(t, "1", s.Do("ZCARD", fmt.Sprintf("relock_pair:{lock-%[1]d}:lock-%[1]d", i)))
	}
	var wg sync.WaitGroup
	for i, l := range leases {
		wg.Go(func() { errs[i] = l.Unlock(context.Background()) })
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(t, err)
		require.Equal(t, "0", s.Do("EXISTS", fmt.Sprintf("lock-%d", i)))
	}
}

// A right to the kind's own key that is missing is told before anything is held.
func TestPairRights(t *testing.T) {
	s := redistest.Start(t)
	if major, _, valkey := s.Version(); major < 7 && !valkey {
		t.Skip("scripts cannot ask for rights before Redis 7")
	}
	rdb, err := redistest.Open(s.AddUser("app", "secret", "~*", "+@all", "-zrem", "allchannels"))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	_, err = newClient(t, rdb).Pair("k", 1).TryLock(t.Context())
	require.ErrorContains(t, err, "run the 'zrem' command on relock_pair:{k}:k")
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

// A quorum has no shared kinds.
func TestPairOnAQuorum(t *testing.T) {
	c, err := NewRedlock([]rueidis.Client{ownRedis(t)})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Pair("k", 1).TryLock(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.EqualError(t, err, "relock: not supported: a pair over a quorum of nodes")
}

// TestASecondKind: the library names the mutex's kind where that is defined and in the constructor, and nowhere else: what is
// written for all kinds must not hold for the mutex alone. TestPair shows that another kind works.
func TestASecondKind(t *testing.T) {
	own := []string{wire.Mutex.Name, wire.Mutex.Queue, wire.Mutex.Line, wire.Mutex.Counter, wire.Mutex.Channel.Unlock, wire.Mutex.Channel.Listen}
	files := token.NewFileSet()
	looked := 0
	for _, dir := range floors.Order {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") || path == "client.go" || path == "internal/wire/kind.go" {
				continue
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			require.NoError(t, err)
			looked++
			for _, at := range namesOfKind(file, own) {
				t.Errorf("%s names the mutex, which holds for no other kind", files.Position(at))
			}
		}
	}
	require.Greater(t, looked, 70)

	named := regexp.MustCompile(`\b(mutex|redisson)`)
	scripts, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	require.Greater(t, len(scripts), 30)
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			code, _, _ := strings.Cut(line, "--")
			require.NotRegexp(t, named, code, path)
		}
	}
}

// TestHoldsAskTheirKindOnce: what a kind decides of its holds is their manner. One function chooses it, and one more asks what else
// a kind can do, when a lock is made. Nothing else asks a kind for more than its name, nor a manner which one it is, and only the
// manners' own files make one. So too, one place writes what became of a hold.
func TestHoldsAskTheirKindOnce(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	asked := map[string]bool{"Shared": true}
	for field := range reflect.TypeFor[wire.Kind]().Fields() {
		asked[field.Name] = field.Name != "Name" && field.Name != "Nr"
	}
	files := token.NewFileSet()
	var asks, made []string
	var askedBack, fates []token.Position
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		require.NoError(t, err)
		note := func(found *[]token.Position, field string, of ast.Expr) {
			if of, is := of.(*ast.SelectorExpr); is && of.Sel.Name == field {
				*found = append(*found, files.Position(of.Pos()))
			}
		}
		in := ""
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				in = n.Name.Name
			case *ast.SelectorExpr:
				if asked[n.Sel.Name] && strings.EqualFold(nameOf(n.X), "kind") && path != "severally.go" {
					asks = append(asks, in+" "+n.Sel.Name)
				}
			case *ast.CompositeLit:
				switch of := nameOf(n.Type); of {
				case "exclusively", "severally", "jointly", "singly":
					made = append(made, in+" "+of)
				}
			case *ast.TypeAssertExpr:
				note(&askedBack, "manner", n.X)
			case *ast.BinaryExpr:
				note(&askedBack, "manner", n.X)
				note(&askedBack, "manner", n.Y)
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					note(&fates, "fate", to)
				}
			}
			return true
		})
	}
	require.ElementsMatch(t, []string{"mannerOf Joint", "mannerOf Shared", "newLock Quorum", "newLock MinHold", "HandOver Moves"}, asks)
	require.ElementsMatch(t, []string{"mannerOf jointly", "mannerOf severally", "mannerOf exclusively", "runs singly"}, made)
	require.Empty(t, askedBack)
	require.Len(t, fates, 1)
}

// nameOf is the name, or the last part of it, that an expression is.
func nameOf(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return of.Sel.Name
	}
	return ""
}

// namesOfKind returns where a file names the mutex's kind, or what is the mutex's own.
func namesOfKind(file *ast.File, own []string) (found []token.Pos) {
	fields := make(map[*ast.Ident]bool) // of something: sync.Mutex
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			of, _ := n.X.(*ast.Ident)
			if fields[n.Sel] = true; of != nil && of.Name == "wire" && n.Sel.Name == "Mutex" {
				found = append(found, n.Pos())
			}
		case *ast.Ident:
			if file.Name.Name == "wire" && n.Name == "Mutex" && !fields[n] {
				found = append(found, n.Pos())
			}
		case *ast.BasicLit:
			for _, text := range own {
				if n.Kind == token.STRING && strings.HasPrefix(strings.Trim(n.Value, "\"`"), text) {
					found = append(found, n.Pos())
				}
			}
		}
		return true
	})
	return found
}

// A name has one kind of lock.
func TestKindsDoNotMix(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	rw, m := c.RWMutex("k"), c.Mutex("k")
	requireWrong := func(lock func(context.Context) (*Lease, error), says string) {
		t.Helper()
		_, err := lock(t.Context())
		require.ErrorIs(t, err, ErrWrongKind)
		require.ErrorContains(t, err, says)
	}
	l := taken(t, m.Lock)
	for _, lock := range []func(context.Context) (*Lease, error){rw.Lock, rw.TryLock, rw.RLock, rw.TryRLock} {
		requireWrong(lock, "what is held by that name is no read-write lock")
	}
	unlocked(t, l)
	for _, lock := range []func(context.Context) (*Lease, error){rw.RLock, rw.Lock} {
		l := taken(t, lock)
		requireWrong(m.Lock, "a read-write lock is held by that name")
		requireWrong(m.TryLock, "one name has one kind of lock")
		unlocked(t, l)
	}
	s.Do("SET", "k", "1")
	requireWrong(rw.Lock, "WRONGTYPE")
	requireWrong(m.Lock, "WRONGTYPE")
	s.Do("DEL", "k")
	requireNothingLeft(t, s)
}

// A mutex is refused where a writer of the same name holds, also by a client that has made many entries: the field of its writer
// is longer than 64 bytes, and Redis does not keep such a hash in the order in which it was written.
func TestKindsDoNotMixInAnyOrder(t *testing.T) {
	c := hearing(t, redistest.Start(t))
	c.core.count.Store(100_000)
	for i := range 20 {
		name := "k" + strconv.Itoa(i)
		w := taken(t, c.RWMutex(name).Lock)
		_, err := c.Mutex(name).TryLock(t.Context())
		require.ErrorIs(t, err, ErrWrongKind)
		unlocked(t, w)
	}
}

// A Mutex neither frees a read-write lock of its name, whose writer would not be told, nor says that it is free.
func TestAMutexRefusesToForceAReadWriteLock(t *testing.T) {
	s := redistest.Start(t)
	w := taken(t, hearing(t, s).RWMutex("k").Lock)
	m := newClient(t, s.Client()).Mutex("k")
	_, err := m.State(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
	_, err = m.ForceUnlock(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
	require.NoError(t, w.Context().Err())
	unlocked(t, w)
}

// No owner is called mode, but an older client may have let one be: that mutex is no read-write lock.
func TestAFieldNamedModeIsNoMode(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	s.Do("HSET", "k", "mode", "1")
	_, err := c.RWMutex("k").TryRLock(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
	_, err = c.RWMutex("k").TryLock(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
}
