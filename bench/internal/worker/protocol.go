// Package worker is a client process of the bench. It reads requests from its standard input, a JSON object a line, and
// answers each with a JSON object on its standard output. The Java worker has the same protocol.
package worker

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Env is set in the environment of worker processes.
const Env = "RELOCK_BENCH_WORKER"

// Kinds of requests.
const (
	Open    = "open"    // connect a peer
	Loop    = "loop"    // lock and unlock from Start for Millis, in Goroutines
	Hold    = "hold"    // take the lock and keep it, or as many permits as there are
	Release = "release" // give back what Hold took
	Wait    = "wait"    // start Goroutines that want the lock; answered once all have asked for it
	Join    = "join"    // wait for them, Millis at most
	Count   = "count"   // take permits for Millis, one by one, and give them back: how many there are
	Visit   = "visit"   // take the lock and give it back, Millis at most
	Take    = "take"    // take Goroutines locks, a key each, and keep them
	Drop    = "drop"    // give back what Take took
	Stats   = "stats"   // tell what was used so far
	Close   = "close"   // disconnect the peer
)

// Request asks a worker to do one thing.
type Request struct {
	Do string `json:"do"`

	Peer     string   `json:"peer,omitempty"` // for Open, as are the next ones
	Redis    string   `json:"redis,omitempty"`
	Nodes    []string `json:"nodes,omitempty"`
	Cluster  bool     `json:"cluster,omitempty"` // Redis is one of its masters
	Etcd     string   `json:"etcd,omitempty"`
	Embedded bool     `json:"embedded,omitempty"`
	LeaseMS  int64    `json:"lease_ms,omitempty"`
	Keep     bool     `json:"keep,omitempty"`
	Waiters  int      `json:"waiters,omitempty"`
	Permits  int      `json:"permits,omitempty"` // of the semaphore, 0: a lock; for all other requests too
	Board    string   `json:"board,omitempty"`

	Key        string `json:"key,omitempty"`
	KeyEach    bool   `json:"key_each,omitempty"` // every goroutine has a key of its own, made from Key
	KeyOnce    bool   `json:"key_once,omitempty"` // and a new one each time it locks
	Slot       int    `json:"slot,omitempty"`     // on the board; the first one if KeyEach
	Goroutines int    `json:"goroutines,omitempty"`
	Depth      int    `json:"depth,omitempty"`    // how often a goroutine enters the lock before it leaves; 0 is 1
	Reads      int    `json:"reads,omitempty"`    // of a hundred acquisitions, those that read; 0: no read-write lock
	Weights    int    `json:"weights,omitempty"`  // the most permits that an acquisition takes, one being the fewest; 0 is 1
	Locks      int    `json:"locks,omitempty"`    // each acquisition takes some of so many, made from Key; 0: there is one
	Together   int    `json:"together,omitempty"` // how many of Locks at once, chosen by chance; 0: any one
	CSMicros   int64  `json:"cs_us,omitempty"`    // length of the critical section
	Start      int64  `json:"start,omitempty"`    // of what counts in a Loop, board.Now's nanoseconds
	WarmMS     int64  `json:"warm_ms,omitempty"`  // how long before Start a Loop begins
	Millis     int64  `json:"millis,omitempty"`
}

// Reply is a worker's answer.
type Reply struct {
	Error string `json:"error,omitempty"`
	At    int64  `json:"at,omitempty"` // when the lock was had or given back, board.Now's nanoseconds

	Counts   []int64 `json:"counts,omitempty"` // acquisitions by goroutine
	Failed   int64   `json:"failed,omitempty"` // tries that the peer gave up
	Failure  string  `json:"failure,omitempty"`
	Overlaps int64   `json:"overlaps,omitempty"`
	Hung     int     `json:"hung,omitempty"`   // goroutines that did not come back
	Waited   int64   `json:"waited,omitempty"` // of a Visit, nanoseconds; all of Millis if the lock was not had
	Lost     int64   `json:"lost,omitempty"`

	Arrived []int64 `json:"arrived,omitempty"` // of each acquisition with Weights, board.Now's nanoseconds
	Granted []int64 `json:"granted,omitempty"` // the end, if it was waited for until then

	Wait     []byte `json:"wait,omitempty"`     // histograms of nanoseconds, HDR V2 compressed
	Handover []byte `json:"handover,omitempty"` // from an Unlock's begin to the next holder's return from Lock
	Pair     []byte `json:"pair,omitempty"`     // Lock and Unlock together

	Usage Usage `json:"usage"` // during the loop; since the process began for Stats
}

// Usage is the resources that a process has used.
type Usage struct {
	Commands map[string]int64 `json:"commands,omitempty"` // sent, by name
	CPU      time.Duration    `json:"cpu,omitempty"`
	Allocs   uint64           `json:"allocs,omitempty"`
	Bytes    uint64           `json:"bytes,omitempty"`  // allocated
	Memory   uint64           `json:"memory,omitempty"` // in use now, stacks included
}

// Sub returns the usage since before. The memory is not subtracted.
func (u Usage) Sub(before Usage) Usage {
	sent := make(map[string]int64)
	for name, n := range u.Commands {
		if n -= before.Commands[name]; n > 0 {
			sent[name] = n
		}
	}
	return Usage{Commands: sent, CPU: u.CPU - before.CPU, Allocs: u.Allocs - before.Allocs,
		Bytes: u.Bytes - before.Bytes, Memory: u.Memory}
}

// Histograms have values from a nanosecond to an hour, with three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Hour), 3)
}
