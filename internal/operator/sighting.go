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
	Count   int           // the holder's hold count; of a lock that is read, how many read it
	TTL     time.Duration // negative where it never ends
	Age     time.Duration // since the grant, negative where it is unknown
	Waiters int
	Longest time.Duration // how long the first of them has waited
	Token   int64         // the first fencing token of the grant in force, 0 where it is unknown
	Nodes   int           // of a quorum, how many keep it for the holder
	By      wire.Card     // what the holder's client says of itself
	Readers []Holding     // of a lock that is read: the holders, of very many some

	client string // the holder's uuid
}

// A Holding is one of several that hold a lock.
type Holding struct {
	Owner string    // owner field
	By    wire.Card // what its client says of itself; it is read for single locks
}

// Kinds of locks. Read-write locks are "relock read", "redisson write" and so on, by who was found first and the mode.
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

// ownerField is what clients of relock and Redisson name an acquisition, but for relock's shared
// owners.
var ownerField = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:[0-9]+`)

// entryField is what relock alone names one: with random digits behind the count.
var entryField = regexp.MustCompile(ownerField.String() + `[0-9]{16}(:write)?$`)

// read finds out what the fields of a hash and their values, one behind the other, say. now is the
// server's time. Beside a shared owner's count stand the entries that share it. Where the grant
// does not name the owner, it is the field that counts most, and among those that count alike the
// one that no client made.
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

// reads reports whether it is a read-write lock that is read.
func (s *Sighting) reads() bool { return strings.HasSuffix(s.Kind, " read") }

// readSides finds out what the fields of a read-write lock say: a writer is shown, else the first reader and how many they are.
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
			s.Readers = append(s.Readers, Holding{Owner: holder})
			continue
		}
		count, tokens, _ := strings.Cut(value, ":")
		first, _, _ := strings.Cut(tokens, ":")
		s.Held, s.Holder, s.Age, s.Readers = true, holder, Since(first, now), nil
		s.Count, _ = strconv.Atoi(count)
		s.Token, _ = strconv.ParseInt(first, 10, 64)
		return
	}
}

// Since reads a fencing token, which is the server's time of the grant in microseconds, unless the
// counter ran ahead.
func Since(token string, now time.Time) time.Duration {
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil || n < 1e15 { // of Redisson's counting
		return -1
	}
	return max(0, now.Sub(time.UnixMicro(n)))
}

// classify says whose lock a hash is: relock's notes are in it, or all its fields are owners'.
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

// merge makes one sighting of what the nodes of a quorum keep for one lock. It is held by the owner
// that need of them keep it for, since the last of those joined and until the first leaves.
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
