package tenure

import (
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// Block is the fencing tokens that a grant reserved, and how far the lock has been passed on inside
// this process: each lease takes the next token. Bounds keep other processes from starving: the
// lock goes back to Redis after so many leases, or after so long.
//
// If no other process waits, this process asks for the next block while it uses the last tokens of
// this one, so that the lock need not go back to Redis in between. The bounds of the next block
// count from when it was asked for.
type Block struct {
	Trip time.Duration // how long the grant took from request to answer

	token int64       // the next one
	left  int         // tokens that no lease has taken
	used  int         // leases that took one
	since clock.Stamp // the bounds count from here, see Since

	asked    bool // the next block was asked for
	usedThen int  // used, when it was asked for
	next     More // the next block; zero until the answer comes
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

// Spent reports whether the lock is to go back to Redis: no token is left, the block has served
// passes leases, or d has passed.
func (b *Block) Spent(passes int, d time.Duration, now clock.Stamp) bool {
	return b.left == 0 || b.used >= passes || now.Since(b.since) >= d
}

// refillPart says when to ask for the next block: when 1/refillPart of this one is left.
const refillPart = 4

// RunsLow reports whether to ask for the next block now: only the last quarter of this one is left,
// and the first three quarters took at least three round trips, so the answer should come in time.
// Faster leases would use the rest up first. The lock would then go back to Redis, and the new
// block's tokens would be wasted. (Tokens are microseconds of the server's clock: such leases use
// them up about as fast as time passes.) size is how many tokens a grant reserves, passes the most
// leases per block.
func (b *Block) RunsLow(size, passes int, now clock.Stamp) bool {
	size = min(size, passes)
	return !b.asked && min(b.left, passes-b.used) == size/refillPart && now.Since(b.since) >= (refillPart-1)*b.Trip
}

// Ask notes that the next block is asked for.
func (b *Block) Ask() { b.asked, b.usedThen, b.next = true, b.used, More{} }

// Awaited reports whether the next block was asked for, and the answer has not come yet.
func (b *Block) Awaited() bool { return b.asked && b.next == More{} }

// Answered takes the answer to Ask: the next block.
func (b *Block) Answered(m More) { b.next = m }

// Continue makes the next block the current one, if the answer has come. Leases that began before
// it was asked for count no longer. A Redis that forgot how far it counted, and whose clock was set
// back, may count lower: its block is not used, since tokens never fall, and no other is asked for.
func (b *Block) Continue() {
	if b.next.Token < b.token {
		return
	}
	b.token, b.left, b.since = b.next.Token, b.next.Count, b.next.Sent
	b.used -= b.usedThen
	b.asked, b.usedThen, b.next = false, 0, More{}
}
