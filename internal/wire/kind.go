package wire

// Kind is a sort of lock: what its keys and channels are called, what its messages mean, how many may
// hold it and how its state is read. What Redis does for it are the hooks in its Lua file. All else is
// written once for all kinds.
type Kind struct {
	Name    string // lua/<Name>.lua has the hooks
	Hooks   string // the text of that file where package lua has none such
	Holders int    // how many may hold at once, 0 for any number

	// Queue starts the name of the waiters' key, and Line does where the lock's name is a hash tag and
	// nothing else: the locks a and {a} have the same tag, and in one queue each would be given to the
	// other's waiters.
	Queue, Line string
	Counter     string // starts the name of the fencing counter
	Channel     *Channel

	// Further are keys that scripts take behind the first five. {} stands for the lock's hash tag, [] for
	// its name: as the locks a and {a} have the same tag, a key that is not to be theirs together has both.
	Further []string

	// Acquires and Releases are how many entries one command asks for, or ends: as many as keep others
	// waiting for some 0.2 ms.
	Acquires, Releases int

	// Read takes what the hook contents answers for a lock into its state.
	Read func(st *State, contents []string) error
}

// Channel is where waiters hear of a lock that do not stand in relock's queue. Kinds that
// Redisson tells over one channel share a Channel.
type Channel struct {
	Unlock string                    // starts the channel that tells that the lock may be free
	Listen string                    // starts the one beside it, which relock alone subscribes and tells turns on
	Frees  func(message string) bool // whether a message says that the lock may be free
}

// Shared reports whether several may hold at once.
func (k *Kind) Shared() bool { return k.Holders != 1 }

// Mutex is the lock that at most one owner holds: Redisson's RLock and RFencedLock.
var Mutex = Add(&Kind{
	Name:    "mutex",
	Holders: 1,
	Queue:   "relock_queue:",
	Line:    "relock_line:",
	Counter: "redisson_lock_token:",
	Channel: &Channel{
		Unlock: "redisson_lock__channel:",
		Listen: "relock_listen:",
		Frees:  func(message string) bool { return message == "0" }, // other locks of Redisson tell other numbers
	},
	Acquires: 16,
	Releases: 32,
	Read:     readHash,
})

// kinds are all there are, by name: a grant that comes for an entry that is not known any more names its
// kind.
var kinds = make(map[string]*Kind)

// kindOf returns the kind that a grant names, nil for an unknown one. The mutex's name none, as they
// did when there was no other.
func kindOf(name string, named bool) *Kind {
	if !named {
		return Mutex
	}
	return kinds[name]
}

// Add makes a kind known, so that its orphaned grants can be ended. It is called by init functions
// only.
func Add(k *Kind) *Kind {
	kinds[k.Name] = k
	ownPrefixes = append(ownPrefixes, k.prefixes()...)
	return k
}
