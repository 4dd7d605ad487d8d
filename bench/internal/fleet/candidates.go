package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/election"
)

// TTL is how long a lead outlives its holder's last renewal.
const TTL = 2 * time.Second

const leader = "leader" // the election's name

var candidates = map[string]func(task) (candidate, error){"relock": newRelock, "etcd": newEtcd}

type relockCandidate struct {
	*election.Election
	locks *relock.Client
	close func()
}

func newRelock(t task) (candidate, error) {
	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{t.Addr}})
	if err != nil {
		return nil, err
	}
	locks, err := relock.New(rdb, relock.WithLease(TTL), relock.WithClientName(t.Name))
	if err != nil {
		return nil, err
	}
	return &relockCandidate{election.New(locks.Mutex(leader)), locks, rdb.Close}, nil
}

func (c *relockCandidate) resign() { c.Resign() }

func (c *relockCandidate) run(ctx context.Context, lead func(func() bool)) error {
	defer c.close()
	defer c.locks.Close()
	return c.Run(ctx, func(ctx context.Context) error {
		lead(func() bool { return ctx.Err() == nil })
		return nil
	})
}

// etcdCandidate campaigns by concurrency.Election, as its example does: it leads until its session is
// done, resigns to hand on, and takes a new session when one is lost.
type etcdCandidate struct {
	client *clientv3.Client
	name   string

	mu  sync.Mutex
	end context.CancelFunc // ends the term; guarded by mu
}

func openEtcd(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

func newEtcd(t task) (candidate, error) {
	client, err := openEtcd(t.Addr)
	return &etcdCandidate{client: client, name: t.Name, end: func() {}}, err
}

func (c *etcdCandidate) resign() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
}

func (c *etcdCandidate) run(ctx context.Context, lead func(func() bool)) error {
	defer c.client.Close()
	for ctx.Err() == nil {
		s, err := concurrency.NewSession(c.client, concurrency.WithTTL(int(TTL/time.Second)))
		if err != nil {
			return fmt.Errorf("session: %w", err)
		}
		for ctx.Err() == nil && alive(s) {
			if err := c.serve(ctx, s, lead); err != nil {
				return err
			}
		}
		_ = s.Close() // revokes the lease, if it is not lost
	}
	return nil
}

func alive(s *concurrency.Session) bool {
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}

// serve campaigns once, leads, and hands the lead on if the session still has it.
func (c *etcdCandidate) serve(ctx context.Context, s *concurrency.Session, lead func(func() bool)) error {
	term, end := context.WithCancel(ctx)
	defer end()
	go func() { // a lost session ends the campaign too
		select {
		case <-s.Done():
			end()
		case <-term.Done():
		}
	}()
	e := concurrency.NewElection(s, "/"+leader)
	if err := e.Campaign(term, c.name); err != nil {
		if term.Err() != nil || errors.Is(err, concurrency.ErrSessionExpired) {
			return nil
		}
		return fmt.Errorf("campaign: %w", err)
	}
	c.mu.Lock()
	c.end = end
	c.mu.Unlock()
	lead(func() bool { return term.Err() == nil && alive(s) })
	if !alive(s) {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), TTL)
	defer cancel()
	if err := e.Resign(bounded); err != nil && alive(s) {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}
