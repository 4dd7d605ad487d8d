package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxLease is the longest lease there is.
const MaxLease = 366 * 24 * time.Hour

// wantedNews stands in place of a grant's lease, as in news.lua, and says Wanted.
const wantedNews = 2

// Grant is a message to a client: one of its entries owns the lock. If Tokens.First is 0, it is no grant
// but news for an entry that owns the lock: Nudge, or Wanted, or if neither is set that the lock was
// taken from the entry.
type Grant struct {
	Tokens Tokens
	Lease  time.Duration
	Nudge  bool // on a node of a quorum, a contender with a lower ticket asks for the lock: look again
	Wanted bool // another entry wants the lock; in a grant: others wait behind the entry
	ID     string
	Owner  string
	Name   string // of the lock in Redis
	Kind   *Kind
}

// ParseGrant reads "<token>[:<how many>] <lease>[:<kind>] <id> <length of owner> <owner><name>". A
// mutex's grant names no kind, as before there were other kinds. A + before the lease says that other
// entries wait behind this one; older clients read it as a sign.
func ParseGrant(s string) (g Grant, err error) {
	parts := strings.SplitN(s, " ", 5)
	if len(parts) != 5 {
		return g, fmt.Errorf("grant of %d parts", len(parts))
	}
	token, count, told := strings.Cut(parts[0], ":")
	if g.Tokens.First, err = strconv.ParseInt(token, 10, 64); err != nil {
		return g, err
	}
	if told {
		if g.Tokens.Count, err = strconv.Atoi(count); err != nil {
			return g, err
		}
	}
	lease, kind, named := strings.Cut(parts[1], ":")
	millis, err := strconv.ParseInt(lease, 10, 64)
	if err != nil {
		return g, err
	}
	if g.Kind = kindOf(kind, named); g.Kind == nil {
		return g, fmt.Errorf("grant of the unknown kind %q", kind)
	}
	length, err := strconv.Atoi(parts[3])
	if err != nil {
		return g, err
	}
	rest := parts[4]
	if length < 0 || length >= len(rest) || g.Tokens.First < 0 || told && g.Tokens.Count < 1 || millis < 0 ||
		millis > MaxLease.Milliseconds() {
		return g, fmt.Errorf("grant out of range")
	}
	g.Wanted = g.Tokens.First == 0 && millis == wantedNews || g.Tokens.First > 0 && lease[0] == '+'
	g.Nudge = g.Tokens.First == 0 && millis > 0 && !g.Wanted
	g.Lease = time.Duration(millis) * time.Millisecond
	g.ID, g.Owner, g.Name = parts[2], rest[:length], rest[length:]
	return g, nil
}
