package relock

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// State is what Redis knows of a lock at one instant. As JSON it is as in
//
//	{"held":true,"holder":"6f1c...:7","count":1,"ttl_ms":28500,"waiters":3,"reserved":1763870400000256,
//	 "holder_token":1763870400000001,"client":{"name":"billing","host":"pod-7f9c","pid":12}}
//
// where ttl_ms is -1 if the lease never ends. What is unknown is left out.
type State struct {
	Held    bool
	Holder  string        // owner field: an id of WithOwner, <client uuid>:<n>, <client uuid>:handle:… after HandOver, or Redisson's <uuid>:<thread id>
	Count   int           // the holder's hold count, of a Semaphore the permits that are held; 0 if it has unlocked, and WithMinHold keeps the lock for TTL
	Readers int           // of an RWMutex: holds of live relock processes, which readers of a process often share, and Redisson threads
	Permits int           // of a Semaphore: how many there are; 0 as long as no client has told Redis
	Free    int           // of a Semaphore: how many of them are free; negative if fewer were set than are held
	TTL     time.Duration // what is left of its lease; negative when it never ends
	Waiters int           // relock processes in the queue; Redisson's waiters are not known to Redis

	// Reserved is the last fencing token that was reserved, 0 when Redis keeps none. It is ahead of the
	// tokens in use: a grant reserves one for each time that the lock may be passed on in memory.
	Reserved int64
	// HolderToken is the first fencing token of the holder's grant. The lease in force has this token
	// or one that was reserved with it. It is 0 if Redis does not know it: for a holder of Redisson's,
	// and on a quorum.
	HolderToken int64

	// Client says which client holds the lock. It is zero unless both the holder's client and the
	// client that asks have WithClientName. It is zero for Redisson's holders, and for an owner of
	// WithOwner that several clients share.
	Client ClientInfo
}

// String tells a state in words, as in "held by billing on pod-7f9c (pid 12), 28s left, 3 waiting".
func (s State) String() string {
	text := "free"
	if s.Permits > 0 {
		text = fmt.Sprintf("%d of %d permits free", s.Free, s.Permits)
	} else if s.Held {
		who := wire.Owner(s.Holder, wire.Card(s.Client))
		if text = "held by " + who; s.Count == 0 {
			text = "kept (WithMinHold) after its unlock by " + who
		}
		if s.Count > 1 {
			text += fmt.Sprintf(" %d times", s.Count)
		}
		if s.TTL < 0 {
			text += ", without an end"
		} else {
			text += fmt.Sprintf(", %v left", s.TTL)
		}
	}
	if s.Waiters > 0 {
		text += fmt.Sprintf(", %d waiting", s.Waiters)
	}
	return text
}

// stateJSON is State as JSON has it.
type stateJSON struct {
	Held        bool       `json:"held"`
	Holder      string     `json:"holder,omitempty"`
	Count       int        `json:"count"`
	Readers     int        `json:"readers,omitempty"`
	Permits     int        `json:"permits,omitempty"`
	Free        *int       `json:"free,omitempty"`
	TTL         int64      `json:"ttl_ms"`
	Waiters     int        `json:"waiters"`
	Reserved    int64      `json:"reserved,omitempty"`
	HolderToken int64      `json:"holder_token,omitempty"`
	Client      ClientInfo `json:"client,omitzero"`
}

// MarshalJSON writes the lock's state with short names, and its TTL in milliseconds.
func (s State) MarshalJSON() ([]byte, error) {
	j := stateJSON{
		Held: s.Held, Holder: s.Holder, Count: s.Count, Readers: s.Readers, Permits: s.Permits,
		TTL: s.TTL.Milliseconds(), Waiters: s.Waiters, Reserved: s.Reserved, HolderToken: s.HolderToken, Client: s.Client,
	}
	if s.TTL < 0 {
		j.TTL = -1
	}
	if s.Permits > 0 {
		j.Free = &s.Free
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *State) UnmarshalJSON(text []byte) error {
	var j stateJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*s = State{
		Held: j.Held, Holder: j.Holder, Count: j.Count, Readers: j.Readers, Permits: j.Permits,
		TTL: time.Duration(j.TTL) * time.Millisecond, Waiters: j.Waiters, Reserved: j.Reserved, HolderToken: j.HolderToken, Client: j.Client,
	}
	if j.Free != nil {
		s.Free = *j.Free
	}
	return nil
}

// State returns what Redis knows of the lock at this instant. It may have changed when State
// returns. It fails with ErrUnavailable, in a *NodeError (*QuorumError on a quorum), if Redis does not
// answer, or is not asked because ctx had ended before; with ErrRefused if no retry helps; with
// ErrClosed or ErrMisuse as Lock does.
func (m *Mutex) State(ctx context.Context) (State, error) { return m.base().inspect(ctx) }

// inspect is Mutex.State, for every kind.
func (lk *lock) inspect(ctx context.Context) (State, error) {
	if err := lk.begin(ctx, driver.Inspect); err != nil {
		return State{}, outward(err)
	}
	defer lk.tally.End()
	st, err := lk.k.arbiter.Inspect(ctx, lk.names)
	if err != nil {
		return State{}, lk.k.explained(err)
	}
	return State{
		Held: st.Held, Holder: st.Holder, Count: st.Count, Readers: st.Readers, Permits: st.Permits, TTL: st.TTL, Waiters: st.Waiters,
		Reserved: st.Token, HolderToken: st.HolderToken, Client: ClientInfo(lk.k.presence.Whois(ctx, st.Client)),
	}, nil
}

// ForceUnlock frees the lock, whichever owner holds it, and hands it to the next waiter. It returns
// false when no owner held the lock, and fails as State does. A relock holder is told at once by a
// message, or with its next renewal if no message reaches it, as on a Cluster without sharded
// channels. Until then it believes that it holds the lock, so exclusion rests on the fencing token.
// On a quorum it fails unless a quorum of nodes has freed the lock. After a failure some nodes may
// be free. Redisson: RLock.forceUnlock.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) { return m.base().force(ctx) }

// force is Mutex.ForceUnlock, for every kind.
func (lk *lock) force(ctx context.Context) (bool, error) {
	if err := lk.begin(ctx, driver.Force); err != nil {
		return false, outward(err)
	}
	defer lk.tally.End()
	freed, err := lk.k.arbiter.Force(ctx, lk.names)
	return freed, lk.k.explained(err)
}
