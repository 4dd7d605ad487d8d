package relock

import (
	"fmt"
	"strings"
)

const (
	// maxNameLen bounds a lock's name, in bytes. The name travels in every command and grant.
	maxNameLen = 1024
	// maxOwnerLen bounds the id of a shared owner, in bytes. It travels too, and stands in the lock's hash.
	maxOwnerLen = 256
	// ownFields starts the fields of a lock's hash that name no owner.
	ownFields = "relock:"
)

// What the names of a lock's channels start with.
const (
	unlockPrefix = "redisson_lock__channel:"
	listenPrefix = "relock_listen:"
)

// names are the keys and channels of one lock. Redisson's are spelled as Redisson spells them (RedissonObject.prefixName),
// ours follow its rule, so all of them share the lock's Cluster slot.
type names struct {
	name    string // as the caller says it, without the client's prefix
	lock    string // HASH, owner field -> hold count
	queue   string // ZSET, relock's waiters by ticket
	counter string // STRING, fencing counter
	unlock  string // channel, "0" when the lock became free
	seed    string // STRING, on a quorum: incarnation of the Redis that the counter was told to
	listen  string // channel beside unlock that only relock clients subscribe; turns of the others are told there
	tag     string // the lock's name as a hash tag
}

// namesOf returns the names of a lock, whose name in Redis starts with prefix. It fails with ErrInvalidName when the name
// is empty, or when the name in Redis is longer than 1024 bytes, is the restart guard's marker, or holds a brace without
// being a valid Cluster hash tag: its keys would fall into different slots.
func namesOf(prefix, name string) (names, error) {
	logical := name
	name = prefix + name
	switch {
	case logical == "":
		return names{}, fmt.Errorf("%w: the name is empty", ErrInvalidName)
	case len(name) > maxNameLen:
		return names{}, fmt.Errorf("%w: %q… has %d bytes, %d are allowed", ErrInvalidName, name[:32], len(name), maxNameLen)
	case name == incarnationKey:
		return names{}, fmt.Errorf("%w: %q is the key by which the restart guard knows a Redis", ErrInvalidName, name)
	case !validTag(name):
		return names{}, fmt.Errorf("%w: %q holds a brace but no hash tag {…}; "+
			"use none, or a non-empty {tag}", ErrInvalidName, name)
	}
	tag := name
	if !strings.Contains(name, "{") {
		tag = "{" + name + "}"
	}
	return names{
		name:    logical,
		lock:    name,
		queue:   "relock_queue:" + tag,
		counter: "redisson_lock_token:" + tag,
		unlock:  unlockPrefix + tag,
		seed:    "relock_seed:" + tag,
		listen:  listenPrefix + tag,
		tag:     tag,
	}, nil
}

// validTag reports whether name and name in braces hash to the same Cluster slot.
func validTag(name string) bool {
	_, after, open := strings.Cut(name, "{")
	if !open {
		return !strings.Contains(name, "}")
	}
	return strings.Index(after, "}") > 0
}

// validOwner returns ErrInvalidOwner for an id that cannot be the field of a shared owner.
func validOwner(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: the id is empty; Detach is the context without an owner", ErrInvalidOwner)
	case len(id) > maxOwnerLen:
		return fmt.Errorf("%w: %q… has %d bytes, %d are allowed", ErrInvalidOwner, id[:32], len(id), maxOwnerLen)
	case strings.HasPrefix(id, ownFields):
		return fmt.Errorf("%w: %q: the library keeps its own fields under %q", ErrInvalidOwner, id, ownFields)
	}
	return nil
}
