package sim

import (
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
)

// snippets are scripts whose answers show how Lua and Redis see values. ARGV is drawn.
var snippets = []string{
	"return ARGV[1] .. 1.5 .. ARGV[2]", "return tostring(tonumber(ARGV[1]))", "return tostring(tonumber(ARGV[1], 16))",
	"return tonumber(ARGV[1])", "return {tonumber(ARGV[1]) or 'none', 3.99, -3.99, true, false, 'x'}", "return {1, 2, nil, 4}",
	"return {err = ARGV[1]}", "return {ok = ARGV[1]}", "return redis.error_reply(ARGV[1])", "return redis.status_reply(ARGV[1])",
	"return {redis.error_reply(ARGV[1]), redis.status_reply(ARGV[2]), {1, {2}}}", "error(ARGV[1])", "error(ARGV[1], 0)", "error({err = ARGV[1]})",
	"local ok, e = pcall(error, ARGV[1], 0) return {tostring(ok), e}", "local ok, e = pcall(function() error(ARGV[1]) end) return e",
	"local ok, e = pcall(redis.call, 'nosuch', ARGV[1]) return {type(e), e}", "return redis.call('nosuch', ARGV[1])",
	"local e = redis.pcall('HGET', 'text', 'f') return {type(e), e.err}", "redis.call('HGET', 'text', 'f')",
	"local e = redis.pcall('HGET', 'text', 'f')\nerror(e.err, 0)", "local e = redis.pcall('HGET', 'text', 'f')\nerror(e)",
	"return string.format('%d|%5d|%-5d|%05d', tonumber(ARGV[3]), 7, 7, 7)", "return string.format('%.0f %g %.3f %e', tonumber(ARGV[3]), tonumber(ARGV[3]), 1.5, 12345.678)",
	"return string.format('%s|%q|%x|%X|%o|%c|%%|%5s|%-5s|%.2s', ARGV[1], ARGV[2], 255, 255, 8, 65, 'a', 'b', 'xyz')",
	"return string.format('%s', 1.7e15)", "return {1.7e15 .. '', tostring(1e100), tostring(0.1), tostring(1/0), tostring(-1/0), tostring(2^53)}",
	"return {string.find(ARGV[1], ARGV[2])}", "return {string.match(ARGV[1], ARGV[2])}", "return {string.gsub(ARGV[1], ARGV[2], '<%0>')}",
	"return {string.gsub(ARGV[1], ARGV[2], {a = 'A'}, 2)}", "return {string.gsub(ARGV[1], ARGV[2], function(x) return 'f' end)}",
	"local list = {} for a, b in string.gmatch(ARGV[1], ARGV[2]) do list[#list + 1] = tostring(a) .. tostring(b) end return list",
	"return {string.find(ARGV[1], ARGV[2], tonumber(ARGV[3]))}", "return {string.find(ARGV[1], ARGV[2], 1, true)}",
	"return {string.sub(ARGV[1], tonumber(ARGV[3])), string.len(ARGV[1]), #ARGV[2], string.rep(ARGV[1], 2), string.lower(ARGV[1]), string.upper(ARGV[1])}",
	"return {string.byte(ARGV[1], 1, 3)}", "return table.concat({1, 2.5, ARGV[1]}, ',')", "return table.concat({1, {}}, ',')",
	"return {unpack(ARGV, 2)}", "return {unpack(ARGV, 2, 5)}", "return #{unpack(ARGV)}", "return {math.floor(tonumber(ARGV[3])), math.max(1, tonumber(ARGV[3]))}",
	"local x\nreturn x.y", "return nosuch", "x = 1", "return x + 1", "local x = {} return x .. 'a'", "local x = nil\n\nreturn 1 + x",
	"local a, b = 1, 2 local ok, e = pcall(function() a = 5 b = 6 error('no') end) local f = function() return a + b end a = a + 1 return {a, f(), e}",
	"local a = 1 local function up() a = a + 1 end pcall(function() up() redis.call('nosuch') end) pcall(function() up() local x = nil; x.y = 1 end) up() return a",
	"local a = 1 local ok = pcall(function() pcall(function() a = 2 error('x') end) a = a + 1 error('y') end) a = a * 10 return a",
	"local t = {} for i = 1, 3 do t[i] = function() return i end end pcall(error, 'x') return {t[1](), t[2](), t[3]()}",
	"local KEYS, ARGV = KEYS, ARGV local function one() return KEYS[1] end local r = {} for i = 1, 3 do KEYS = {i} local ok, v = pcall(one) pcall(error) r[i] = v end return r",
	"return redis.call('SET', 'n', 1.7e15)", "redis.call('SET', 'n', 0.1) return redis.call('GET', 'n')", "redis.call('SET', 'n', 2^60) return redis.call('GET', 'n')",
	"return redis.call('SET', 'n', {})", "return redis.call()", "return redis.call('SET', 'n', nil)", "return redis.call('SET', 'n', true)",
	"return redis.call('SUBSCRIBE', 'x')", "return redis.call('EVAL', 'return 1', 0)", "return redis.sha1hex(ARGV[1])", "return type(redis.acl_check_cmd)",
	"local e = redis.error_reply({}) return e.err", "return select('#', unpack(ARGV))", "return {select(2, unpack(ARGV))}", "return {-5 % 7, 5 % -7, 5.5 % 2, 2 ^ 10, 7 / 2}",
	"return {tostring(nil), tostring(true), type(ARGV), type(nil)}", "for i, v in ipairs({1, 2, nil, 4}) do redis.call('EXISTS', i, v) end return 1",
	"return {ARGV[1] < ARGV[2], ARGV[1] == ARGV[2], 1 < 2}", "return ARGV[1] < 1", "return ('x'):rep(3) .. #ARGV", "return not ARGV[1]", "return",
	"local t = setmetatable({}, {__index = function(_, k) return k .. '!' end}) return t.a", "return {xpcall(function() error('a', 0) end, function(e) return e .. 'b' end)}",
	"return {assert(1, 'no'), pcall(assert, false, 'no')}", "return tostring(-0)", "return {1e3, 1e15, 2^31}", "return {{}, {{}}, '', 0}", "return pcall(nil)",
	"local n = 0 repeat n = n + 1 local done = n > 3 until done return n", "local s = 0 for i = 10, 1, -3 do s = s + i end return s", "while true do break end return KEYS[1]",
}

var (
	subjects = []string{"", "abc", "a1b2", "12:34:x", "30000:64:c-1:7:", "aaa", "x=1, y=2", "(a(b)c)", "a.b", "THE (quick) fox", "hello world", "\x00a\n"}
	patterns = []string{
		"", "a", "^a", "a$", "%d+", "^(%d+):(%d+)", "^(%d+):(%d+):([^:]+):(%d+)(:?)(.*)$", "[a-c]*", "[^a]", "%a-%d", "(%a)(%d)", "()b()", ".-", "a*", "a+", "a?b",
		"%b()", "%f[%w]%w+", "(a)%1", "[%d.]", "[]]", "[a", "%", "(", ")", "%1", "[%a_][%w_]*", "%s", "%S+", "%p", "%.", "^", "$", "(.)(.)", "((a)(b))", "%x+", "[a-]", "a-$", "%z", "%l%u?",
	}
	numbers = []string{"0", "1", "-1", "3", "1.5", "-2.5", "1e15", "1700000000000000", "0x10", "-7"}
)

func TestLua(t *testing.T) {
	against(t, func(t *testing.T, server *redistest.Server) {
		sequences(t, 10, func(seed uint64) {
			p := newPair(t, server, seed)
			defer p.close()
			p.do("SET", "text", "x")
			for range 5 {
				for _, snippet := range snippets {
					if !p.exact && (strings.Contains(snippet, "err") || strings.Contains(snippet, "nosuch") || strings.Contains(snippet, "0.1") || strings.Contains(snippet, "2^60")) {
						continue // what other versions say of errors is not followed
					}
					p.do("EVAL", snippet, "1", "k", pick(p, subjects...), pick(p, patterns...), pick(p, numbers...), "four")
				}
				p.do("EVAL", snippets[0], pick(p, "-1", "9", "x", "1.5"), "a", "b")
			}
			p.do("SCRIPT", "EXISTS", compile(snippets[0]).sha, "nosuch")
			p.do("EVALSHA", strings.ToUpper(compile(snippets[1]).sha), "0", "1", "2")
		})
	})
}
