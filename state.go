package relock

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
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

	// Token is the last fencing token reserved, 0 when Redis keeps none. It is ahead of those in use: a grant reserves as
	// many as the lock may be passed on in memory.
	Token int64
	// HolderToken is the first fencing token of the holder's grant. The lease in force has this one or one of those
	// reserved behind it. It is 0 where Redis does not know it: of a lock of Redisson's, and on several nodes, where it is
	// a quorum's.
	HolderToken int64
}

// firstField is the field of a lock's hash that tells its grant: <first token>:<how many>[:<shared owner>].
const firstField = ownFields + "first"

// parseState reads inspect's reply.
func parseState(got []rueidis.RedisMessage) (st State, err error) {
	if len(got) != 4 {
		return st, fmt.Errorf("inspect: answer of %d parts", len(got))
	}
	var n [3]int64
	for i := range n {
		if n[i], err = got[i].AsInt64(); err != nil {
			return st, err
		}
	}
	st.TTL, st.Waiters, st.Token = time.Duration(n[0])*time.Millisecond, int(n[1]), n[2]
	fields, err := got[3].AsStrSlice()
	if err != nil || len(fields)%2 != 0 {
		return st, fmt.Errorf("inspect: a hash of %d parts: %w", len(fields), err)
	}
	st.read(fields)
	if !st.Held {
		st.TTL = 0
	}
	return st, nil
}

// sharer is the field of an acquisition that shares an owner: a client's uuid and a number.
var sharer = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f-]{27}:[0-9]+$`)

// read finds the holder among a hash's fields and their values. Beside a shared owner's count stand the acquisitions that
// share it, one field each. Where the grant does not name the owner, it is the field that counts most, and among those
// that count alike the one that no client made.
func (st *State) read(fields []string) {
	owner := ""
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == firstField {
			first, rest, _ := strings.Cut(fields[i+1], ":")
			st.HolderToken, _ = strconv.ParseInt(first, 10, 64)
			_, owner, _ = strings.Cut(rest, ":")
		}
	}
	for i := 0; i < len(fields); i += 2 {
		field := fields[i]
		count, err := strconv.Atoi(fields[i+1])
		if err != nil || strings.HasPrefix(field, ownFields) || owner != "" && field != owner {
			continue // what is no hold count: ours, and the mode that Redisson's other locks keep beside them
		}
		if !st.Held || count > st.Count || count == st.Count && sharer.MatchString(st.Holder) {
			st.Holder, st.Count = field, count
		}
		st.Held = true
	}
}
