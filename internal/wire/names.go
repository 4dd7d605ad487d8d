package wire

import (
	"fmt"
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

// What the names of channels start with.
const (
	InboxPrefix  = "relock_inbox:" // the channel on which a client is told "you own it now"
	UnlockPrefix = "redisson_lock__channel:"
	ListenPrefix = "relock_listen:"
)

// Names are the keys and channels of one lock. Redisson's are spelled as Redisson spells them
// (RedissonObject.prefixName), ours follow its rule, so all of them share the lock's Cluster slot.
type Names struct {
	Name    string // as the caller says it, without the client's prefix
	Lock    string // HASH, owner field -> hold count
	Queue   string // ZSET, relock's waiters by ticket
	Counter string // STRING, fencing counter
	Unlock  string // channel, "0" when the lock became free
	Seed    string // STRING, on a quorum: incarnation of the Redis that the counter was told to
	Listen  string // channel beside Unlock that only relock clients subscribe; turns of the others are told there
	Tag     string // the lock's name as a hash tag

	keys [5]string // Lock, Queue, Counter, Unlock, Listen: what scripts take, the first four or all
}

// NamesOf returns the names of a lock, whose name in Redis starts with prefix. It fails with
// ErrInvalidName when the name is empty, or when the name in Redis is longer than 1024 bytes, is
// the restart guard's marker or begins as the library's own keys and channels do, or holds a brace
// without being a valid Cluster hash tag: its keys would fall into different slots.
func NamesOf(prefix, name string) (*Names, error) {
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
	return namesIn(logical, name, tag), nil
}

const (
	queuePrefix   = "relock_queue:"
	linePrefix    = "relock_line:" // in its place where the name is a hash tag and nothing else
	counterPrefix = "redisson_lock_token:"
	seedPrefix    = "relock_seed:"
)

// ownPrefixes start the names of keys and channels: a lock of such a name could be another lock's
// queue or counter.
var ownPrefixes = [...]string{
	queuePrefix, linePrefix, counterPrefix, seedPrefix, ClientPrefix, InboxPrefix, UnlockPrefix, ListenPrefix,
}

// ownPrefix returns which of them name begins with, "" for none.
func ownPrefix(name string) string {
	for _, prefix := range ownPrefixes {
		if strings.HasPrefix(name, prefix) {
			return prefix
		}
	}
	return ""
}

// queueOf returns what the name of a lock's queue starts with. The locks a and {a} have the same tag,
// and so share what is Redisson's: the unlock channel and the counter, and what belongs to those. In
// one queue each would be given to the other's waiters.
func queueOf(name, tag string) string {
	if name == tag && strings.LastIndexByte(name, '{') == 0 && strings.IndexByte(name, '}') == len(name)-1 {
		return linePrefix
	}
	return queuePrefix
}

// namesIn cuts all that begins with a prefix and ends with the tag from one string, which is one allocation.
func namesIn(logical, name, tag string) *Names {
	queue := queueOf(name, tag)
	all := queue + tag + counterPrefix + tag + UnlockPrefix + tag + seedPrefix + tag + ListenPrefix + tag
	next := func(prefix string) (key string) {
		key, all = all[:len(prefix)+len(tag)], all[len(prefix)+len(tag):]
		return key
	}
	n := &Names{Name: logical, Lock: name, Tag: tag}
	n.Queue, n.Counter, n.Unlock = next(queue), next(counterPrefix), next(UnlockPrefix)
	n.Seed, n.Listen = next(seedPrefix), next(ListenPrefix)
	n.keys = [...]string{n.Lock, n.Queue, n.Counter, n.Unlock, n.Listen}
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
	case strings.HasPrefix(id, ownFields):
		return fmt.Errorf("%w: %q: the library keeps its own fields under %q", ErrInvalidOwner, id, ownFields)
	}
	return nil
}
