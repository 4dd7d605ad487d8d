package sim

import (
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// TestRefusalsAreInTheServersWords compares to the letter what the library may have to read: refusals differ from version
// to version, and between Redis and Valkey.
func TestRefusalsAreInTheServersWords(t *testing.T) {
	against(t, func(t *testing.T, server *redistest.Server) {
		p := newPair(t, server, 1)
		defer p.close()
		p.exact = true
		p.do("ACL", "SETUSER", "guest", "reset", "on", ">pass", "~a*", "resetchannels", "&a*", "+eval", "+set", "+publish")
		guest := p.meet("guest", "pass")
		for _, denied := range [][]string{{"GET", "a"}, {"SET", "b", "1"}, {"PUBLISH", "b", "1"}} {
			p.by(guest, denied...)
			for _, how := range []string{
				"return redis.call(unpack(ARGV))", "return redis.pcall(unpack(ARGV))", "return redis.pcall(unpack(ARGV)).err",
				"local ok, e = pcall(redis.call, unpack(ARGV)) return type(e) .. ':' .. (type(e) == 'table' and e.err or e)",
			} {
				p.by(guest, append([]string{"EVAL", how, "0"}, denied...)...)
			}
		}

		p.do("SET", "text", "x")
		refused := [][]string{
			{"NOSUCH", "a", "b"}, {"GET"}, {"HGET", "text", "a"}, {"PUBSUB", "NOSUCH", "a"}, {"PUBSUB", "SHARDNUMSUB", "a"},
			{"SPUBLISH", "a", "b"}, {"SUBSCRIBE", "a"},
		}
		for _, args := range refused {
			if args[0] != "SUBSCRIBE" { // which is refused in scripts alone
				p.do(args...)
			}
			p.do(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, args...)...)
			p.do(append([]string{"EVAL", "local r = redis.pcall(unpack(ARGV)) return type(r) == 'table' and r.err", "0"}, args...)...)
		}
		p.do("EVALSHA", "0000000000000000000000000000000000000000", "0")
		p.do("EVAL", "return redis.error_reply('WRONGKIND no such lock')", "0")
		p.do("EVAL", "return {err = 'WRONGKIND no such lock'}", "0")

		require.Equal(t, okReply, p.people[0].real.do(t, "CONFIG", "SET", "maxmemory", "1"))
		p.sim.SetFull(true)
		p.do("SET", "a", "1")
		p.do("EVAL", "return redis.call('SET', 'a', 1)", "0")
		p.do("EVAL", "return redis.pcall('SET', 'a', 1).err", "0")
		require.Equal(t, okReply, p.people[0].real.do(t, "CONFIG", "SET", "maxmemory", "0"))
	})
}
