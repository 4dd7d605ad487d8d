package sim

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

var (
	someChannels = []string{"a", "b", "ab", "c{x}", "news:1", "news:2"}
	someGlobs    = []string{"*", "a*", "news:?", "[ab]", "?", "new*[12]", "\\a", "a"}
)

// TestPubSub sends messages to connections that come and go.
func TestPubSub(t *testing.T) {
	against(t, func(t *testing.T, server *redistest.Server) {
		sequences(t, 20, func(seed uint64) {
			p := newPair(t, server, seed)
			defer p.close()
			listeners := []*person{p.meet("", ""), p.meet("", ""), p.meet("", ""), p.meet("", "")}
			for range 80 {
				p.stir(pick(p, listeners...))
			}
			p.compareMessages(listeners...)
		})
	})
}

// stir is one command about channels.
func (p *pair) stir(someone *person) {
	c, g := someChannels, someGlobs
	type list = []any
	if p.often(40) {
		how := pick(p, list{"SUBSCRIBE", c}, list{"SUBSCRIBE", c, c}, list{"UNSUBSCRIBE", c}, list{"UNSUBSCRIBE"}, list{"PSUBSCRIBE", g},
			list{"PUNSUBSCRIBE", g}, list{"PUNSUBSCRIBE"}, list{"SSUBSCRIBE", c}, list{"SUNSUBSCRIBE", c}, list{"SUNSUBSCRIBE"})
		if p.sim.version < 7 && (how[0] == "SSUBSCRIBE" || how[0] == "SUNSUBSCRIBE") {
			return
		}
		p.subscribe(someone, p.words(how...)...)
		return
	}
	args := p.words(pick(p, list{"PUBLISH", c, someTexts}, list{"SPUBLISH", c, someTexts}, list{"PUBSUB", "NUMSUB", c, c}, list{"PUBSUB", "NUMSUB"},
		list{"PUBSUB", "SHARDNUMSUB", c, g}, list{"PUBSUB", "NUMPAT"}, list{"PUBSUB", "nosuch"}, list{"PUBLISH", c},
		list{"PUBSUB", "CHANNELS", []string{"none*"}})...)
	if p.often(30) && args[0] != "PUBSUB" {
		args = append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, args...)
	}
	p.do(args...)
}

var someRules = []string{
	"~a*", "~*", "~e{x}", "%R~a", "%W~b", "%RW~c", "resetkeys", "&a*", "&*", "&news:?", "resetchannels", "+@all", "-@all", "+get", "-get", "+set",
	"+hset", "+eval", "+evalsha", "+publish", "-publish", "+pubsub|numsub", "+@read", "+@write", "-@write", "+exists", "+del", "allkeys",
	"allchannels", "+pexpire", "+zadd", "-script|flush", "+time", "nonsense", "+nosuch", "on",
}

// TestRights sends commands as users who may do some of it.
func TestRights(t *testing.T) {
	against(t, func(t *testing.T, server *redistest.Server) {
		if major, _, _ := server.Version(); major < 7 {
			t.Skip("the rights of Redis 6 have no patterns for reading")
		}
		sequences(t, 20, func(seed uint64) {
			p := newPair(t, server, seed)
			defer p.close()
			p.do("ACL", "SETUSER", "guest", "reset", "on", ">pass")
			guest := p.meet("guest", "pass")
			for range 100 {
				switch n := p.dice.IntN(100); {
				case n < 15:
					p.rule("guest", pick(p, someRules...))
				case n < 30:
					p.do(p.ordered()...)
				case n < 60:
					p.by(guest, p.ordered()...)
				case n < 70:
					p.by(guest, p.words("PUBLISH", someChannels, "x")...)
				case n < 85:
					args := append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "1", pick(p, someKeys...)}, p.ordered()...)
					p.by(guest, args...)
				default:
					args := append([]string{"EVAL", "return tostring(redis.acl_check_cmd(unpack(ARGV)))", "0"}, p.randomCommand()...)
					p.by(guest, args...)
				}
			}
			p.do("ACL", "DELUSER", "guest", "nobody")
			require.True(t, guest.sim.Closed())
		})
	})
}

// rule changes a user. Why a rule is refused is not compared.
func (p *pair) rule(user, rule string) {
	args := []string{"ACL", "SETUSER", user, rule}
	want, got := p.people[0].real.do(p.t, args...), p.sim.answer(p.people[0].sim, args)
	p.note(args, want)
	require.Equal(p.t, want.kind, got.kind, p.history())
}

func TestLogin(t *testing.T) {
	against(t, func(t *testing.T, server *redistest.Server) {
		p := newPair(t, server, 1)
		p.do("ACL", "SETUSER", "guest", "reset", "on", ">pass", "+ping")
		p.do("AUTH", "guest", "wrong")
		p.do("AUTH", "nobody", "pass")
		p.do("AUTH", "any")
		p.do("AUTH", "a", "b", "c")
		p.do("ACL", "SETUSER", "guest", "off")
		p.do("AUTH", "guest", "pass")
		p.do("ACL", "SETUSER", "guest", "on")
		p.do("AUTH", "guest", "pass")
		p.do("PING")
		p.do("GET", "a")
	})
	against(t, func(t *testing.T, server *redistest.Server) {
		locked := NewServer(Options{Name: "locked", Password: "secret"})
		c := locked.Open("", "", nil, nil)
		conn := dial(t, server.Addr())
		for _, args := range [][]string{
			{"GET", "a"}, {"nosuch"}, {"GET"}, {"AUTH", "wrong"}, {"EVAL", "return 1", "0"}, {"AUTH", "secret"}, {"PING"},
		} {
			require.Equal(t, conn.do(t, args...).kind, locked.answer(c, args).kind, "%q", args)
		}
	}, "--requirepass", "secret")
}

// TestExpiry lets keys expire. While that is under way nothing is asked, since a slow answer would tell other things.
func TestExpiry(t *testing.T) {
	against(t, func(t *testing.T, server *redistest.Server) {
		sequences(t, 4, func(seed uint64) {
			p := newPair(t, server, seed)
			defer p.close()
			for range 4 {
				for range 30 {
					// A server counts keys whose end it has not noticed.
					if args := p.ordered(); args[0] != "DBSIZE" {
						p.do(args...)
					}
				}
				for _, key := range someKeys {
					if p.often(50) {
						// Whether it is there still says only the next line's answer, which comes after its end.
						args := []string{"PEXPIRE", key, "20"}
						p.people[0].real.do(t, args...)
						p.sim.answer(p.people[0].sim, args)
					}
				}
				time.Sleep(30 * time.Millisecond) // both keys' ends lie before
			}
			p.compareAll()
		})
	})
}

// TestReadOnly compares a replica's refusals.
func TestReadOnly(t *testing.T) {
	against(t, func(t *testing.T, server *redistest.Server) {
		p := newPair(t, server, 2)
		defer p.close()
		p.do("SET", "a", "1")
		p.sim.ReplicaOf(NewServer(Options{Name: "master", Clock: p.sim.Clock()}))
		p.sim.keys["a"] = &entry{text: "1"}
		p.people[0].real.do(t, "REPLICAOF", "127.0.0.1", "1")
		p.people[0].real.do(t, "CONFIG", "SET", "replica-serve-stale-data", "yes")
		for _, args := range [][]string{
			{"SET", "a", "2"}, {"GET", "a"}, {"DEL", "none"}, {"EVAL", "return redis.call('SET', 'a', 'b')", "0"},
			{"EVAL", "return redis.call('GET', 'a')", "0"}, {"EVAL", "return redis.pcall('PEXPIRE', 'a', 1)", "0"}, {"PUBLISH", "x", "y"},
		} {
			p.do(args...)
		}
	})
}
