package sim

import "github.com/relock-go/relock/internal/driver"

type replyKind uint8

const (
	nilReply replyKind = iota
	intReply
	bulkReply
	statusReply
	errorReply
	listReply
)

// reply is an answer with what Lua is told of it besides: whether a string is a status.
type reply struct {
	kind replyKind
	n    int64
	s    string
	list []reply
}

func integer(n int64) reply      { return reply{kind: intReply, n: n} }
func bulk(s string) reply        { return reply{kind: bulkReply, s: s} }
func status(s string) reply      { return reply{kind: statusReply, s: s} }
func failure(text string) reply  { return reply{kind: errorReply, s: text} }
func listing(list []reply) reply { return reply{kind: listReply, list: list} }
func listed(list ...reply) reply { return reply{kind: listReply, list: list} }
func flag(yes bool) reply        { return integer(count(yes)) }
func real(f float64) reply       { return bulk(formatScore(f)) }
func (r reply) failed() bool     { return r.kind == errorReply }
func optional(s string, ok bool) reply {
	if !ok {
		return reply{}
	}
	return bulk(s)
}

func count(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func bulks(texts []string) reply {
	list := make([]reply, len(texts))
	for i, s := range texts {
		list[i] = bulk(s)
	}
	return listing(list)
}

// value is what the driver's user is given.
func (r reply) value() driver.Value {
	switch r.kind {
	case intReply:
		return driver.Int(r.n)
	case bulkReply, statusReply:
		return driver.String(r.s)
	case errorReply:
		return driver.Error(&driver.ReplyError{Text: r.s})
	case listReply:
		list := make([]driver.Value, len(r.list))
		for i, part := range r.list {
			list[i] = part.value()
		}
		return driver.List(list...)
	}
	return driver.Value{}
}

var (
	okReply     = status("OK")
	wrongType   = failure("WRONGTYPE Operation against a key holding the wrong kind of value")
	notInteger  = failure("ERR value is not an integer or out of range")
	notFloat    = failure("ERR value is not a valid float")
	syntaxError = failure("ERR syntax error")
	overflow    = failure("ERR increment or decrement would overflow")
)

func wrongArity(name string) reply {
	return failure("ERR wrong number of arguments for '" + name + "' command")
}
