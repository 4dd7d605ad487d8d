package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxName bounds a lock's name, in bytes. The name travels in every command and grant.
	MaxName = 1024
	// maxOwner bounds the id of a shared owner, in bytes. It travels too, and stands in the lock's
	// hash.
	maxOwner = 256
	// ownFields starts the fields of a lock's hash that name no owner.
	ownFields = "relock:"
	// IncarnationKey is the marker of the restart guard. It is spelled in guard.lua too.
	IncarnationKey = "relock_incarnation"
)

// InboxPrefix is the prefix of a client's inbox, the channel on which it is told "you own it now".
const InboxPrefix = "relock_inbox:"

// Names are the keys and channels of one lock. Redisson's are spelled as Redisson spells them
// (RedissonObject.prefixName), ours follow its rule, so all of them share the lock's Cluster slot.
type Names struct {
	Kind    *Kind
	Name    string // as the caller says it, without the client's prefix
	Lock    string // what Redisson keeps; of a mutex a HASH, owner field -> hold count
	Queue   string // ZSET, relock's waiters by ticket
	Counter string // STRING, fencing counter
	Unlock  string // channel that tells when the lock may be free
	Seed    string // STRING, on a quorum: incarnation of the Redis that was told the counter
	Listen  string // channel beside Unlock that only relock's clients subscribe: announces Redisson's turns
	Tag     string // the lock's name as a hash tag

	rights string    // key in vetted: the lock's name, or kind/name if the kind has further keys
	five   [5]string // the first five keys: the memory of keys, unless there are further ones
	keys   []string  // Lock, Queue, Counter, Unlock, Listen, and the kind's further ones: KEYS of its scripts
}

// Gate returns the lock's name at this process's gate, for entries of that amount, 0 or more. No lock of
// another kind has the same. Entries of different amounts have different gates: what one of them hands to
// the next must be what the next wants. The amount stands in front, since a lock's name may end in any way.
func (n *Names) Gate(amount int) string {
	key := n.Queue
	if at := n.Kind.Waits; at > 0 {
		key = n.keys[at]
	}
	if amount > 1 {
		key = strconv.Itoa(amount) + "*" + key
	}
	return key
}

// Readers is the queue of a read-write lock's readers.
func (n *Names) Readers() string { return n.keys[Read.Waits] }

// Pulse is the nth key by which a reader of a read-write lock lives.
func (n *Names) Pulse(reader string, nth int) string {
	return n.Tag + ":" + reader + ":rwlock_timeout:" + strconv.Itoa(nth)
}

// keysTo returns a lock's first keys, as many as place says. For a kind with further keys it returns
// all, since its hooks may use each.
func (n *Names) keysTo(place int) []string {
	if len(n.keys) > len(n.five) {
		place = len(n.keys)
	}
	return n.keys[:place:place]
}

// renewalKeys returns the keys of the scripts that lengthen an entry's lease, as Kind.Keeps says.
func (n *Names) renewalKeys(id string) []string {
	if n.Kind.Keeps == nil {
		return n.keysTo(1)
	}
	keys := make([]string, 0, len(n.Kind.Keeps))
	for _, key := range n.Kind.Keeps {
		keys = append(keys, strings.NewReplacer("{}", n.Tag, "[]", n.Lock, "()", id).Replace(key))
	}
	return keys
}

// voteKeys are a script's keys at a node of a quorum.
func (n *Names) voteKeys() []string {
	return append([]string{n.Lock, n.Queue, n.Counter, n.Unlock, n.Seed}, n.keys[len(n.five):]...)
}

// Names returns the names of a lock. Its name in Redis is prefix and name. Names fails with
// ErrInvalidName if name is empty, or if the name in Redis is longer than 1024 bytes, is the restart
// guard's marker, begins as the library's own keys and channels do, or has a brace but no valid
// Cluster hash tag: its keys would fall into different slots.
func (k *Kind) Names(prefix, name string) (*Names, error) {
	logical := name
	name = prefix + name
	switch {
	case logical == "":
		return nil, fmt.Errorf("%w: the name is empty", ErrInvalidName)
	case len(name) > MaxName:
		return nil, fmt.Errorf("%w: %q… has %d bytes, %d are allowed", ErrInvalidName, name[:32], len(name), MaxName)
	case name == IncarnationKey:
		return nil, fmt.Errorf("%w: %q is the key by which the restart guard knows a Redis", ErrInvalidName, name)
	case ownPrefix(name) != "":
		return nil, fmt.Errorf("%w: %q: keys and channels of the library begin with %q", ErrInvalidName, name, ownPrefix(name))
	case !validTag(name):
		return nil, fmt.Errorf("%w: %q holds a brace but no hash tag {…}; "+
			"use none, or a non-empty {tag}", ErrInvalidName, name)
	}
	tag := name
	if !strings.Contains(name, "{") {
		tag = "{" + name + "}"
	}
	if name == tag && k.queueOf(name, tag) == k.Line && slices.ContainsFunc(k.Further, sharedByTag) {
		return nil, fmt.Errorf("%w: %q: a %s of that name would share keys with that of the name %q",
			ErrInvalidName, name, k.Name, strings.Trim(name, "{}"))
	}
	return k.namesIn(logical, name, tag), nil
}

// sharedByTag reports whether a further key is the same for the locks a and {a}.
func sharedByTag(key string) bool { return !strings.Contains(key, "[]") }

const seedPrefix = "relock_seed:"

// ownPrefixes start the names of the library's keys and channels: a lock of such a name could be
// another lock's queue or counter. Add puts those of each kind here.
var ownPrefixes = []string{seedPrefix, ClientPrefix, InboxPrefix, resultPrefix, resultTagPrefix}

// prefixes start the names of a kind's keys and channels.
func (k *Kind) prefixes() []string {
	all := []string{k.Queue, k.Line, k.Counter, k.Channel.Unlock, k.Channel.Listen}
	for _, key := range k.Further {
		if prefix, _, _ := strings.Cut(key, "{}"); prefix != "" { // a key that begins with the lock's name has none
			all = append(all, prefix)
		}
	}
	return all
}

// ownPrefix returns which of ownPrefixes name begins with, "" for none.
func ownPrefix(name string) string {
	for _, prefix := range ownPrefixes {
		if strings.HasPrefix(name, prefix) {
			return prefix
		}
	}
	return ""
}

// queueOf returns what the name of a lock's queue starts with: Line where the lock's name is a hash tag
// and nothing else, otherwise Queue.
func (k *Kind) queueOf(name, tag string) string {
	if name == tag && strings.LastIndexByte(name, '{') == 0 && strings.IndexByte(name, '}') == len(name)-1 {
		return k.Line
	}
	return k.Queue
}

// namesIn makes a lock's names. Those that are a prefix and the tag are parts of one string, which takes
// one allocation.
func (k *Kind) namesIn(logical, name, tag string) *Names {
	queue, channel := k.queueOf(name, tag), k.Channel
	all := queue + tag + k.Counter + tag + channel.Unlock + tag + seedPrefix + tag + channel.Listen + tag
	next := func(prefix string) (key string) {
		key, all = all[:len(prefix)+len(tag)], all[len(prefix)+len(tag):]
		return key
	}
	n := &Names{Kind: k, Name: logical, Lock: name, Tag: tag, rights: name}
	n.Queue, n.Counter, n.Unlock = next(queue), next(k.Counter), next(channel.Unlock)
	n.Seed, n.Listen = next(seedPrefix), next(channel.Listen)
	n.five = [...]string{n.Lock, n.Queue, n.Counter, n.Unlock, n.Listen}
	n.keys = n.five[:]
	if len(k.Further) > 0 {
		n.rights = k.Name + "/" + name
	}
	for _, key := range k.Further {
		n.keys = append(n.keys, strings.NewReplacer("{}", tag, "[]", name).Replace(key))
	}
	return n
}

// validTag reports whether name and name in braces hash to the same Cluster slot.
func validTag(name string) bool {
	_, after, open := strings.Cut(name, "{")
	if !open {
		return !strings.Contains(name, "}")
	}
	return strings.Index(after, "}") > 0
}

// ValidOwner returns ErrInvalidOwner for an id that cannot be the field of a shared owner.
func ValidOwner(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: the id is empty; Detach is the context without an owner", ErrInvalidOwner)
	case len(id) > maxOwner:
		return fmt.Errorf("%w: %q… has %d bytes, %d are allowed", ErrInvalidOwner, id[:32], len(id), maxOwner)
	case id == "mode":
		return fmt.Errorf("%w: %q: Redisson's read-write locks keep a field of that name", ErrInvalidOwner, id)
	case strings.HasPrefix(id, ownFields):
		return fmt.Errorf("%w: %q: the library keeps its own fields under %q", ErrInvalidOwner, id, ownFields)
	}
	return nil
}
