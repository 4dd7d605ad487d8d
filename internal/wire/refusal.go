package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/link"
)

// Refusal is a node's answer that it may have forgotten locks.
type Refusal struct {
	Left    time.Duration // how long it still grants nothing; 0 if that is over and only its counter is in doubt
	Born    string        // the incarnation that doubts its counter, "" for none
	Counter int64         // what it still knows of the counter
}

// RefusalOf reads QUARANTINED <born> <ms left> and UNSEEDED <born> <counter>. It returns the zero
// Refusal for any other error.
func RefusalOf(err error) (r Refusal) {
	if err == nil {
		return r
	}
	words := strings.Fields(link.Reply(err))
	if len(words) != 3 {
		return r
	}
	n, _ := strconv.ParseInt(words[2], 10, 64)
	switch words[0] {
	case "QUARANTINED":
		r.Left = max(time.Duration(n)*time.Millisecond, time.Millisecond)
	case "UNSEEDED":
		r.Born, r.Counter = words[1], n
	}
	return r
}

// MuteFor returns for how long nodes still grant nothing, since they may have forgotten locks: the
// longest time that err says.
func MuteFor(err error) (mute time.Duration) {
	if e, ok := err.(*QuorumError); ok {
		for _, said := range e.Nodes {
			mute = max(mute, said.Mute)
		}
	}
	return mute
}

// OfNode reports whether a refusal is about the node and not about one of its locks.
func OfNode(err error) bool {
	said := link.Reply(err)
	// A command that the user may not run has no other code than a key that the user may not touch. The
	// words are those of Redis 7.0 and older, and of newer ones.
	return codes[ReplyCode(said)].ofNode || strings.Contains(said, "can't run this command") || strings.Contains(said, "permissions to run")
}

// OfOneKey reports whether err may be about one key of several. Then the user lacks the rights to the
// key, or a Cluster keeps it apart from the others: for now, or always, if a proxy hides the slots. A
// command that the user may not run at all is about no key.
func OfOneKey(err error) bool {
	code := ReplyCode(link.Reply(err))
	return code == "NOPERM" && !OfNode(err) || code == "TRYAGAIN" || code == "CROSSSLOT"
}

// OfChannel reports whether err is a refusal of a subscription by Redis that does not pass by itself.
func OfChannel(err error) bool { return link.Reply(err) != "" && !Transient(err) }
