// Package peer has the locks that are measured, each in a file of its own behind one small interface.
package peer

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/relock-go/relock/bench/internal/wire"
)

// Peer is one kind of lock, connected to its server. Its methods may be called from any goroutine.
type Peer interface {
	// Lock takes the lock named key. It returns when the lock is held, ctx has ended, or the peer gave up by its own
	// rules.
	Lock(ctx context.Context, key string) (Held, error)
	// Close disconnects. Locks still held are left to their leases.
	Close()
}

// ReadWriter is a peer that has read-write locks. Those that have none take part with their mutexes.
type ReadWriter interface {
	RLock(ctx context.Context, key string) (Held, error)
	WLock(ctx context.Context, key string) (Held, error)
}

// Semaphores is a peer that has semaphores.
type Semaphores interface {
	// Acquire takes k of the n permits of the semaphore named key.
	Acquire(ctx context.Context, key string, n, k int) (Held, error)
}

// Several is a peer that takes several locks together.
type Several interface {
	LockAll(ctx context.Context, keys []string) (Held, error)
}

// AnyOf is a peer that takes one of several locks, whichever is free.
type AnyOf interface {
	// LockAny returns which of keys it took, -1 if that is not known.
	LockAny(ctx context.Context, keys []string) (Held, int, error)
}

// Held is a lock that is held, or permits.
type Held interface {
	// Context is what a nested Lock is called with. Where the peer can tell, it is done when the lock is lost.
	Context() context.Context
	// Unlock gives the lock back. It fails when the lock was lost before.
	Unlock(ctx context.Context) error
}

// Env is what a peer is opened with.
type Env struct {
	Redis    string        // URL
	Cluster  bool          // Redis is one of the masters of a Cluster
	Nodes    []string      // URLs of the masters of a quorum, for the peers that can use one; none: Redis decides alone
	Etcd     string        // address, for the peers that need one
	Lease    time.Duration // 0: the peer's own default
	Waiters  int           // how many goroutines will want one lock at once
	Permits  int           // how many permits of a semaphore are held at once; 0: none
	Keep     bool          // leases are held for long: keep them alive, in the way the peer's documentation shows
	Embedded bool          // the server is the embedded one, which lacks RESP3 and client tracking
	Wire     *wire.Counter
}

// Spec describes a peer.
type Spec struct {
	Name   string
	Module string // whose version is the peer's
	Setup  string // how it is configured, after which document
	Open   func(Env) (Peer, error)

	Reentrant bool // takes a lock again that it holds
	Keeps     bool // leases live as long as they are held
	Quorum    bool // can be held by a quorum of masters
	Cluster   bool // can be held on a Redis Cluster
	Cached    bool // stays held after Unlock until somebody else wants it
	Once      bool // takes part only where each name is locked once
	Semaphore bool // has semaphores
	Weighted  bool // its semaphores give several permits at once
	Several   bool // takes several locks together
	AnyOf     bool // takes one of several locks
	NoMutex   bool // has nothing else: its mutex is a semaphore with one permit
	Baseline  bool // no lock that anybody chooses: measured to compare with
	NeedsEtcd bool
	JVM       string // the lock's name in the Java worker; Open is nil then

	// A peer of an earlier commit runs in a worker of that commit.
	Worker  []string // its command line; nil: the worker is the bench's own
	Known   string   // the name the worker knows the peer by; "": Name
	Version string   // "": that of Module

	// RenewEvery is how often a lease of that length is renewed.
	RenewEvery func(lease time.Duration) time.Duration
	// Lease is the peer's default lease.
	Lease time.Duration
}

// All returns the peers of a run in the order of its tables.
func All() []Spec {
	return []Spec{
		relockSpec(), relockRemoteSpec(), relockCachedSpec(), relockLingerSpec(), relockGoRedisSpec(), relockValkeySpec(), redsyncSpec(), redislockSpec(), rueidislockSpec(), spinSpec(), retrySpec(),
		etcdSpec(), redissonSpec("redisson"), redissonSpec("redisson-fair"), zsetSpec(), asynqSpec(),
		rawSpec(), oneNodeSpec(), relockMutexSpec(), oneByOneSpec(), permitSpec(), inProcessSpec(), weightedSpec(), noneSpec(),
	}
}

func third(lease time.Duration) time.Duration { return lease / 3 }

// leaseOr returns the lease asked for, or the default.
func (e Env) leaseOr(d time.Duration) time.Duration {
	if e.Lease > 0 {
		return e.Lease
	}
	return d
}

// rueidisOption returns rueidis's default options with a dialer that counts.
func (e Env) rueidisOption() (rueidis.ClientOption, error) {
	o, err := rueidis.ParseURL(e.Redis)
	if err != nil {
		return o, fmt.Errorf("redis URL: %w", err)
	}
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		return e.Wire.Dial(ctx, d, addr, t)
	}
	if e.Embedded {
		o.DisableCache, o.ForceSingleClient, o.AlwaysRESP2 = true, true, true
	}
	return o, nil
}

func (e Env) rueidisClient() (rueidis.Client, error) {
	o, err := e.rueidisOption()
	if err != nil {
		return nil, err
	}
	return rueidis.NewClient(o)
}

// valkeyClient returns a valkey-go client with its default options and a dialer that counts.
func (e Env) valkeyClient() (valkey.Client, error) {
	o, err := valkey.ParseURL(e.Redis)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		return e.Wire.Dial(ctx, d, addr, t)
	}
	if e.Embedded {
		o.DisableCache, o.ForceSingleClient, o.AlwaysRESP2 = true, true, true
	}
	return valkey.NewClient(o)
}

// goRedisClient returns a go-redis client with its default options and a dialer that counts.
func (e Env) goRedisClient() (goredis.UniversalClient, error) {
	o, err := goredis.ParseURL(e.Redis)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 5 * time.Minute}
	o.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) {
		return e.Wire.Dial(ctx, &dialer, addr, o.TLSConfig)
	}
	if e.Cluster {
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
		}), nil
	}
	return goredis.NewClient(o), nil
}

// connectAll connects to every node, or to the only Redis.
func connectAll[C any](e Env, connect func(Env) (C, error), disconnect func(C)) ([]C, error) {
	urls := e.Nodes
	if len(urls) == 0 {
		urls = []string{e.Redis}
	}
	var clients []C
	for _, url := range urls {
		e.Redis = url
		c, err := connect(e)
		if err != nil {
			for _, c := range clients {
				disconnect(c)
			}
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

// heldFunc is a held lock that has nothing to say but how it is unlocked.
type heldFunc struct {
	ctx    context.Context
	unlock func(context.Context) error
}

func (h heldFunc) Context() context.Context         { return h.ctx }
func (h heldFunc) Unlock(ctx context.Context) error { return h.unlock(ctx) }
