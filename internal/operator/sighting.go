package operator

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// A Sighting is what was seen of a lock, on one Redis or, merged, on a quorum.
type Sighting struct {
	Names   *wire.Names
	Kind    string // "" for a hash that is no lock
	Held    bool
	Holder  string        // owner field
	Count   int           // the holder's hold count; of a lock that is read, how many read it; of a semaphore, permits held
	TTL     time.Duration // negative where it never ends
	Age     time.Duration // since the grant, negative where it is unknown
	Waiters int
	Longest time.Duration // how long the first of them has waited, by its ticket; 0 where none waits
	Token   int64         // the first fencing token of the grant in force, 0 where it is unknown
	Nodes   int           // of a quorum, how many keep it for the holder
	By      wire.Card     // what the holder's client says of itself
	Holders []Holding     // of a lock that is read, and of a semaphore: the holders, but not all of very many
	Permits int           // of a semaphore: its size, -1 where it is unknown
	Free    int           // of a semaphore: permits

	client string // the holder's uuid
}

// A Holding is one of several that hold a lock.
type Holding struct {
	Owner string        // owner field
	By    wire.Card     // what its client says of itself; it is read for single locks
	Count int           // of a semaphore: permits
	TTL   time.Duration // of a semaphore: negative where it never ends
}

// Kinds of locks. The kind of a read-write lock has its mode behind it: "relock read", "redisson
// write" and so on.
const (
	KindRelock   = "relock"
	KindRedisson = "redisson"
)

// The fields of a lock's hash that are no owner's.
const (
	firstField = "relock:first" // <first token>:<how many>[:<shared owner>]
	voteField  = "relock:vote"  // <grant number>:<ticket>, on a node of a quorum
	modeField  = "mode"         // of read-write locks
)

// ownerField matches the owner fields of relock and Redisson, except those of relock's shared
// owners.
var ownerField = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:[0-9]+`)

// entryField matches the owner fields that only relock makes, with random digits behind the count.
var entryField = regexp.MustCompile(ownerField.String() + `[0-9]{16}(:write)?$`)

// read reads the fields of a hash, each before its value. now is the server's time. In the hash of
// a shared owner stand its count and the entries that share it. If the grant does not name the
// owner, it is the field with the highest count, and among equal ones the field that no client made
// up.
func (s *Sighting) read(fields []string, now time.Time) {
	values := make(map[string]string)
	for i := 0; i+1 < len(fields); i += 2 {
		values[fields[i]] = fields[i+1]
	}
	s.classify(values)
	s.Age = -1
	if s.ReadWrite() {
		s.readSides(fields, now)
		return
	}
	owner := ""
	if first, found := values[firstField]; found {
		number, rest, _ := strings.Cut(first, ":")
		s.Token, _ = strconv.ParseInt(number, 10, 64)
		s.Age = Since(number, now)
		_, owner, _ = strings.Cut(rest, ":")
	}
	if vote, found := values[voteField]; found {
		number, _, _ := strings.Cut(vote, ":")
		s.Token, s.Age = 0, Since(number, now)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		field := fields[i]
		count, err := strconv.Atoi(fields[i+1])
		if err != nil || strings.HasPrefix(field, "relock:") || owner != "" && field != owner {
			continue
		}
		if !s.Held || count > s.Count || count == s.Count && ownerField.MatchString(s.Holder) {
			s.Holder, s.Count = field, count
		}
		s.Held = true
	}
}

// ReadWrite reports whether it is a read-write lock.
func (s *Sighting) ReadWrite() bool { return strings.Contains(s.Kind, " ") }

// reads reports whether readers hold the lock.
func (s *Sighting) reads() bool { return strings.HasSuffix(s.Kind, " read") }

// readSides reads the fields of a read-write lock: the writer, or else the first reader and the
// number of readers.
func (s *Sighting) readSides(fields []string, now time.Time) {
	for i := 0; i+1 < len(fields); i += 2 {
		field, value := fields[i], fields[i+1]
		if field == modeField {
			continue
		}
		holder, writes := strings.CutSuffix(field, ":write")
		if !writes {
			if s.Count++; !s.Held {
				s.Held, s.Holder = true, holder
			}
			s.Holders = append(s.Holders, Holding{Owner: holder})
			continue
		}
		count, tokens, _ := strings.Cut(value, ":")
		first, _, _ := strings.Cut(tokens, ":")
		s.Held, s.Holder, s.Age, s.Holders = true, holder, Since(first, now), nil
		s.Count, _ = strconv.Atoi(count)
		s.Token, _ = strconv.ParseInt(first, 10, 64)
		return
	}
}

// Since returns the time since a grant, by its fencing token; negative if it is unknown. The token
// is the server's time of the grant in microseconds, unless the counter ran ahead.
func Since(token string, now time.Time) time.Duration {
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil || n < 1e15 { // a token that Redisson counted
		return -1
	}
	return max(0, now.Sub(time.UnixMicro(n)))
}

// classify finds out the lock's kind from the fields of its hash: relock's own notes are among
// them, or all are owners'. The kind stays empty for a hash that is no lock.
func (s *Sighting) classify(values map[string]string) {
	mode := values[modeField]
	switch {
	case values[firstField] != "" || values[voteField] != "":
		s.Kind = KindRelock
		return
	case mode == "read" || mode == "write":
		s.Kind = KindRedisson + " " + mode
		for field, value := range values {
			if entryField.MatchString(field) || strings.Contains(value, ":") {
				s.Kind = KindRelock + " " + mode
			}
		}
		return
	}
	for field, count := range values {
		if _, err := strconv.Atoi(count); err != nil || !ownerField.MatchString(field) {
			return
		}
	}
	if len(values) > 0 {
		s.Kind = KindRedisson
	}
}

// merge merges what the nodes of a quorum keep for one lock. The holder is the owner that need
// nodes keep the lock for: since the last of those nodes joined, until the first of them leaves.
func merge(seen []Sighting, need int) Sighting {
	votes := make(map[string][]Sighting)
	all := Sighting{Names: seen[0].Names, Age: -1}
	for _, s := range seen {
		all.Waiters, all.Longest = max(all.Waiters, s.Waiters), max(all.Longest, s.Longest)
		if s.Kind != "" {
			all.Kind = s.Kind
		}
		if s.Held {
			votes[s.Holder] = append(votes[s.Holder], s)
		}
	}
	for holder, kept := range votes {
		if len(kept) < all.Nodes || len(kept) == all.Nodes && holder > all.Holder {
			continue
		}
		all.Holder, all.Nodes, all.Held = holder, len(kept), len(kept) >= need
		all.By = wire.Card{}
		for _, s := range kept {
			all.By = cmp.Or(all.By, s.By)
		}
		at := min(need, len(kept)) - 1
		slices.SortFunc(kept, func(a, b Sighting) int { return compareTTL(b.TTL, a.TTL) })
		all.TTL, all.Count = kept[at].TTL, kept[0].Count
		slices.SortFunc(kept, func(a, b Sighting) int { return cmp.Compare(b.Age, a.Age) })
		all.Age = kept[at].Age
	}
	return all
}

// compareTTL compares two TTLs. A negative one never ends, so it is the longest.
func compareTTL(a, b time.Duration) int {
	forever := func(d time.Duration) int {
		if d < 0 {
			return 1
		}
		return 0
	}
	return cmp.Or(forever(a)-forever(b), cmp.Compare(a, b))
}
