package drivertest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rights reads the ACLs of docs/wire.md for locks whose names begin with prefix: the rules that
// every user needs, and the further rules for a Cluster and for a quorum.
func Rights(t testing.TB, prefix string) (every, cluster, quorum []string) {
	t.Helper()
	rules := allRights(t, prefix)
	return rules[0], rules[3], rules[4]
}

// ReadWriteRights returns the further rules for read-write locks.
func ReadWriteRights(t testing.TB, prefix string) []string {
	t.Helper()
	return allRights(t, prefix)[1]
}

// SemaphoreRights returns the further rules for semaphores.
func SemaphoreRights(t testing.TB, prefix string) []string {
	t.Helper()
	return allRights(t, prefix)[2]
}

// OptionalRights returns the rights to single keys that some options and kinds of lock need beyond those lists.
func OptionalRights(t testing.TB, prefix string) (rules []string) {
	t.Helper()
	for _, found := range regexp.MustCompile("needs `(~[^`]*)` too").FindAllStringSubmatch(wireDoc(t), -1) {
		rules = append(rules, strings.ReplaceAll(found[1], "orders:", prefix))
	}
	require.NotEmpty(t, rules)
	return rules
}

// TagRights turns rules for locks whose names begin with prefix into rules for locks whose whole
// names are a hash tag that begins with prefix. It does so by the table of docs/wire.md.
func TagRights(t testing.TB, prefix string, rules []string) (turned []string) {
	t.Helper()
	_, row, found := strings.Cut(wireDoc(t), "\n| a tag and nothing else")
	require.True(t, found)
	row, _, _ = strings.Cut(strings.ReplaceAll(row, "orders:", prefix), "\n")
	swaps := regexp.MustCompile("`(~[^`]*)` in place of `(~[^`]*)`").FindAllStringSubmatch(row, -1)
	require.NotEmpty(t, swaps)
	for _, rule := range rules {
		for _, swap := range swaps {
			if rest, ok := strings.CutPrefix(rule, swap[2]); ok {
				rule = swap[1] + rest
				break
			}
		}
		turned = append(turned, rule)
	}
	return turned
}

// allRights returns the five ACLs of docs/wire.md, in their order there.
func allRights(t testing.TB, prefix string) (rules [][]string) {
	t.Helper()
	for i, block := range strings.Split(wireDoc(t), "```") {
		if rest, ok := strings.CutPrefix(block, "acl\n"); ok && i%2 == 1 {
			rules = append(rules, strings.Fields(strings.ReplaceAll(rest, "orders:", prefix)))
		}
	}
	require.Len(t, rules, 5)
	return rules
}

func wireDoc(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "docs", "wire.md"))
	for err != nil && dir != filepath.Dir(dir) { // the test is of a module below the root's
		dir = filepath.Dir(dir)
		text, err = os.ReadFile(filepath.Join(dir, "docs", "wire.md"))
	}
	require.NoError(t, err)
	return string(text)
}
