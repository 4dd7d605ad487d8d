package wire

import (
	"errors"
	"strings"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
)

// codes are all codes of replies that mean something to locks, of servers and of the scripts. Any other
// word is no code, however it is spelled: a client library may leave a plain ERR out, and the text
// behind it may begin with a command's name, or with "ACL".
var codes = map[string]struct {
	passes bool   // it may pass without a change of the caller, the user's rights or the data; see link.Stranger
	ofNode bool   // it is about the node and not about one lock of it
	hint   string // what to do about it
}{
	"ASK":         {passes: true},
	"BUSY":        {passes: true, ofNode: true},
	"CLUSTERDOWN": {passes: true},
	"CROSSSLOT":   {},
	"LOADING":     {passes: true, ofNode: true},
	"MASTERDOWN":  {passes: true, ofNode: true},
	"MAXCLIENTS":  {passes: true},
	"MISCONF":     {ofNode: true},
	"MOVED":       {passes: true},
	"NOAUTH":      {passes: true, ofNode: true, hint: "check the client's user name and password"},
	"NOCOMMAND":   {ofNode: true, hint: "the server, or a proxy before it, lacks the command: see docs/managed-redis.md"},
	"NOPERM":      {hint: "the user lacks a permission, docs/wire.md lists what relock needs"},
	"NOREPLICAS":  {passes: true, ofNode: true},
	"NOSCRIPT":    {},
	"NOSIZE":      {},
	"OOM":         {ofNode: true, hint: "Redis is out of memory: unlocking works, locking does not"},
	"QUARANTINED": {passes: true},
	"READONLY":    {passes: true, ofNode: true},
	"TOOMANY":     {hint: "Redis keeps how many there are: Semaphore.SetPermits changes it"},
	"TRYAGAIN":    {passes: true},
	"UNSEEDED":    {passes: true},
	"WRONGKIND":   {hint: "one name has one kind of lock: choose another name"},
	"WRONGPASS":   {passes: true, ofNode: true, hint: "check the client's user name and password"},
	"WRONGTYPE":   {hint: "the key, or a key beside it, belongs to something else: choose another lock name"},
}

// sentences are replies that servers give without a code, by what they have in common from version to
// version.
var sentences = []struct{ says, code string }{
	{"The user executing the script", "NOPERM"}, // before Redis 7.2
	{"ACL failure in script", "NOPERM"},
	{"max number of clients", "MAXCLIENTS"},
	{"nknown command", "NOCOMMAND"}, // this word is the library's own
	{"nknown Redis command called from", "NOCOMMAND"},
	{".acl_check_cmd()", "NOCOMMAND"}, // "Invalid command passed to" it
	// While a slot moves, a script finds only its KEYS checked beforehand. A key that it names by
	// itself may have gone already.
	{"attempted to access a non local key", "TRYAGAIN"},
	{"attempted to access a slot not served", "CLUSTERDOWN"},
}

// ReplyCode returns the code of an error reply, "" if it has none of codes. A code that was raised
// inside a script stands behind "ERR", and before Redis 7 behind the script's place, with a dash or
// without. For the few replies without a code, sentences has one.
func ReplyCode(reply string) string {
	for rest, place := reply, true; rest != ""; {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		word = strings.TrimPrefix(word, "-")
		if _, known := codes[word]; place && known {
			return word
		}
		place = strings.HasSuffix(word, ":") || place && word == "ERR"
	}
	for _, s := range sentences {
		if strings.Contains(reply, s.says) {
			return s.code
		}
	}
	return ""
}

// PlainError reports whether a reply is an error with no code but ERR, such as that of an unknown
// command. A client library may leave the ERR out.
func PlainError(reply string) bool {
	code, _, _ := strings.Cut(reply, " ")
	return reply != "" && (code == "ERR" || !upper(code))
}

// upper reports whether a word has only capital letters.
func upper(word string) bool {
	for i := range len(word) {
		if word[i] < 'A' || word[i] > 'Z' {
			return false
		}
	}
	return true
}

// RefusesLogin reports whether err is the answer of a Redis that does not let the client in. That may pass, as
// while a password is changed, or may not: a caller waits for it, and an operator is told.
func RefusesLogin(err error) bool {
	var reply *driver.ReplyError
	return errors.As(err, &reply) && reply.RefusesLogin()
}

// Hint says what to do about err if it is an answer of Redis that no retry helps or that an operator should
// know of, otherwise "".
func Hint(err error) string {
	if link.Astray(err) {
		return "this is one server of a Redis Cluster: make the client for the Cluster, as go-redis's NewClusterClient does"
	}
	return codes[ReplyCode(link.Reply(err))].hint
}
