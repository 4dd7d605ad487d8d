package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis8 "github.com/go-redis/redis/v8"
	"github.com/hibiken/asynq"
	"github.com/hibiken/asynq/x/rate"
)

const (
	asynqLease = 30 * time.Second
	asynqStart = 30 * time.Second // for the handlers of all tasks to be called
)

func asynqSpec() Spec {
	return Spec{
		Name: "asynq", Module: "github.com/hibiken/asynq/x",
		Setup: "asynq's x/rate semaphore over its own go-redis v8, called by handlers of tasks as it must be; 30 s deadlines; " +
			"where its example retries after 30 s, back-off 1 ms doubling to 32 ms with jitter. The tasks' queue is in the " +
			"memory of the process, so that only the semaphore's commands count",
		Open: openAsynq, Semaphore: true, NoMutex: true, Lease: asynqLease,
	}
}

// asynqPeer has a task for each permit that is held or waited for: the semaphore takes a permit for the task that the
// context belongs to. The handlers of the tasks run for as long as the peer is open, and lend their contexts.
type asynqPeer struct {
	rdb        *goredis8.Client
	lease      time.Duration
	queue      *miniredis.Miniredis
	server     *asynq.Server
	tasks      chan context.Context // of tasks that have no permit
	done       chan struct{}        // ends the handlers
	semaphores sync.Map             // of *rate.Semaphore by key
}

func openAsynq(e Env) (Peer, error) {
	o, err := goredis8.ParseURL(e.Redis)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 5 * time.Minute}
	secure := o.TLSConfig
	o.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) {
		return e.Wire.Dial(ctx, &dialer, addr, secure)
	}
	p := &asynqPeer{rdb: goredis8.NewClient(o), lease: e.leaseOr(asynqLease), done: make(chan struct{})}
	if err := p.start(max(e.Waiters, e.Permits+1)); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// start has n handlers called.
func (p *asynqPeer) start(n int) error {
	p.tasks = make(chan context.Context, n)
	var err error
	if p.queue, err = miniredis.Run(); err != nil {
		return fmt.Errorf("the tasks' queue: %w", err)
	}
	queue := asynq.RedisClientOpt{Addr: p.queue.Addr()}
	client := asynq.NewClient(queue)
	defer client.Close()
	for range n {
		if _, err := client.Enqueue(asynq.NewTask("hold", nil), asynq.Timeout(24*time.Hour)); err != nil {
			return fmt.Errorf("a task: %w", err)
		}
	}
	p.server = asynq.NewServer(queue, asynq.Config{Concurrency: n, LogLevel: asynq.FatalLevel})
	if err := p.server.Start(asynq.HandlerFunc(p.lend)); err != nil {
		return fmt.Errorf("the tasks' server: %w", err)
	}
	for late := time.Now().Add(asynqStart); len(p.tasks) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			return fmt.Errorf("%d of %d tasks have begun", len(p.tasks), n)
		}
	}
	return nil
}

func (p *asynqPeer) lend(ctx context.Context, _ *asynq.Task) error {
	p.tasks <- ctx
	<-p.done
	return nil
}

// MakeRedisClient lets all semaphores use one client.
func (p *asynqPeer) MakeRedisClient() any { return p.rdb }

func (p *asynqPeer) Acquire(ctx context.Context, key string, n, k int) (Held, error) {
	if k != 1 {
		return nil, errors.New("a task has one permit")
	}
	found, ok := p.semaphores.Load(key)
	if !ok {
		found, _ = p.semaphores.LoadOrStore(key, rate.NewSemaphore(p, key, n))
	}
	s := found.(*rate.Semaphore)
	var task context.Context
	select {
	case task = <-p.tasks:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for try := 0; ; try++ {
		got, err := p.ask(s, task)
		if err == nil && !got {
			err = sleep(ctx, backOff(try, zsetMost))
		}
		switch {
		case err != nil:
			p.tasks <- task
			return nil, err
		case got:
			return heldFunc{ctx, func(context.Context) error {
				defer func() { p.tasks <- task }()
				return s.Release(task)
			}}, nil
		}
	}
}

// ask tries once. The deadline is the end of the permit's lease.
func (p *asynqPeer) ask(s *rate.Semaphore, task context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(task, p.lease)
	defer cancel()
	return s.Acquire(ctx)
}

func (p *asynqPeer) Lock(ctx context.Context, key string) (Held, error) {
	return p.Acquire(ctx, key, 1, 1)
}

func (p *asynqPeer) Close() {
	close(p.done)
	if p.server != nil {
		p.server.Shutdown()
	}
	if p.queue != nil {
		p.queue.Close()
	}
	_ = p.rdb.Close()
}
