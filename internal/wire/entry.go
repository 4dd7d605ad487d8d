package wire

import (
	"cmp"
	crand "crypto/rand"
	"crypto/sha1"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Entry is one try for a lock. It never changes, and its id is never used again,
// so every command about it can be sent twice.
type Entry struct {
	Names   *Names
	ID      string // made by NewID; the field of the lock's hash that stands for the entry
	Owner   string // the id given to WithOwner, whose field stands beside it; "" for none
	Past    bool   // it asks past its gate: a holder of its own process does not see it wait there
	Lease   time.Duration
	Block   int           // fencing tokens that a grant reserves
	Amount  int           // how much it takes of a lock that is there several times; 0 of any other
	Timeout time.Duration // of one command about it
}

// Gate returns the name of the entry's gate in this process.
func (e *Entry) Gate() string { return e.Names.Gate(e.Amount) }

// Weight is how much work a command that keeps or ends the entry makes for Redis, among entries of its
// kind.
func (e *Entry) Weight() int { return max(1, e.Amount) }

// Asks is what scripts are told that a grant takes: so much of the lock or, where entries have no amounts,
// so many fencing tokens.
func (e *Entry) Asks() int { return cmp.Or(e.Amount, e.Block) }

// SharersCode is the message on an unlock channel that tells the waiters of an owner that they may
// enter: a number that stands for the owner, and is neither 0 nor 1. Redisson ignores all others.
func SharersCode(owner string) string {
	sum := sha1.Sum([]byte(owner))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:])>>16+2, 10)
}

// NewID returns the id of a client's nth entry, <client uuid>:<n><16 random digits>. By n, no other
// entry ever has it. By the digits it cannot be guessed: until the lock is granted, only readers of
// its queue know the id, so that nothing else can forge the grant. They are drawn for each entry, so
// that the copies of a process that was cloned draw different ones. Up to 10^11 entries an id has at
// most 64 bytes, the longest field with which Redis keeps a hash small.
func NewID(client string, n uint64) string {
	var drawn [8]byte
	_, _ = crand.Read(drawn[:]) // it never fails
	id := append(append(make([]byte, 0, 64), client...), ':')
	id = strconv.AppendUint(id, n, 10)
	return string(strconv.AppendUint(id, 1e15+binary.NativeEndian.Uint64(drawn[:])%9e15, 10))
}

// IsID reports whether text is of the form of an entry's id.
func IsID(text string) bool {
	client, n, _ := strings.Cut(text, ":")
	return client != "" && n != "" && strings.Trim(n, "0123456789") == "" && len(text) <= 256
}

// WaitingID is what may be shown of the id <client uuid>:<n> of an entry that waits: without the random
// digits.
func WaitingID(client, n string) string {
	if len(n) > 16 {
		n = n[:len(n)-16]
	}
	return client + ":" + n
}

// MinLook is the least pause between two looks, if a holder's lease is always about to end.
const MinLook = 2 * time.Millisecond

// LookAgain is how long after a question to ask again if no message comes. That is at the end of the
// holder's lease, since expiry publishes nothing, but no later than after a third of the entry's own
// lease, so that a grant can be dated. After the first answer it is a twelfth of the lease, and after
// the second a sixth: those questions told a holder that keeps the lock idle that it is wanted, and
// that message may have been lost. ttl is what the holder had left, negative if unknown, and answers
// is the number of answers so far. A random part keeps processes apart.
func (e *Entry) LookAgain(ttl time.Duration, answers int) time.Duration {
	pause := e.Lease / 3 >> max(0, 3-max(1, answers))
	pause += rand.N(pause/20 + 1)
	if ttl >= 0 && ttl < pause {
		pause = ttl + time.Millisecond
	}
	return max(pause, MinLook)
}

// Crowd paces the questions of a waiter whose lock has many holders: a question tells only some of them
// that the lock is wanted.
type Crowd struct {
	fewest int // least number of untold holders in an answer, 0 before the first answer
	stalls int // answers since that one
}

// soonest is how soon a waiter asks again for the sake of holders that were not told.
const soonest = 5 * time.Millisecond

// Soon returns the pause until the next question, which tells further holders. It returns 0 if that is
// no sooner than LookAgain's pause after a first answer. As long as each answer has fewer untold
// holders, since the told ones give way, the pause is soonest. Otherwise the pauses double.
func (c *Crowd) Soon(untold int, lease time.Duration) time.Duration {
	if untold == 0 {
		return 0
	}
	if c.stalls++; c.fewest == 0 || untold < c.fewest {
		*c = Crowd{fewest: untold}
	}
	if soon := soonest << min(c.stalls, 20); soon < lease/12 {
		return soon
	}
	return 0
}
