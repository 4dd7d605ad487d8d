// Package profile shows in the profiles of runtime/pprof which lock a goroutine waits for.
package profile

import (
	"context"
	"hash/maphash"
	"runtime/pprof"
	"sync/atomic"
)

// Label is the pprof label whose value is the lock's name.
const Label = "relock.lock"

// Waits marks the calling goroutine as waiting for the lock: it gets the labels of ctx and, under Label,
// the lock's name. Waited takes the mark away.
func Waits(ctx context.Context, lock string) { pprof.SetGoroutineLabels(with(ctx, lock)) }

// Waited gives the calling goroutine the labels of ctx, and no others.
func Waited(ctx context.Context) { pprof.SetGoroutineLabels(ctx) }

// labelled is a context with a lock's name as its only label.
type labelled struct {
	lock string
	ctx  context.Context
}

// cache keeps contexts of that kind, so that most waits need not make one. A new one replaces the
// one that was kept in its place.
var (
	cache [4096]atomic.Pointer[labelled]
	seed  = maphash.MakeSeed()
)

// with returns a context with the labels of ctx, and Label.
func with(ctx context.Context, lock string) context.Context {
	others := false
	pprof.ForLabels(ctx, func(string, string) bool { others = true; return false })
	if others {
		return pprof.WithLabels(ctx, pprof.Labels(Label, lock))
	}
	place := &cache[maphash.String(seed, lock)%uint64(len(cache))]
	is := place.Load()
	if is == nil || is.lock != lock {
		is = &labelled{lock: lock, ctx: pprof.WithLabels(context.Background(), pprof.Labels(Label, lock))}
		place.Store(is)
	}
	return is.ctx
}
