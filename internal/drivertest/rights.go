package drivertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rights reads the ACLs of docs/wire.md for locks whose names begin with prefix: what every user
// needs, and what a Cluster and a quorum take beyond that.
func Rights(t testing.TB, prefix string) (every, cluster, quorum []string) {
	t.Helper()
	rules := allRights(t, prefix)
	return rules[0], rules[2], rules[3]
}

// ReadWriteRights is what read-write locks take beyond what every user needs.
func ReadWriteRights(t testing.TB, prefix string) []string {
	t.Helper()
	return allRights(t, prefix)[1]
}

func allRights(t testing.TB, prefix string) (rules [][]string) {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "docs", "wire.md"))
	for err != nil && dir != filepath.Dir(dir) { // of a module below the root's
		dir = filepath.Dir(dir)
		text, err = os.ReadFile(filepath.Join(dir, "docs", "wire.md"))
	}
	require.NoError(t, err)
	for i, block := range strings.Split(string(text), "```") {
		if rest, ok := strings.CutPrefix(block, "acl\n"); ok && i%2 == 1 {
			rules = append(rules, strings.Fields(strings.ReplaceAll(rest, "orders:", prefix)))
		}
	}
	require.Len(t, rules, 4)
	return rules
}
