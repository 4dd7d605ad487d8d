package suite_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// finer are the sentinels within each class.
var finer = map[error][]error{
	relock.ErrNotAcquired: nil,
	relock.ErrUnavailable: {relock.ErrNotAsked},
	relock.ErrRefused:     {relock.ErrWrongKind},
	relock.ErrLost:        {relock.ErrMaxHold},
	relock.ErrMisuse: {relock.ErrNotHeld, relock.ErrHandedOver, relock.ErrUpgrade, relock.ErrTooMany, relock.ErrTooLarge, relock.ErrInvalidName, relock.ErrInvalidOwner, relock.ErrInvalidOption,
		relock.ErrInvalidNodes},
	relock.ErrClosed:      nil,
	errors.ErrUnsupported: nil,
}

// The table of classes above has each exported error, with the class that it matches and that docs/errors.md says.
func TestFinerHasEveryError(t *testing.T) {
	t.Parallel()
	for class, within := range finer {
		for _, err := range append(within, class) {
			requireClass(t, class, err)
		}
	}

	said := make(map[string]string) // the class of each, by name
	row := regexp.MustCompile("(?m)^\\| ((?:`[\\w.]*Err\\w+`(?:, )?)+) \\| (?:`([\\w.]+)` \\|)?")
	for _, cells := range row.FindAllStringSubmatch(textOf(t, "../../docs/errors.md"), -1) {
		for name := range strings.SplitSeq(strings.ReplaceAll(cells[1], "`", ""), ", ") {
			require.NotContains(t, said, name, "twice in docs/errors.md")
			said[name] = cmp.Or(cells[2], name)
		}
	}
	_, table, found := strings.Cut(textOf(t, "classes_test.go"), "\nvar finer = map[error][]error{\n")
	require.True(t, found)
	table, _, _ = strings.Cut(strings.ReplaceAll(table, "relock.", ""), "\n}\n")
	has := make(map[string]string)
	for _, cells := range regexp.MustCompile(`([\w.]+):\s+(?:nil|\{([^}]*)\}),`).FindAllStringSubmatch(table, -1) {
		for _, name := range append(regexp.MustCompile(`\w+`).FindAllString(cells[2], -1), cells[1]) {
			has[name] = cells[1]
		}
	}
	require.Equal(t, said, has, "docs/errors.md, and the table above")

	exported := []string{"errors.ErrUnsupported"} // the standard library's
	file, err := parser.ParseFile(token.NewFileSet(), "../../errors.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if v, is := n.(*ast.ValueSpec); is {
			for _, name := range v.Names {
				if strings.HasPrefix(name.Name, "Err") {
					exported = append(exported, name.Name)
				}
			}
		}
		return true
	})
	require.ElementsMatch(t, exported, slices.Collect(maps.Keys(has)))
}

// requireClass demands that err is of that class alone: it matches neither another class nor what is finer in another.
func requireClass(t *testing.T, class, err error, what ...any) {
	t.Helper()
	said := fmt.Sprint(append(what, ": ", fmt.Sprintf("%T ", err), err)...)
	require.Error(t, err, said)
	require.Contains(t, finer, class, said)
	for other, within := range finer {
		require.Equal(t, other == class, errors.Is(err, other), "%v, of %s", other, said)
		for _, within := range within {
			if other != class {
				require.NotErrorIs(t, err, within, said)
			}
		}
	}
	require.NotEmpty(t, err.Error())
	require.NotErrorIs(t, err, errNowhere, said)
}

// Errors of no class: a caller's own, and one that nothing matches.
var (
	errNowhere = errors.New("nowhere")

	errOwn      = errors.New("the caller's own")
	errOwnTyped = &net.AddrError{Err: "the caller's own"}
)

// causes of an error: the caller's own, and errors of the library by their classes, as callers may hand them on.
func causesOfWaits() map[error]error {
	held := &relock.HeldError{Name: "other", Cause: errOwn}
	return map[error]error{
		nil: nil, errOwn: nil, errOwnTyped: nil, context.Canceled: nil, context.DeadlineExceeded: nil, wire.ErrWaited: nil,
		errors.ErrUnsupported: nil, // another library's, that only says the same
		syscall.ENOTSUP:       nil,
		relock.ErrLost:        relock.ErrLost, relock.ErrMaxHold: relock.ErrLost, relock.ErrClosed: relock.ErrClosed, relock.ErrNotHeld: relock.ErrMisuse, wire.Unsupported: errors.ErrUnsupported,
		held: relock.ErrNotAcquired, &relock.NodeError{Op: "acquire", Err: errOwn}: relock.ErrUnavailable, outward(&wire.NodeError{Err: reply("WRONGTYPE")}): relock.ErrRefused,
		&relock.QuorumError{Need: 1, Of: 1, Nodes: []*relock.NodeError{{Node: 1, Err: errOwn}}}: relock.ErrUnavailable,
		&relock.HeldError{Name: "other", Cause: relock.ErrLost}:                                 relock.ErrLost,
		fmt.Errorf("wrapped: %w", relock.ErrMaxHold):                                            relock.ErrLost,
		errors.Join(held, errOwn, relock.ErrLost):                                               relock.ErrLost, // the caller's, of two: to undo comes first
		&wire.Undone{Fn: held, Lost: relock.ErrClosed}:                                          relock.ErrClosed,
	}
}

// reply is an error that Redis answers.
func reply(text string) error { return &driver.ReplyError{Text: text, Err: errors.New(text)} }

// answersOfNodes are what nodes say, by the class of that alone.
func answersOfNodes() map[error]error {
	return map[error]error{
		wire.ErrNoAnswer: relock.ErrUnavailable, wire.ErrNotAsked: relock.ErrUnavailable, node.ErrIdle: relock.ErrUnavailable, errOwn: relock.ErrUnavailable,
		context.DeadlineExceeded: relock.ErrUnavailable, driver.Unsent(errOwnTyped): relock.ErrUnavailable, driver.Closed(errOwn): relock.ErrUnavailable,
		syscall.ENOTSUP: relock.ErrUnavailable, &link.Left{Cause: context.Canceled}: relock.ErrUnavailable,
		&wire.Silent{What: wire.ErrNoAnswer, Last: errOwnTyped}: relock.ErrUnavailable,
		reply("LOADING Redis is loading"):                       relock.ErrUnavailable, reply("READONLY replica"): relock.ErrUnavailable,
		reply("QUARANTINED 1 2"): relock.ErrUnavailable, reply("MOVED 1 a:1"): relock.ErrUnavailable,
		reply("NOPERM"): relock.ErrRefused, reply("WRONGTYPE"): relock.ErrRefused, reply("WRONGKIND"): relock.ErrRefused, reply("OOM"): relock.ErrRefused,
		&driver.ReplyError{Text: "MOVED 1 a:1", Astray: true}:       relock.ErrRefused,
		&wire.NodeError{Op: driver.Subscribe, Err: reply("NOPERM")}: relock.ErrRefused, // a node that can tell nothing
		wire.ErrNotThere:      relock.ErrLost,
		wire.HeldThere("c:1"): relock.ErrNotAcquired,
		wire.ErrClosed:        relock.ErrClosed,
		fmt.Errorf("%w: a slave", wire.ErrInvalidNodes): relock.ErrMisuse,
	}
}

// An error is of one class, whatever nodes said and whatever ended the wait. Its own class counts only where the cause has
// none; and a quorum's is not that of a node.
func TestClassesExcludeEachOther(t *testing.T) {
	t.Parallel()
	said := answersOfNodes()
	for cause, causes := range causesOfWaits() {
		of := func(class error) error {
			if causes != nil {
				return causes
			}
			return class
		}
		check := func(class error, err error) {
			t.Helper()
			for _, err := range []error{outward(err), fmt.Errorf("wrapped: %w", outward(err))} {
				requireClass(t, of(class), err, "cause ", cause)
				if cause != nil && wire.Family(cause) == nil {
					require.ErrorIs(t, err, cause)
				}
				if cause == error(errOwnTyped) {
					require.ErrorAs(t, err, new(*net.AddrError))
				}
			}
		}
		check(relock.ErrNotAcquired, &wire.HeldError{Name: "k", Cause: cause})
		for a, first := range said {
			check(first, &wire.NodeError{Op: driver.Acquire, Name: "k", Err: a, Cause: cause})
			for b, second := range said {
				nodes := []*wire.NodeError{{Node: 1, Err: a}, {Node: 2, Err: b}}
				class := relock.ErrUnavailable
				if first == relock.ErrClosed || second == relock.ErrClosed {
					class = relock.ErrClosed
				} else if (first == relock.ErrRefused || first == relock.ErrMisuse) && (second == relock.ErrRefused || second == relock.ErrMisuse) {
					class = relock.ErrRefused
				}
				quorum := &wire.QuorumError{Op: driver.Acquire, Name: "k", Need: 2, Of: 3, Nodes: nodes, Cause: cause}
				check(class, quorum)
				if cause == nil {
					busy := outward(&wire.HeldError{Name: "k", Cause: quorum})
					requireClass(t, relock.ErrNotAcquired, busy, "nodes that a TryLock could not take: ", a, b)
					require.ErrorAs(t, busy, new(*relock.QuorumError))
					var one *relock.NodeError
					require.ErrorAs(t, busy, &one)
					requireClass(t, first, one, "one node")
				}
			}
		}
	}
}

// A Do whose lock was lost is of that class alone, whatever its function returned, and what that returned is found.
func TestDoThatLostItsLockIsOfThatClass(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, c *relock.Client, _ *scripted) {
		for returned := range causesOfWaits() {
			ran := c.Mutex("k", relock.WithMaxHold(time.Second)).Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return returned
			})
			requireClass(t, relock.ErrLost, ran, "fn returned ", returned)
			if returned != nil && wire.Family(returned) == nil {
				require.ErrorIs(t, ran, returned)
			}
			for _, part := range []error{&relock.HeldError{}, &relock.NodeError{}, &net.AddrError{}} {
				if errors.As(returned, typed(part)) {
					require.True(t, errors.As(ran, typed(part)), "%T of %v", part, returned)
				}
			}
		}
	})
}

// typed is a target of errors.As for errors of err's type.
func typed(err error) any {
	switch err.(type) {
	case *relock.HeldError:
		return new(*relock.HeldError)
	case *relock.NodeError:
		return new(*relock.NodeError)
	}
	return new(*net.AddrError)
}

// All that callers can meet, on real servers: each is of its class, on one Redis and on a quorum.
func TestEveryErrorHasItsClass(t *testing.T) {
	t.Parallel()
	o := &seen{}
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		ctx, m, other := t.Context(), c.Mutex("k"), another(t, servers)
		quorum := len(servers) > 1
		lock := func(ctx context.Context, m *relock.Mutex) error { _, err := m.Lock(ctx); return err }
		try := func(ctx context.Context, m *relock.Mutex) error { _, err := m.TryLock(ctx); return err }
		ended := func(cause error) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			return ctx
		}
		soon := func(cause error) context.Context {
			ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Millisecond, cause)
			t.Cleanup(cancel)
			return ctx
		}
		waits := func(call func() error) <-chan error { // once it is told that it waits
			before, failed := len(o.of(relock.EventWaiting)), make(chan error, 1)
			go func() { failed <- call() }()
			require.Eventually(t, func() bool { return len(o.of(relock.EventWaiting)) > before }, patience, time.Millisecond)
			return failed
		}
		calls := func(m *relock.Mutex, l *relock.Lease) map[string]func(ctx context.Context) error {
			return map[string]func(ctx context.Context) error{
				"Lock":        func(ctx context.Context) error { return lock(ctx, m) },
				"TryLock":     func(ctx context.Context) error { return try(ctx, m) },
				"Do":          func(ctx context.Context) error { return m.Do(ctx, nothing) },
				"State":       func(ctx context.Context) error { _, err := m.State(ctx); return err },
				"ForceUnlock": func(ctx context.Context) error { _, err := m.ForceUnlock(ctx); return err },
				"Extend":      func(ctx context.Context) error { return l.Extend(ctx, time.Minute/2) },
			}
		}

		// Misuse, which no server is asked for.
		var none context.Context
		mine := taken(t, c.Mutex("mine").Lock)
		for name, call := range calls(m, mine) {
			requireClass(t, relock.ErrMisuse, call(none), name)
			requireClass(t, relock.ErrUnavailable, call(ended(errOwn)), name)
			requireClass(t, relock.ErrLost, call(ended(relock.ErrLost)), name)
			requireClass(t, relock.ErrMisuse, call(ended(relock.ErrNotHeld)), name)
		}
		_, err := (*relock.Mutex)(nil).Held(ctx)
		requireClass(t, relock.ErrMisuse, err)
		_, err = m.Held(ctx)
		requireClass(t, relock.ErrMisuse, err)
		requireClass(t, relock.ErrMisuse, m.Do(ctx, nil))
		requireClass(t, relock.ErrMisuse, lock(ctx, (*relock.Client)(nil).Mutex("k")))
		requireClass(t, relock.ErrMisuse, c.TrustNodes(none))
		requireClass(t, relock.ErrMisuse, (*relock.Client)(nil).TrustNodes(ctx))
		requireClass(t, relock.ErrMisuse, (*relock.Lease)(nil).Unlock(ctx))
		requireClass(t, relock.ErrMisuse, context.Cause((*relock.Lease)(nil).Context()))
		requireClass(t, relock.ErrMisuse, lock(ctx, c.Mutex("")))
		requireClass(t, relock.ErrMisuse, lock(ctx, c.Mutex(strings.Repeat("k", 2000))))
		requireClass(t, relock.ErrMisuse, lock(ctx, c.Mutex("k", relock.WithLease(-1))))
		requireClass(t, relock.ErrMisuse, lock(ctx, c.Mutex("k", relock.WithRedissonWatchdog(0))), "of an RWMutex")
		requireClass(t, relock.ErrMisuse, lock(relock.WithOwner(ctx, ""), m))
		requireClass(t, relock.ErrMisuse, mine.Extend(ctx, -1))
		requireClass(t, relock.ErrMisuse, mine.Extend(ctx, 2*wire.MaxLease))
		_, err = mine.Downgrade(ctx)
		requireClass(t, errors.ErrUnsupported, err)
		for i, opt := range []relock.ClientOption{relock.WithLogger(nil), relock.WithCommandTimeout(-1), relock.WithWait(-1), relock.WithLinger(-1), relock.WithMaxHold(-1),
			relock.WithFixedLease(-1)} {
			_, err := relock.New(servers[0].Client(), opt)
			requireClass(t, relock.ErrMisuse, err, "option ", i)
		}
		_, err = relock.New(nil)
		requireClass(t, relock.ErrMisuse, err)
		for _, nodes := range [][]rueidis.Client{nil, {nil}} {
			_, err = relock.NewRedlock(nodes)
			requireClass(t, relock.ErrMisuse, err)
		}
		twins := newRedlock(t, []*redistest.Server{servers[0], servers[0]})
		requireClass(t, relock.ErrMisuse, try(ctx, twins.Mutex("k")), "nodes that are one server")

		// Read-write locks.
		rw := c.RWMutex("rw")
		reader, err := rw.RLock(ctx)
		if quorum {
			requireClass(t, errors.ErrUnsupported, err)
		} else {
			require.NoError(t, err)
			requireClass(t, relock.ErrMisuse, rw.Do(reader.Context(), nothing), "an upgrade")
			requireClass(t, relock.ErrRefused, try(ctx, c.Mutex("rw")), "a name of another kind")
			requireClass(t, errors.ErrUnsupported, rw.RDo(relock.WithOwner(ctx, "x"), nothing))
			require.NoError(t, reader.Unlock(ctx))
			writer := taken(t, rw.Lock)
			inner, err := rw.Lock(writer.Context())
			require.NoError(t, err)
			_, err = writer.Downgrade(ctx)
			requireClass(t, relock.ErrMisuse, err, "entered twice")
			require.NoError(t, inner.Unlock(ctx))
			_, err = writer.Downgrade(ended(relock.ErrClosed))
			requireClass(t, relock.ErrClosed, err)
			require.NoError(t, writer.Unlock(ctx))
		}

		// A busy lock: in another process, and behind a goroutine of this one.
		theirs := taken(t, other.Mutex("theirs").Lock)
		onAll(t, servers, "theirs")
		local := taken(t, c.Mutex("local").Lock)
		for _, name := range []string{"theirs", "local"} {
			busy := c.Mutex(name)
			requireClass(t, relock.ErrNotAcquired, try(ctx, busy), name)
			for cause, class := range causesOfWaits() {
				if class == nil {
					class = relock.ErrNotAcquired
				}
				ctx, cancel := context.WithCancelCause(ctx)
				failed := waits(func() error { return lock(ctx, busy) })
				cancel(cause)
				requireClass(t, class, within(t, failed), name)
			}
			requireClass(t, relock.ErrNotAcquired, lock(ctx, c.Mutex(name, relock.WithWait(time.Second))), name)
		}

		// A wait that ends with the lease around it, by each end of that.
		for class, end := range map[error]func(*relock.Lease){
			relock.ErrLost:   func(l *relock.Lease) { lose(l) },
			relock.ErrMisuse: func(l *relock.Lease) { _ = l.Unlock(ctx) },
		} {
			around := taken(t, c.Mutex("around").Lock)
			failed := waits(func() error { return lock(around.Context(), c.Mutex("theirs")) })
			end(around)
			err := within(t, failed)
			requireClass(t, class, err)
			require.ErrorAs(t, err, new(*relock.HeldError))
			requireClass(t, class, context.Cause(around.Context()))
			if class == relock.ErrLost {
				requireClass(t, relock.ErrLost, around.Unlock(ctx))
				requireClass(t, relock.ErrLost, around.Extend(ctx, time.Second))
				requireClass(t, relock.ErrLost, try(around.Context(), c.Mutex("around")))
			}
		}
		require.NoError(t, theirs.Unlock(ctx))
		require.NoError(t, local.Unlock(ctx))
		requireClass(t, relock.ErrMisuse, local.Unlock(ctx))

		// Rights that are missing at all nodes, and at one.
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "resetkeys", "~other*")
		}
		for name, call := range calls(m, mine) {
			requireClass(t, relock.ErrRefused, call(ctx), name)
		}
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "allkeys")
		}
		if quorum { // one refuses, one is down, and the third agrees
			servers[0].Do("ACL", "SETUSER", "app", "resetkeys", "~other*")
			servers[1].Kill()
			for _, name := range []string{"TryLock", "State", "ForceUnlock", "Extend"} {
				requireClass(t, relock.ErrUnavailable, calls(m, mine)[name](ctx), name)
			}
		}

		// No answer.
		for _, s := range servers {
			if s != servers[min(1, len(servers)-1)] || !quorum {
				s.Kill()
			}
		}
		for name, call := range calls(m, mine) {
			if name == "Lock" || name == "Do" {
				requireClass(t, relock.ErrLost, call(soon(relock.ErrLost)), name)
			} else {
				requireClass(t, relock.ErrUnavailable, call(ctx), name)
			}
		}
		requireClass(t, relock.ErrUnavailable, lock(soon(errOwn), m))
		requireClass(t, relock.ErrUnavailable, mine.Unlock(ctx))
		if quorum {
			requireClass(t, relock.ErrUnavailable, c.TrustNodes(ctx))
			requireClass(t, relock.ErrClosed, c.TrustNodes(ended(relock.ErrClosed)), "another client")
		}
		failed := make(chan error, 1)
		go func() { failed <- lock(ctx, c.Mutex("closed")) }()
		c.Close()
		requireClass(t, relock.ErrClosed, within(t, failed))
		for name, call := range calls(m, mine) {
			if name != "Extend" { // which says that it is unlocked
				requireClass(t, relock.ErrClosed, call(ctx), name)
			}
		}
		requireClass(t, relock.ErrClosed, c.TrustNodes(ctx))
	}, relock.WithCommandTimeout(300*time.Millisecond), relock.WithObserver(o))
}

// A Redis that may have forgotten locks gives no answer yet. A caller that leaves while it says otherwise gets an error of
// its cause's class.
func TestQuarantineIsNoAnswer(t *testing.T) {
	t.Parallel()
	c, taps := tapped(t, masters(t, 1), relock.WithStrictRestartGuard(time.Minute))
	_, err := c.Mutex("k").TryLock(t.Context())
	requireClass(t, relock.ErrUnavailable, err)
	taps[0].Filter(faults.All(func(*faults.Call) bool { return true }, faults.LoseCall.Hanging()))
	defer taps[0].Filter(nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(relock.ErrMaxHold)
	requireClass(t, relock.ErrLost, c.TrustNodes(ctx))
}

// requireLost demands the very error of a lost lock, which names it.
func requireLost(t *testing.T, how error, err error, why ...any) {
	t.Helper()
	var lost *relock.LostError
	require.ErrorAs(t, err, &lost, why...)
	require.Same(t, err, lost, "it is about the lock that was asked about")
	require.Equal(t, how, lost.Err, why...)
	require.NotEmpty(t, lost.Name)
	require.Equal(t, 1, strings.Count(err.Error(), fmt.Sprintf("%q", lost.Name)), "named once: %v", err)
}

func textOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}
