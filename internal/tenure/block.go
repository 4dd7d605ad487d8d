package tenure

import (
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// Block is the fencing tokens that a grant reserved, and how far the lock has been passed on inside
// this process: each lease takes the next token. Bounds keep other processes from starving: the lock
// goes back to Redis after so many leases, or after so long.
//
// Where no one else waits the next block is asked for while the last tokens of this one are used, so
// that the lock is not given back between them. The bounds then count from when that was asked, as
// they do for a grant.
type Block struct {
	Trip time.Duration // for how long the answer was on its way that granted the lock, or longer

	token int64       // the next one
	left  int         // tokens
	used  int         // leases that took one
	since clock.Stamp // when this process got the lock

	asked    bool // the next block
	usedThen int  // used, when it was asked for
	next     More // zero while that was not answered
}

// More is the tokens of another block, and when they were asked for.
type More struct {
	Token int64 // the first one
	Count int
	Sent  clock.Stamp
}

// Reserved is the block of a grant that came now.
func Reserved(m More, now clock.Stamp) Block {
	return Block{token: m.Token, left: m.Count, since: now, Trip: now.Since(m.Sent)}
}

// Since is when this process got the lock.
func (b *Block) Since() clock.Stamp { return b.since }

// Next is the next token.
func (b *Block) Next() int64 { return b.token }

// Take takes the next token for a lease.
func (b *Block) Take() int64 {
	token := b.token
	b.token++
	b.left--
	b.used++
	return token
}

// Left is how many tokens are left.
func (b *Block) Left() int { return b.left }

// Spent reports whether other processes are to be given a chance, or no token is left: after passes
// leases, and after d.
func (b *Block) Spent(passes int, d time.Duration, now clock.Stamp) bool {
	return b.left == 0 || b.used >= passes || now.Since(b.since) >= d
}

// refillPart of a block are left when the next one is asked for.
const refillPart = 4

// Runs reports whether the next block is to be asked for: where the last part of this one begins, and
// if the answer will be there in time. The lock went through the other parts in as many round trips,
// or more. Else the block would come too late, and its tokens would be lost, while leases that follow
// each other that fast need as many as the clock makes. size is how many tokens a grant reserves.
func (b *Block) Runs(size, passes int, now clock.Stamp) bool {
	size = min(size, passes)
	return !b.asked && min(b.left, passes-b.used) == size/refillPart && now.Since(b.since) >= (refillPart-1)*b.Trip
}

// Ask notes that the next block is asked for.
func (b *Block) Ask() { b.asked, b.usedThen, b.next = true, b.used, More{} }

// Awaited reports whether the next block was asked for, and not answered yet.
func (b *Block) Awaited() bool { return b.asked && b.next == More{} }

// Answered takes the next block.
func (b *Block) Answered(m More) { b.next = m }

// Go goes on with the next block, if there is one. A Redis that forgot how far it counted, and whose
// clock was set back, may count lower: its block is not used.
func (b *Block) Go() {
	if b.next.Token < b.token {
		return
	}
	b.token, b.left, b.since = b.next.Token, b.next.Count, b.next.Sent
	b.used -= b.usedThen
	b.asked, b.usedThen, b.next = false, 0, More{}
}
