package wire

// Kind is a sort of lock: what Redis keeps for it, which is what the hooks in its Lua file do. All
// else is written once for all kinds.
type Kind struct {
	Name   string // lua/<Name>.lua has the hooks
	Shared bool   // several entries may hold at once
}

// Mutex is the lock that at most one owner holds: Redisson's RLock and RFencedLock.
var Mutex = &Kind{Name: "mutex"}

// kinds are all there are, by name: a grant that comes for an entry nobody knows any more names its
// kind.
var kinds = map[string]*Kind{Mutex.Name: Mutex}

// Add makes a kind known, so that its orphaned grants can be ended. It is called by init functions
// only.
func Add(k *Kind) *Kind {
	kinds[k.Name] = k
	return k
}
