package wire

import "strconv"

// Kind is a sort of lock: what its keys and channels are called, what its messages mean, how many may
// hold it and how its state is read. What Redis does for it are the hooks in its Lua file. All else is
// written once for all kinds.
type Kind struct {
	Name    string // lua/<Name>.lua has the hooks
	Nr      uint64 // a number of its own
	Holders int    // how many may hold at once, 0 for any number
	Quorum  bool   // a quorum may decide it, not only a single Redis

	// Queue starts the name of the waiters' key. For a lock whose whole name is a hash tag, Line does:
	// the locks a and {a} have the same tag, and in one queue each would be given to the other's
	// waiters.
	Queue, Line string
	Counter     string // starts the name of the fencing counter
	Channel     *Channel

	// Joint says that the callers of one process share a hold, which counts once in Redis however many
	// they are.
	Joint bool

	// Permits says that the lock is a limit: each lease takes more of it, also under the context of another,
	// none has a fencing token, and Redis keeps how much there is of the lock.
	Permits bool

	// Moves says that a holder may hand the lock over to another process: the kind has the hook succeed.
	Moves bool

	// Results says that a run under the lock may leave its result: a hold is a field of a hash, by its entry's id.
	Results bool

	// Further are keys that scripts take behind the first five. {} stands for the lock's hash tag, [] for
	// its name. A key that the locks a and {a} must not share needs both, since they have the same tag: if
	// one has no [], no lock of the kind may be called {a}.
	Further []string

	// Keeps are the keys of the scripts that lengthen a lease. Without Keeps these scripts take the lock's
	// key alone, or all keys if there are further ones. {} and [] stand for the same as in Further, () for
	// the entry's id. The keys must exist as long as the entry holds the lock: on a Cluster whose slot is
	// on the move, Redis refuses a command that names an existing key and a missing one.
	Keeps []string

	// Waits is the index of the key in which its waiters stand, among all keys of a lock; 0 stands for
	// the queue.
	Waits int

	// Acquires and Releases are how many entries one command asks for, or ends, at most. So many keep
	// other commands waiting for some 0.2 ms.
	Acquires, Releases int

	// Read reads the answer of the hook contents, fields and values by turns, into a lock's state.
	Read func(st *State, contents []string)
}

// Channel is where waiters that are not in relock's queue hear of a lock. Kinds for which Redisson uses
// one channel share a Channel.
type Channel struct {
	Unlock string                    // prefix of the channel that tells that the lock may be free
	Listen string                    // prefix of the channel for turns: only relock's clients subscribe it
	Frees  func(message string) bool // whether a message says that the lock may be free
}

// Shared reports whether several may hold at once.
func (k *Kind) Shared() bool { return k.Holders != 1 }

// Mutex is the lock that at most one owner holds: Redisson's RLock and RFencedLock.
var Mutex = Add(&Kind{
	Name:    "mutex",
	Holders: 1,
	Quorum:  true,
	Moves:   true,
	Results: true,
	Queue:   "relock_queue:",
	Line:    "relock_line:",
	Counter: "redisson_lock_token:",
	Channel: &Channel{
		Unlock: "redisson_lock__channel:",
		Listen: "relock_listen:",
		Frees:  tellsOneOrAll,
	},
	Acquires: 16,
	Releases: 32,
	Read:     readHash,
})

// Read and Write are the two sides of Redisson's RReadWriteLock, which have the same keys.
var (
	Read  = Add(rw(Kind{Name: "read", Joint: true, Waits: 5, Keeps: []string{"[]", "{}:():rwlock_timeout:1"}}))
	Write = Add(rw(Kind{Name: "write", Holders: 1, Keeps: []string{"[]"}}))
)

// Semaphore is a number of permits, each of which one entry holds: Redisson's RPermitExpirableSemaphore.
var Semaphore = Add(&Kind{
	Name:    "semaphore",
	Permits: true,
	Queue:   "relock_permits:",
	Line:    "relock_permit_line:",
	Counter: "relock_permit_grants:",
	Further: []string{"{}:timeout"},
	Keeps:   []string{"[]", "{}:timeout"},
	Channel: &Channel{
		Unlock: "redisson_sc:",
		Listen: "relock_sclisten:",
		Frees: func(message string) bool { // how many permits are free
			n, err := strconv.Atoi(message)
			return err == nil && n > 0
		},
	},
	Acquires: 8,
	Releases: 8,
	Read:     readPermits,
})

// tellsOneOrAll knows the messages of Redisson's locks: 0 for one of its waiters, 1 for all of them. A mutex's
// is 1 when it is handed over for less than its waiters were told.
func tellsOneOrAll(message string) bool { return message == "0" || message == "1" }

// rwChannel is where Redisson's read-write locks tell that they may be free.
var rwChannel = &Channel{
	Unlock: "redisson_rwlock:",
	Listen: "relock_rwlisten:",
	Frees:  tellsOneOrAll,
}

// rw completes k, the readers' or the writers' side of a read-write lock, with what the sides share.
func rw(k Kind) *Kind {
	k.Queue, k.Line, k.Counter, k.Channel = "relock_writers:", "relock_writer_line:", "redisson_lock_token:", rwChannel
	k.Further = []string{"relock_readers:{}:[]", "relock_phase:{}:[]"}
	k.Acquires, k.Releases, k.Read = 8, 8, readRW
	return &k
}

// kinds are all kinds, by name. A grant names its kind, so that it can be given back even if its entry
// is not known any more.
var kinds = make(map[string]*Kind)

// kindOf returns the kind that a grant names, nil for an unknown name. A grant that names no kind is a
// mutex's.
func kindOf(name string, named bool) *Kind {
	if !named {
		return Mutex
	}
	return kinds[name]
}

// Kinds returns the number of kinds. Each kind's Nr is below it.
func Kinds() uint64 { return uint64(len(kinds)) }

// Add makes a kind known, so that its orphaned grants can be ended. It is called by init functions
// only.
func Add(k *Kind) *Kind {
	k.Nr = uint64(len(kinds))
	kinds[k.Name] = k
	ownPrefixes = append(ownPrefixes, k.prefixes()...)
	return k
}
