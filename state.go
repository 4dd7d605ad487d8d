package relock

import (
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// State is what Redis knows of a lock at one instant.
type State struct {
	Held    bool
	Holder  string        // owner field: an id of WithOwner, <client uuid>:<n>, or Redisson's <uuid>:<thread id>
	Count   int           // the holder's hold count
	TTL     time.Duration // what is left of its lease; negative when it never ends
	Waiters int           // relock processes in the queue; Redisson's waiters are not known to Redis
	Token   int64         // the last fencing token reserved
}

// parseState reads inspect's reply. Beside a shared owner's count stand the acquisitions that share it, one field each:
// the owner is the field that no client made.
func parseState(got []rueidis.RedisMessage) (st State, err error) {
	if len(got) < 3 || len(got)%2 == 0 {
		return st, fmt.Errorf("inspect: answer of %d parts", len(got))
	}
	var n [3]int64
	for i := range n {
		if n[i], err = got[i].AsInt64(); err != nil {
			return st, err
		}
	}
	st.TTL, st.Waiters, st.Token = time.Duration(n[0])*time.Millisecond, int(n[1]), n[2]
	for i := 3; i < len(got); i += 2 {
		field, err := got[i].ToString()
		if err != nil {
			return st, err
		}
		count, err := got[i+1].AsInt64()
		if err != nil {
			continue // not a hold count: Redisson's other locks keep a mode beside them
		}
		if !st.Held || count > int64(st.Count) {
			st.Holder, st.Count = field, int(count)
		}
		st.Held = true
	}
	if !st.Held {
		st.TTL = 0
	}
	return st, nil
}
