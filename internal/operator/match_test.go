package operator_test

import (
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What matches here matches in Redis, and the other way round.
func TestMatch(t *testing.T) {
	srv := redistest.Start(t)
	names := []string{"order:1", "order:12", "order:", "bill/7", "a*b", "a]b", "ab", "b", `a\b`, "-", "über", "\xff", "a\nb"}
	for _, name := range names {
		srv.Do("SET", name, "x")
	}
	for _, pattern := range []string{
		"*", "order:*", "order:?", "order:[1-3]", "order:[3-1]", "*r:*2", "*:1*", "a[*]b", `a\*b`, "a?b", "[^a]*", "[ab", "[ab]", "a[]]b",
		`a[\]]b`, "[^-]", "[a-]", "**", "?", "*b", `a\\b`, "bill/*", "*/*", "order", "", "ü*", "?ber", "??ber", "order:[", "[]", "[^]", `b\`,
	} {
		found := strings.Fields(strings.ReplaceAll(srv.Do("EVAL", `local t = {}
			for _, k in ipairs(redis.call('KEYS', ARGV[1])) do t[#t + 1] = k:gsub('.', function(c) return string.format('%02x', c:byte()) end) end
			return table.concat(t, ' ')`, "0", pattern), "\n", " "))
		var got []string
		for _, name := range names {
			if operator.Match(pattern, name) {
				got = append(got, hex(name))
			}
		}
		require.ElementsMatch(t, found, got, "%q", pattern)
	}
	require.False(t, operator.Match(strings.Repeat("a*", 100)+"b", strings.Repeat("a", 1000)), "at once")
}

func hex(text string) (digits string) {
	const all = "0123456789abcdef"
	for _, b := range []byte(text) {
		digits += string(all[b>>4]) + string(all[b&15])
	}
	return digits
}

func TestIsPattern(t *testing.T) {
	for text, is := range map[string]bool{"": false, "order:1": false, "order:*": true, "a?": true, "[a]": true, `a\`: true} {
		require.Equal(t, is, operator.IsPattern(text), text)
	}
}
