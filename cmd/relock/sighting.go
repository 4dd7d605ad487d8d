package main

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// sighting is what was seen of a lock, on one Redis or, merged, on a quorum.
type sighting struct {
	names   *wire.Names
	kind    string // "" for a hash that is no lock
	held    bool
	holder  string // owner field
	count   int    // the holder's hold count
	ttl     time.Duration
	age     time.Duration // negative where it is unknown
	waiters int
	longest time.Duration // how long the first of them has waited
	token   int64         // the first fencing token of the grant in force, 0 where it is unknown
	nodes   int           // of a quorum, how many keep it for the holder
}

const (
	kindRelock   = "relock"
	kindRedisson = "redisson"
)

// The fields of a lock's hash that are no owner's.
const (
	firstField = "relock:first" // <first token>:<how many>[:<shared owner>]
	voteField  = "relock:vote"  // <grant number>:<ticket>, on a node of a quorum
	modeField  = "mode"         // of Redisson's read and write locks
)

// ownerField is what clients of relock and Redisson name an acquisition, but for relock's shared
// owners.
var ownerField = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:[0-9]+`)

// read finds out what the fields of a hash and their values, one behind the other, say. now is the
// server's time. Beside a shared owner's count stand the entries that share it. Where the grant
// does not name the owner, it is the field that counts most, and among those that count alike the
// one that no client made.
func (s *sighting) read(fields []string, now time.Time) {
	values := make(map[string]string)
	for i := 0; i+1 < len(fields); i += 2 {
		values[fields[i]] = fields[i+1]
	}
	s.classify(values)
	s.age = -1
	owner := ""
	if first, found := values[firstField]; found {
		number, rest, _ := strings.Cut(first, ":")
		s.token, _ = strconv.ParseInt(number, 10, 64)
		s.age = since(number, now)
		_, owner, _ = strings.Cut(rest, ":")
	}
	if vote, found := values[voteField]; found {
		number, _, _ := strings.Cut(vote, ":")
		s.token, s.age = 0, since(number, now)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		field := fields[i]
		count, err := strconv.Atoi(fields[i+1])
		if err != nil || strings.HasPrefix(field, "relock:") || owner != "" && field != owner {
			continue
		}
		if !s.held || count > s.count || count == s.count && ownerField.MatchString(s.holder) {
			s.holder, s.count = field, count
		}
		s.held = true
	}
}

// since reads a fencing token, which is the server's time of the grant in microseconds, unless the
// counter ran ahead.
func since(token string, now time.Time) time.Duration {
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil || n < 1e15 { // of Redisson's counting
		return -1
	}
	return max(0, now.Sub(time.UnixMicro(n)))
}

// classify says whose lock a hash is: relock's notes are in it, or all its fields are owners'.
func (s *sighting) classify(values map[string]string) {
	mode := values[modeField]
	switch {
	case values[firstField] != "" || values[voteField] != "":
		s.kind = kindRelock
		return
	case mode == "read" || mode == "write":
		s.kind = kindRedisson + " " + mode
		return
	}
	for field, count := range values {
		if _, err := strconv.Atoi(count); err != nil || !ownerField.MatchString(field) {
			return
		}
	}
	if len(values) > 0 {
		s.kind = kindRedisson
	}
}

// merge makes one sighting of what the nodes of a quorum keep for one lock. It is held by the owner
// that need of them keep it for, since the last of those joined and until the first leaves.
func merge(seen []sighting, need int) sighting {
	votes := make(map[string][]sighting)
	all := sighting{names: seen[0].names, age: -1}
	for _, s := range seen {
		all.waiters, all.longest = max(all.waiters, s.waiters), max(all.longest, s.longest)
		if s.kind != "" {
			all.kind = s.kind
		}
		if s.held {
			votes[s.holder] = append(votes[s.holder], s)
		}
	}
	for holder, kept := range votes {
		if len(kept) < all.nodes || len(kept) == all.nodes && holder > all.holder {
			continue
		}
		all.holder, all.nodes, all.held = holder, len(kept), len(kept) >= need
		at := min(need, len(kept)) - 1
		slices.SortFunc(kept, func(a, b sighting) int { return compareTTL(b.ttl, a.ttl) })
		all.ttl, all.count = kept[at].ttl, kept[0].count
		slices.SortFunc(kept, func(a, b sighting) int { return cmp.Compare(b.age, a.age) })
		all.age = kept[at].age
	}
	return all
}

// compareTTL puts what never ends behind all that does.
func compareTTL(a, b time.Duration) int {
	forever := func(d time.Duration) int {
		if d < 0 {
			return 1
		}
		return 0
	}
	return cmp.Or(forever(a)-forever(b), cmp.Compare(a, b))
}
