package relock

import (
	"context"
	"time"
)

// State is what Redis knows of a lock at one instant.
type State struct {
	Held    bool
	Holder  string        // owner field: an id of WithOwner, <client uuid>:<n>, or Redisson's <uuid>:<thread id>
	Count   int           // the holder's hold count
	TTL     time.Duration // what is left of its lease; negative when it never ends
	Waiters int           // relock processes in the queue; Redisson's waiters are not known to Redis

	// Token is the last fencing token reserved, 0 when Redis keeps none. It is ahead of those in
	// use: a grant reserves as many as the lock may be passed on in memory.
	Token int64
	// HolderToken is the first fencing token of the holder's grant. The lease in force has this one
	// or one of those reserved behind it. It is 0 where Redis does not know it: of a lock of
	// Redisson's, and on several nodes, where it is a quorum's.
	HolderToken int64

	// By says who holds the lock, where the holder's client has WithClientName and so has the client
	// that asks; else it is zero. It is zero for Redisson's holders, and for an owner of WithOwner that
	// several clients share.
	By Holder
}

// State returns what Redis knows of the lock at this instant. It may have changed when State
// returns.
func (m *Mutex) State(ctx context.Context) (State, error) {
	if err := m.of().begin(ctx); err != nil {
		return State{}, outward(err)
	}
	defer m.k.end(m.tally)
	st, err := m.k.arb.inspect(ctx, m.names)
	if err != nil {
		return State{}, outward(err)
	}
	return State{
		Held: st.Held, Holder: st.Holder, Count: st.Count, TTL: st.TTL, Waiters: st.Waiters,
		Token: st.Token, HolderToken: st.HolderToken, By: m.k.plate.whois(ctx, st.Client),
	}, nil
}

// ForceUnlock frees the lock whoever holds it and hands it to the next waiter. A relock holder is
// told at once, or with its next renewal if it cannot be reached; until then it believes that it
// holds the lock, so exclusion rests on the fencing token. It returns false when nobody held the
// lock. Redisson: RLock.forceUnlock.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.of().begin(ctx); err != nil {
		return false, outward(err)
	}
	defer m.k.end(m.tally)
	freed, err := m.k.arb.force(ctx, m.kind, m.names)
	return freed, outward(err)
}
