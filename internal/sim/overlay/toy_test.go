package overlay

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	oldrand "math/rand"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// toy is a world that does all of what Go's runtime decides by lot or by real time, and hashes what happened.
type toy struct {
	mu     sync.Mutex
	events hash.Hash

	contended sync.Mutex
	pool      sync.Pool
	cond      *sync.Cond
	served    int
	shared    sync.Map
}

// play runs a toy in a bubble with the seed and returns the hash of its events.
func play(t *testing.T, seed uint64) string {
	world := &toy{events: sha256.New()}
	world.cond = sync.NewCond(&world.contended)
	world.pool.New = func() any { world.event("new", 0); return new([64]byte) }
	Run(seed, func() { synctest.Test(t, func(*testing.T) { world.run() }) })
	return hex.EncodeToString(world.events.Sum(nil)[:8])
}

func (w *toy) event(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events.Write([]byte(what))
	w.events.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	w.events.Write(binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano())))
}

// started is what libraries keep to count from.
var started = time.Now()

func (w *toy) run() {
	w.event("began", int(time.Since(started)%time.Second))
	ctx, cancel := context.WithCancel(context.Background())
	ready := []chan int{make(chan int, 1), make(chan int, 1), make(chan int), make(chan int)}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() { w.selects(ctx, i, ready) })
		all.Go(func() { w.locks(i) })
		all.Go(func() { w.children(ctx, i) })
		all.Go(func() { w.maps(i) })
	}
	for i := range 60 {
		time.AfterFunc(time.Millisecond, func() { w.event("same instant", i); w.shared.Store(strconv.Itoa(i), i) })
		context.AfterFunc(ctx, func() { w.event("after cancel", i) })
	}
	time.Sleep(20 * time.Millisecond)
	w.shared.Range(func(_, i any) bool { w.event("shared", i.(int)); return true })
	cancel()
	all.Wait()
	time.Sleep(time.Second)
}

func (w *toy) selects(ctx context.Context, i int, ready []chan int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case ready[0] <- i:
			w.event("put 0", i)
		case ready[1] <- i:
			w.event("put 1", i)
		case n := <-ready[0]:
			w.event("take 0", n)
		case n := <-ready[1]:
			w.event("take 1", n)
		case n := <-ready[2]:
			w.event("take 2", n)
		case ready[3] <- i:
			w.event("put 3", i)
		case <-tick.C:
			w.event("tick", i)
		case <-ctx.Done():
			w.event("done", i)
			return
		}
		time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	}
}

func (w *toy) locks(i int) {
	for range 20 {
		w.contended.Lock()
		buffer := w.pool.Get()
		w.event("locked", i)
		w.served++
		os.Getppid() // a system call, at which the monitor may take the P away
		w.pool.Put(buffer)
		w.cond.Signal()
		w.contended.Unlock()
		if oldrand.Intn(4) == 0 {
			time.Sleep(time.Duration(rand.Int64N(int64(time.Millisecond))))
		}
	}
}

func (w *toy) children(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(10+i%3*10)*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for range 12 {
		child, cancel := context.WithCancelCause(ctx)
		all.Go(func() {
			defer cancel(nil)
			<-child.Done()
			w.event(context.Cause(child).Error(), i)
		})
	}
	all.Wait()
}

func (w *toy) maps(i int) {
	few, many := map[string]int{}, map[string]int{}
	for n := range 40 {
		if n < 7 {
			few[strconv.Itoa(n)] = n
		}
		many[strconv.Itoa(n*i)] = n
	}
	for range 3 {
		for _, n := range few {
			w.event("few", n)
		}
		for _, n := range many {
			w.event("many", n)
		}
		time.Sleep(time.Duration(1+rand.IntN(2)) * time.Millisecond)
	}
}
