package tenure

import (
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// Block is the fencing tokens that a grant reserved, and how far the lock has been passed on inside
// this process: each lease takes the next token. Bounds keep other processes from starving: the
// lock goes back to Redis after so many leases, or after so long.
//
// If no other process waits, the next block is asked for while the last tokens of this one are
// used, so that the lock need not be given back between them. The bounds then count from when it
// was asked for, as they do for a grant.
type Block struct {
	Trip time.Duration // how long the answer that granted the lock was on its way, at most

	token int64       // the next one
	left  int         // tokens that no lease has taken
	used  int         // leases that took one
	since clock.Stamp // when this process got the lock; from the second block on, when that was asked for

	asked    bool // the next block was asked for
	usedThen int  // used, at that time
	next     More // the next block; zero before it is answered
}

// More is the tokens of a block, and when they were asked for.
type More struct {
	Token int64 // the first one
	Count int
	Sent  clock.Stamp
}

// Reserved is the block of a grant that came now.
func Reserved(m More, now clock.Stamp) Block {
	return Block{token: m.Token, left: m.Count, since: now, Trip: now.Since(m.Sent)}
}

// Since is when the block's bounds begin to count: when this process got the lock, or asked for the
// block.
func (b *Block) Since() clock.Stamp { return b.since }

// Next is the token of the next lease.
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

// Spent reports whether the lock is to go back to Redis: no token is left, passes leases have had
// it, or d is over.
func (b *Block) Spent(passes int, d time.Duration, now clock.Stamp) bool {
	return b.left == 0 || b.used >= passes || now.Since(b.since) >= d
}

// refillPart says when the next block is asked for: when one of so many parts of this block is
// left.
const refillPart = 4

// RunsLow reports whether it is time to ask for the next block: the last part of this one begins,
// and the answer will come before that part is used up. This is expected if the other parts took a
// round trip each, or longer. Else the lock is given back before the answer comes, and the tokens
// of the next block are lost. That would be a waste where leases are so fast: they use tokens up
// about as fast as the server's clock makes new ones. size is how many tokens a grant reserves.
func (b *Block) RunsLow(size, passes int, now clock.Stamp) bool {
	size = min(size, passes)
	return !b.asked && min(b.left, passes-b.used) == size/refillPart && now.Since(b.since) >= (refillPart-1)*b.Trip
}

// Ask notes that the next block is asked for.
func (b *Block) Ask() { b.asked, b.usedThen, b.next = true, b.used, More{} }

// Awaited reports whether the next block was asked for and not answered yet.
func (b *Block) Awaited() bool { return b.asked && b.next == More{} }

// Answered takes the answer to Ask: the next block.
func (b *Block) Answered(m More) { b.next = m }

// Continue makes the next block the current one, if it was answered. Leases that began before it was
// asked for count no longer. A Redis that forgot how far it counted, and whose clock was set back, may
// count lower: its block is not used, since tokens never fall, and no other is asked for.
func (b *Block) Continue() {
	if b.next.Token < b.token {
		return
	}
	b.token, b.left, b.since = b.next.Token, b.next.Count, b.next.Sent
	b.used -= b.usedThen
	b.asked, b.usedThen, b.next = false, 0, More{}
}
