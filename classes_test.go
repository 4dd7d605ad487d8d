package relock

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
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
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
	ErrNotAcquired: nil,
	ErrUnavailable: {ErrNotAsked},
	ErrRefused:     {ErrWrongKind},
	ErrLost:        {ErrMaxHold},
	ErrMisuse: {ErrNotHeld, ErrHandedOver, ErrUpgrade, ErrTooMany, ErrTooLarge, ErrInvalidName, ErrInvalidOwner, ErrInvalidOption,
		ErrInvalidNodes},
	ErrClosed:             nil,
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
	for _, cells := range row.FindAllStringSubmatch(textOf(t, "docs/errors.md"), -1) {
		for name := range strings.SplitSeq(strings.ReplaceAll(cells[1], "`", ""), ", ") {
			require.NotContains(t, said, name, "twice in docs/errors.md")
			said[name] = cmp.Or(cells[2], name)
		}
	}
	_, table, found := strings.Cut(textOf(t, "classes_test.go"), "\nvar finer = map[error][]error{\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n}\n")
	has := make(map[string]string)
	for _, cells := range regexp.MustCompile(`([\w.]+):\s+(?:nil|\{([^}]*)\}),`).FindAllStringSubmatch(table, -1) {
		for _, name := range append(regexp.MustCompile(`\w+`).FindAllString(cells[2], -1), cells[1]) {
			has[name] = cells[1]
		}
	}
	require.Equal(t, said, has, "docs/errors.md, and the table above")

	exported := []string{"errors.ErrUnsupported"} // the standard library's
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
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
	held := &HeldError{Name: "other", Cause: errOwn}
	return map[error]error{
		nil: nil, errOwn: nil, errOwnTyped: nil, context.Canceled: nil, context.DeadlineExceeded: nil, wire.ErrWaited: nil,
		errors.ErrUnsupported: nil, // another library's, that only says the same
		syscall.ENOTSUP:       nil,
		ErrLost:               ErrLost, ErrMaxHold: ErrLost, ErrClosed: ErrClosed, ErrNotHeld: ErrMisuse, errOwned: errors.ErrUnsupported,
		held: ErrNotAcquired, &NodeError{Op: "acquire", Err: errOwn}: ErrUnavailable, &NodeError{Err: errOwn, is: ErrWrongKind}: ErrRefused,
		&QuorumError{Need: 1, Of: 1, Nodes: []*NodeError{{Node: 1, Err: errOwn}}}: ErrUnavailable,
		&HeldError{Name: "other", Cause: ErrLost}:                                 ErrLost,
		fmt.Errorf("wrapped: %w", ErrMaxHold):                                     ErrLost,
		errors.Join(held, errOwn, ErrLost):                                        ErrLost, // the caller's, of two: to undo comes first
		&wire.Undone{Fn: held, Lost: ErrClosed}:                                   ErrClosed,
	}
}

// answersOfNodes are what nodes say, by the class of that alone.
func answersOfNodes() map[error]error {
	reply := func(text string) error { return &driver.ReplyError{Text: text, Err: errors.New(text)} }
	return map[error]error{
		wire.ErrNoAnswer: ErrUnavailable, wire.ErrNotAsked: ErrUnavailable, node.ErrIdle: ErrUnavailable, errOwn: ErrUnavailable,
		context.DeadlineExceeded: ErrUnavailable, driver.Unsent(errOwnTyped): ErrUnavailable, driver.Closed(errOwn): ErrUnavailable,
		syscall.ENOTSUP: ErrUnavailable, &link.Left{Cause: context.Canceled}: ErrUnavailable,
		&wire.Silent{What: wire.ErrNoAnswer, Last: errOwnTyped}: ErrUnavailable,
		reply("LOADING Redis is loading"):                       ErrUnavailable, reply("READONLY replica"): ErrUnavailable,
		reply("QUARANTINED 1 2"): ErrUnavailable, reply("MOVED 1 a:1"): ErrUnavailable,
		reply("NOPERM"): ErrRefused, reply("WRONGTYPE"): ErrRefused, reply("WRONGKIND"): ErrRefused, reply("OOM"): ErrRefused,
		&driver.ReplyError{Text: "MOVED 1 a:1", Astray: true}:       ErrRefused,
		&wire.NodeError{Op: driver.Subscribe, Err: reply("NOPERM")}: ErrRefused, // a node that can tell nothing
		wire.ErrNotThere:      ErrLost,
		wire.HeldThere("c:1"): ErrNotAcquired,
		wire.ErrClosed:        ErrClosed,
		fmt.Errorf("%w: a slave", wire.ErrInvalidNodes): ErrMisuse,
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
		check(ErrNotAcquired, &wire.HeldError{Name: "k", Cause: cause})
		for a, first := range said {
			check(first, &wire.NodeError{Op: driver.Acquire, Name: "k", Err: a, Cause: cause})
			for b, second := range said {
				nodes := []*wire.NodeError{{Node: 1, Err: a}, {Node: 2, Err: b}}
				class := ErrUnavailable
				if first == ErrClosed || second == ErrClosed {
					class = ErrClosed
				} else if (first == ErrRefused || first == ErrMisuse) && (second == ErrRefused || second == ErrMisuse) {
					class = ErrRefused
				}
				quorum := &wire.QuorumError{Op: driver.Acquire, Name: "k", Need: 2, Of: 3, Nodes: nodes, Cause: cause}
				check(class, quorum)
				if cause == nil {
					busy := outward(&wire.HeldError{Name: "k", Cause: quorum})
					requireClass(t, ErrNotAcquired, busy, "nodes that a TryLock could not take: ", a, b)
					require.ErrorAs(t, busy, new(*QuorumError))
					var one *NodeError
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
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		for returned := range causesOfWaits() {
			ran := c.Mutex("k").Do(t.Context(), func(ctx context.Context) error {
				l, _ := FromContext(ctx)
				l.h.lose(ErrMaxHold)
				return returned
			})
			requireClass(t, ErrLost, ran, "fn returned ", returned)
			if returned != nil && wire.Family(returned) == nil {
				require.ErrorIs(t, ran, returned)
			}
			for _, part := range []error{&HeldError{}, &NodeError{}, &net.AddrError{}} {
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
	case *HeldError:
		return new(*HeldError)
	case *NodeError:
		return new(*NodeError)
	}
	return new(*net.AddrError)
}

// All that callers can meet, on real servers: each is of its class, on one Redis and on a quorum.
func TestEveryErrorHasItsClass(t *testing.T) {
	t.Parallel()
	o := &seen{}
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *Client) {
		ctx, m, other := t.Context(), c.Mutex("k"), another(t, servers)
		quorum := len(servers) > 1
		lock := func(ctx context.Context, m *Mutex) error { _, err := m.Lock(ctx); return err }
		try := func(ctx context.Context, m *Mutex) error { _, err := m.TryLock(ctx); return err }
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
			before, failed := len(o.of(EventWaiting)), make(chan error, 1)
			go func() { failed <- call() }()
			require.Eventually(t, func() bool { return len(o.of(EventWaiting)) > before }, patience, time.Millisecond)
			return failed
		}
		calls := func(m *Mutex, l *Lease) map[string]func(ctx context.Context) error {
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
			requireClass(t, ErrMisuse, call(none), name)
			requireClass(t, ErrUnavailable, call(ended(errOwn)), name)
			requireClass(t, ErrLost, call(ended(ErrLost)), name)
			requireClass(t, ErrMisuse, call(ended(ErrNotHeld)), name)
		}
		_, err := (*Mutex)(nil).Held(ctx)
		requireClass(t, ErrMisuse, err)
		_, err = m.Held(ctx)
		requireClass(t, ErrMisuse, err)
		requireClass(t, ErrMisuse, m.Do(ctx, nil))
		requireClass(t, ErrMisuse, lock(ctx, (*Client)(nil).Mutex("k")))
		requireClass(t, ErrMisuse, c.TrustNodes(none))
		requireClass(t, ErrMisuse, (*Client)(nil).TrustNodes(ctx))
		requireClass(t, ErrMisuse, (*Lease)(nil).Unlock(ctx))
		requireClass(t, ErrMisuse, context.Cause((*Lease)(nil).Context()))
		requireClass(t, ErrMisuse, lock(ctx, c.Mutex("")))
		requireClass(t, ErrMisuse, lock(ctx, c.Mutex(strings.Repeat("k", 2000))))
		requireClass(t, ErrMisuse, lock(ctx, c.Mutex("k", WithLease(-1))))
		requireClass(t, ErrMisuse, lock(ctx, c.Mutex("k", WithRedissonWatchdog(0))), "of an RWMutex")
		requireClass(t, ErrMisuse, lock(WithOwner(ctx, ""), m))
		requireClass(t, ErrMisuse, mine.Extend(ctx, -1))
		requireClass(t, ErrMisuse, mine.Extend(ctx, 2*wire.MaxLease))
		_, err = mine.Downgrade(ctx)
		requireClass(t, ErrMisuse, err)
		for _, opt := range []ClientOption{WithLogger(nil), WithCommandTimeout(-1), WithWait(-1), WithLinger(-1), WithMaxHold(-1),
			WithFixedLease(-1)} {
			_, err := New(servers[0].Client(), opt)
			requireClass(t, ErrMisuse, err)
		}
		_, err = New(nil)
		requireClass(t, ErrMisuse, err)
		for _, nodes := range [][]rueidis.Client{nil, {nil}} {
			_, err = NewRedlock(nodes)
			requireClass(t, ErrMisuse, err)
		}
		twins := newRedlock(t, []*redistest.Server{servers[0], servers[0]})
		requireClass(t, ErrMisuse, try(ctx, twins.Mutex("k")), "nodes that are one server")

		// Read-write locks.
		rw := c.RWMutex("rw")
		reader, err := rw.RLock(ctx)
		if quorum {
			requireClass(t, errors.ErrUnsupported, err)
		} else {
			require.NoError(t, err)
			requireClass(t, ErrMisuse, rw.Do(reader.Context(), nothing), "an upgrade")
			requireClass(t, ErrRefused, try(ctx, c.Mutex("rw")), "a name of another kind")
			requireClass(t, errors.ErrUnsupported, rw.RDo(WithOwner(ctx, "x"), nothing))
			require.NoError(t, reader.Unlock(ctx))
			writer := taken(t, rw.Lock)
			inner, err := rw.Lock(writer.Context())
			require.NoError(t, err)
			_, err = writer.Downgrade(ctx)
			requireClass(t, ErrMisuse, err, "entered twice")
			require.NoError(t, inner.Unlock(ctx))
			_, err = writer.Downgrade(ended(ErrClosed))
			requireClass(t, ErrClosed, err)
			require.NoError(t, writer.Unlock(ctx))
		}

		// A busy lock: in another process, and behind a goroutine of this one.
		theirs := taken(t, other.Mutex("theirs").Lock)
		onAll(t, servers, "theirs")
		local := taken(t, c.Mutex("local").Lock)
		for _, name := range []string{"theirs", "local"} {
			busy := c.Mutex(name)
			requireClass(t, ErrNotAcquired, try(ctx, busy), name)
			for cause, class := range causesOfWaits() {
				if class == nil {
					class = ErrNotAcquired
				}
				ctx, cancel := context.WithCancelCause(ctx)
				failed := waits(func() error { return lock(ctx, busy) })
				cancel(cause)
				requireClass(t, class, within(t, failed), name)
			}
			requireClass(t, ErrNotAcquired, lock(ctx, c.Mutex(name, WithWait(time.Second))), name)
		}

		// A wait that ends with the lease around it, by each end of that.
		for class, end := range map[error]func(*Lease){
			ErrLost:   func(l *Lease) { l.h.lose(ErrLost) },
			ErrMisuse: func(l *Lease) { _ = l.Unlock(ctx) },
		} {
			around := taken(t, c.Mutex("around").Lock)
			failed := waits(func() error { return lock(around.Context(), c.Mutex("theirs")) })
			end(around)
			err := within(t, failed)
			requireClass(t, class, err)
			require.ErrorAs(t, err, new(*HeldError))
			requireClass(t, class, context.Cause(around.Context()))
			if class == ErrLost {
				requireClass(t, ErrLost, around.Unlock(ctx))
				requireClass(t, ErrLost, around.Extend(ctx, time.Second))
				requireClass(t, ErrLost, try(around.Context(), c.Mutex("around")))
			}
		}
		require.NoError(t, theirs.Unlock(ctx))
		require.NoError(t, local.Unlock(ctx))
		requireClass(t, ErrMisuse, local.Unlock(ctx))

		// Rights that are missing at all nodes, and at one.
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "resetkeys", "~other*")
		}
		for name, call := range calls(m, mine) {
			requireClass(t, ErrRefused, call(ctx), name)
		}
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "allkeys")
		}
		if quorum { // one refuses, one is down, and the third agrees
			servers[0].Do("ACL", "SETUSER", "app", "resetkeys", "~other*")
			servers[1].Kill()
			for _, name := range []string{"TryLock", "State", "ForceUnlock", "Extend"} {
				requireClass(t, ErrUnavailable, calls(m, mine)[name](ctx), name)
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
				requireClass(t, ErrLost, call(soon(ErrLost)), name)
			} else {
				requireClass(t, ErrUnavailable, call(ctx), name)
			}
		}
		requireClass(t, ErrUnavailable, lock(soon(errOwn), m))
		requireClass(t, ErrUnavailable, mine.Unlock(ctx))
		if quorum {
			requireClass(t, ErrUnavailable, c.TrustNodes(ctx))
			requireClass(t, ErrClosed, c.TrustNodes(ended(ErrClosed)), "another client")
		}
		failed := make(chan error, 1)
		go func() { failed <- lock(ctx, c.Mutex("closed")) }()
		c.Close()
		requireClass(t, ErrClosed, within(t, failed))
		for name, call := range calls(m, mine) {
			if name != "Extend" { // which says that it is unlocked
				requireClass(t, ErrClosed, call(ctx), name)
			}
		}
		requireClass(t, ErrClosed, c.TrustNodes(ctx))
	}, WithCommandTimeout(300*time.Millisecond), WithObserver(o))
}

// A Redis that may have forgotten locks gives no answer yet. A caller that leaves while it says otherwise gets an error of
// its cause's class.
func TestQuarantineIsNoAnswer(t *testing.T) {
	t.Parallel()
	c, taps := tapped(t, masters(t, 1), WithStrictRestartGuard(time.Minute))
	_, err := c.Mutex("k").TryLock(t.Context())
	requireClass(t, ErrUnavailable, err)
	taps[0].Filter(faults.All(func(*faults.Call) bool { return true }, faults.LoseCall.Hanging()))
	defer taps[0].Filter(nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrMaxHold)
	requireClass(t, ErrLost, c.TrustNodes(ctx))
}

// requireLost demands the very error of a lost lock, which names it.
func requireLost(t *testing.T, how error, err error, why ...any) {
	t.Helper()
	var lost *LostError
	require.ErrorAs(t, err, &lost, why...)
	require.Same(t, err, lost, "it is about the lock that was asked about")
	require.Equal(t, how, lost.Err, why...)
	require.NotEmpty(t, lost.Name)
	require.Equal(t, 1, strings.Count(err.Error(), fmt.Sprintf("%q", lost.Name)), "named once: %v", err)
}
