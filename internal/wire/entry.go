package wire

import (
	"math/rand/v2"
	"time"
)

// Entry is one try for a lock: who asks for what. It never changes, and its id is never used again,
// so every command about it can be sent twice.
type Entry struct {
	Kind    *Kind
	Names   *Names
	ID      string // <client uuid>:<n>: the owner's field in Redis
	Owner   string // of WithOwner; "" when the id is the owner
	Lease   time.Duration
	Block   int           // fencing tokens that a grant reserves
	Timeout time.Duration // of one command about it
}

// MinLook keeps looks apart when a holder's lease is always about to end.
const MinLook = 2 * time.Millisecond

// LookAgain is how long after a question to ask again if no message comes: at the end of the
// holder's lease, since expiry publishes nothing, and after a third of the entry's own, so that a
// grant can be dated. ttl is what the holder had left, negative where that is unknown. A random
// part keeps processes apart.
func (e *Entry) LookAgain(ttl time.Duration) time.Duration {
	pause := e.Lease / 3
	pause += rand.N(pause/20 + 1)
	if ttl >= 0 && ttl < pause {
		pause = ttl + time.Millisecond
	}
	return max(pause, MinLook)
}
