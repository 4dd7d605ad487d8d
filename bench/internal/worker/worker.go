package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/relock-go/relock/bench/internal/board"
	"github.com/relock-go/relock/bench/internal/peer"
	"github.com/relock-go/relock/bench/internal/wire"
)

// grace is how long goroutines may take to end after their context has ended. After that they count as hung.
const grace = 5 * time.Second

type worker struct {
	specs []peer.Spec
	wire  *wire.Counter
	board *board.Board
	peer  peer.Peer

	holding []holding // of Hold; several permits of a semaphore
	waiting *waiting  // of Wait
	taken   []holding // of Take
}

// holding is a lock held between two requests.
type holding struct {
	held   peer.Held
	slot   int
	id     int64
	shared bool               // a reader's
	k      int                // a semaphore's permits; 0: a lock
	slots  []int              // of several locks; nil: slot alone
	cancel context.CancelFunc // of Hold's
}

// Serve answers requests until in ends. At the end of in the bench is gone, so it returns even in the middle of a
// request. specs are the peers that it can open.
func Serve(in io.Reader, out io.Writer, specs []peer.Spec) error {
	w := &worker{specs: specs, wire: wire.NewCounter()}
	requests, ended := make(chan Request), make(chan error, 1)
	go func() { ended <- decode(in, requests) }()
	answered := make(chan error, 1)
	enc := json.NewEncoder(out)
	for {
		select {
		case r := <-requests:
			go func() { answered <- w.answer(r, enc) }()
		case err := <-ended:
			return err
		}
		select {
		case err := <-answered:
			if err != nil {
				return err
			}
		case err := <-ended:
			return err
		}
	}
}

func decode(in io.Reader, to chan<- Request) error {
	dec := json.NewDecoder(bufio.NewReader(in))
	for {
		var r Request
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		to <- r
	}
}

func (w *worker) answer(r Request, enc *json.Encoder) error {
	reply, err := w.do(r)
	if err != nil {
		reply.Error = err.Error()
	}
	return enc.Encode(reply)
}

func (w *worker) do(r Request) (Reply, error) {
	if w.peer == nil && r.Do != Open && r.Do != Close && r.Do != Stats {
		return Reply{}, fmt.Errorf("%s: no peer is open", r.Do)
	}
	switch r.Do {
	case Open:
		return Reply{}, w.open(r)
	case Loop:
		return w.loop(r)
	case Hold:
		return w.hold(r)
	case Release:
		return w.release()
	case Wait:
		return w.wait(r)
	case Join:
		return w.join(r)
	case Count:
		return w.countPermits(r)
	case Visit:
		return w.visit(r)
	case Take:
		return w.take(r)
	case Drop:
		return w.drop()
	case Stats:
		return Reply{Usage: w.settled()}, nil
	case Close:
		w.close()
		return Reply{}, nil
	}
	return Reply{}, fmt.Errorf("unknown request %q", r.Do)
}

func (w *worker) open(r Request) error {
	w.close()
	b, err := board.Open(r.Board)
	if err != nil {
		return err
	}
	w.board = b
	for _, s := range w.specs {
		if s.Name != r.Peer {
			continue
		}
		if s.Open == nil {
			return fmt.Errorf("peer %s runs in a JVM", s.Name)
		}
		w.peer, err = s.Open(peer.Env{
			Redis: r.Redis, Nodes: r.Nodes, Cluster: r.Cluster, Etcd: r.Etcd, Lease: time.Duration(r.LeaseMS) * time.Millisecond,
			Waiters: r.Waiters, Permits: r.Permits, Keep: r.Keep, Embedded: r.Embedded, Wire: w.wire,
		})
		return err
	}
	return fmt.Errorf("unknown peer %q", r.Peer)
}

// close forgets all held locks, so that the next peer starts with none.
func (w *worker) close() {
	if w.peer != nil {
		w.peer.Close()
	}
	if w.board != nil {
		_ = w.board.Close()
	}
	w.peer, w.board, w.holding, w.waiting, w.taken = nil, nil, nil, nil, nil
}

// id returns an id that is unique among all goroutines of all workers.
func id(goroutine int) int64 { return int64(os.Getpid())<<24 | int64(goroutine+1) }

// enter takes the lock and marks the board. Overlaps are counted in o.
func (w *worker) enter(ctx context.Context, key string, slot int, id int64, o *overlaps) (holding, error) {
	return w.enterBy(ctx, w.peer.Lock, key, slot, id, o)
}

// enterBy is enter with the given method of the peer.
func (w *worker) enterBy(ctx context.Context, lock locking, key string, slot int, id int64, o *overlaps) (holding, error) {
	h, err := lock(ctx, key)
	if err != nil {
		return holding{}, err
	}
	if !w.board.Enter(slot, id) {
		o.add()
	}
	return holding{held: h, slot: slot, id: id}, nil
}

// locking takes a peer's lock.
type locking func(ctx context.Context, key string) (peer.Held, error)

// enterRW takes a peer's read-write lock, or its mutex if it has none. A reader is not marked on the board, since other
// readers may hold the lock too.
func (w *worker) enterRW(ctx context.Context, reads bool, key string, slot int, id int64, o *overlaps) (holding, error) {
	rw, has := w.peer.(peer.ReadWriter)
	switch {
	case !has:
		return w.enter(ctx, key, slot, id, o)
	case !reads:
		return w.enterBy(ctx, rw.WLock, key, slot, id, o)
	}
	h, err := rw.RLock(ctx, key)
	return holding{held: h, shared: true}, err
}

// acquire takes k of the n permits of a peer's semaphore. Overlaps are times at which more than n were held.
func (w *worker) acquire(ctx context.Context, key string, slot, n, k int, o *overlaps) (holding, error) {
	s, has := w.peer.(peer.Semaphores)
	if !has {
		return holding{}, errors.New("the peer has no semaphores")
	}
	h, err := s.Acquire(ctx, key, n, k)
	if err != nil {
		return holding{}, err
	}
	if !w.board.Acquire(slot, n, k) {
		o.add()
	}
	return holding{held: h, slot: slot, k: k}, nil
}

// enterSeveral takes some of a request's locks together, or any one.
func (w *worker) enterSeveral(ctx context.Context, r Request, id int64, o *overlaps) (holding, error) {
	chosen := rand.Perm(r.Locks)
	if r.Together > 0 {
		chosen = chosen[:r.Together]
	}
	keys := make([]string, len(chosen))
	for i, n := range chosen {
		keys[i] = fmt.Sprintf("%s:%d", r.Key, n)
	}
	h, err := w.lockSome(ctx, r.Together == 0, keys, &chosen)
	if err != nil {
		return holding{}, err
	}
	all := holding{held: h, id: id, slots: []int{}}
	for _, n := range chosen {
		all.slots = append(all.slots, r.Slot+n)
		if !w.board.Enter(r.Slot+n, id) {
			o.add()
		}
	}
	return all, nil
}

// lockSome takes all locks, or any one of them. chosen are their numbers, then those of the locks taken. There are none if
// the peer does not tell which it took.
func (w *worker) lockSome(ctx context.Context, any bool, keys []string, chosen *[]int) (peer.Held, error) {
	if !any {
		s, has := w.peer.(peer.Several)
		if !has {
			return nil, errors.New("the peer takes no locks together")
		}
		return s.LockAll(ctx, keys)
	}
	s, has := w.peer.(peer.AnyOf)
	if !has {
		return nil, errors.New("the peer takes no lock of several")
	}
	h, i, err := s.LockAny(ctx, keys)
	if err == nil && i >= 0 {
		*chosen = (*chosen)[i : i+1]
	} else {
		*chosen = nil
	}
	return h, err
}

// lastExit is when the last holder before left, of several locks the last of theirs.
func (h holding) lastExit(b *board.Board) (last int64) {
	if h.slots == nil {
		return b.LastExit(h.slot)
	}
	for _, slot := range h.slots {
		last = max(last, b.LastExit(slot))
	}
	return last
}

// leave clears the board and unlocks.
func (w *worker) leave(h holding, o *overlaps) error {
	switch {
	case h.slots != nil:
		for _, slot := range h.slots {
			if !w.board.Exit(slot, h.id) {
				o.add()
			}
		}
	case h.k > 0:
		w.board.Release(h.slot, h.k)
	case !h.shared && !w.board.Exit(h.slot, h.id):
		o.add()
	}
	return h.held.Unlock(context.Background())
}

// overlaps counts how often a lock was found to have two holders.
type overlaps struct {
	mu sync.Mutex
	n  int64 // guarded by mu
}

func (o *overlaps) add() {
	o.mu.Lock()
	o.n++
	o.mu.Unlock()
}

func (o *overlaps) count() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}
