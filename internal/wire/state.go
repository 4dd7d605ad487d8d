package wire

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// State is what one Redis knows of a lock at one instant.
type State struct {
	Held        bool
	Holder      string // owner field
	Count       int
	Readers     int           // of a read-write lock: how many hold it for reading
	Permits     int           // of a semaphore: how many there are, held or free
	TTL         time.Duration // of the lease; negative if it never ends
	Waiters     int
	Token       int64  // the last fencing token reserved
	HolderToken int64  // the first token of the holder's grant, 0 if Redis does not know it
	Client      string // uuid of the client that holds it, "" if that is not relock's, or several share it
}

// firstField is the field of a lock's hash that tells its grant: <first token>:<how many>[:<shared
// owner>].
const firstField = ownFields + "first"

// parseState reads inspect's answer for a lock of kind k.
func parseState(v driver.Value, k *Kind) (st State, err error) {
	got, err := v.Values()
	if err != nil {
		return st, fmt.Errorf("inspect: %w", err)
	}
	if len(got) != 4 {
		return st, fmt.Errorf("inspect: an answer of %d parts", len(got))
	}
	var n [3]int64
	for i := range n {
		if n[i], err = got[i].Int64(); err != nil {
			return st, err
		}
	}
	st.TTL, st.Waiters, st.Token = time.Duration(n[0])*time.Millisecond, int(n[1]), n[2]
	contents, err := got[3].Texts()
	if err != nil {
		return st, fmt.Errorf("inspect: %w", err)
	}
	if len(contents)%2 != 0 {
		return st, fmt.Errorf("inspect: a hash of %d parts", len(contents))
	}
	k.Read(&st, contents)
	if !st.Held {
		st.TTL = 0
	}
	return st, nil
}

// readRW is Read for a read-write lock.
func readRW(st *State, fields []string) {
	for i := 0; i < len(fields); i += 2 {
		field, value := fields[i], fields[i+1]
		switch field {
		case "mode":
			continue
		case "waiting": // readers; inspect counts writers
			n, _ := strconv.Atoi(value)
			st.Waiters += n
			continue
		}
		holder, writes := strings.CutSuffix(field, ":write")
		if !writes {
			st.Readers++
		}
		if writes || !st.Held {
			st.Held, st.Holder = true, holder
			count, grant, _ := strings.Cut(value, ":") // a reader has no grant there
			st.Count, _ = strconv.Atoi(count)
			st.HolderToken, _ = readGrant(grant)
		}
	}
	if st.Readers <= 1 {
		st.Client = ClientOf(st.Holder)
	}
}

// readPermits is Read for a semaphore. The holder is that whose lease ends next.
func readPermits(st *State, fields []string) {
	for i := 0; i < len(fields); i += 2 {
		switch n, _ := strconv.Atoi(fields[i+1]); fields[i] {
		case "permits":
			st.Permits = n
		case "held":
			st.Count, st.Held = n, n > 0
		case "holder":
			st.Holder, st.Client = fields[i+1], ClientOf(fields[i+1])
		}
	}
}

// sharer is the field of an entry that shares an owner: a client's uuid and a number.
var sharer = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f-]{27}:[0-9]+$`)

// readHash is Read for a lock that is a hash with a field for each holder. Beside a shared owner's
// count stand the entries that share it, one field each. If the grant does not name the owner, the
// owner is the field with the highest count, and among equal counts the field that no client made.
func readHash(st *State, fields []string) {
	token, owner, _ := grantIn(fields)
	st.HolderToken = token
	for i := 0; i < len(fields); i += 2 {
		field := fields[i]
		count, err := strconv.Atoi(fields[i+1])
		if err != nil || strings.HasPrefix(field, ownFields) || owner != "" && field != owner {
			continue // no hold count: our own, or the mode that Redisson's other locks keep beside them
		}
		if !st.Held || count > st.Count || count == st.Count && sharer.MatchString(st.Holder) {
			st.Holder, st.Count = field, count
		}
		st.Held = true
	}
	st.Client = ClientIn(fields)
}

// grantIn finds the grant among the fields of a lock's hash and their values: its first token, and
// its shared owner, "" for none.
func grantIn(fields []string) (token int64, owner string, found bool) {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == firstField {
			token, owner = readGrant(fields[i+1])
			return token, owner, true
		}
	}
	return 0, "", false
}

// readGrant reads <first token>:<how many>[:<shared owner>].
func readGrant(text string) (token int64, owner string) {
	first, rest, _ := strings.Cut(text, ":")
	token, _ = strconv.ParseInt(first, 10, 64)
	_, owner, _ = strings.Cut(rest, ":")
	return token, owner
}
