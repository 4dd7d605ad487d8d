package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the directory of the module, as this package's tests see it.
const root = "../../.."

const heading = "The walk of a lock"

// measured is the walk that was measured last: tests share it.
var measured struct{ lock, unlock []string }

func measuredOnce(t *testing.T) (lock, unlock []string) {
	t.Helper()
	if measured.lock == nil {
		var err error
		measured.lock, measured.unlock, err = walk(t)
		require.NoError(t, err)
	}
	return measured.lock, measured.unlock
}

func TestAWalkLeadsThroughTheGate(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a program")
	}
	lock, unlock := measuredOnce(t)
	for _, files := range [][]string{lock, unlock} {
		require.Contains(t, files, "internal/gate/gate.go")
		require.NotContains(t, files, "redlock.go")
		require.True(t, slices.IsSortedFunc(files, func(a, b string) int { return level(b) - level(a) }))
		for _, file := range files {
			require.FileExists(t, filepath.Join(root, file))
		}
	}
}

// The design shows the files that Lock passes, and may show those of Unlock in a second block. In
// which order, and what else it says of them, is its own affair. Files that are no Go may stand
// between.
func TestTheDesignShowsTheWalk(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "design.md"))
	require.NoError(t, err)
	blocks, found := shown(string(text), heading)
	require.True(t, found, "docs/design.md has no heading %q", heading)
	require.NotEmpty(t, blocks, "no fenced code block under %q", heading)
	lock, unlock := measuredOnce(t)
	for i, files := range [][]string{lock, unlock}[:min(2, len(blocks))] {
		for _, file := range blocks[i] {
			require.FileExists(t, filepath.Join(root, file))
		}
		inGo := slices.DeleteFunc(blocks[i], func(file string) bool { return filepath.Ext(file) != ".go" })
		require.ElementsMatch(t, files, inGo, "compare with go run ./internal/tools/walk")
	}
}

func TestShownAreTheBlocksOfOneHeading(t *testing.T) {
	text := "# Design\n```\nbefore.go\n```\n## The walk of a lock\n\nIt goes:\n\n```text\nlease.go   the front door\n\n" +
		"  # gate.go\nlua/a.lua  a script\n```\n\nAnd back:\n\n```\nhold.go\n```\n## After\n```\nafter.go\n```\n"
	blocks, found := shown(text, heading)
	require.True(t, found)
	require.Equal(t, [][]string{{"lease.go", "#", "lua/a.lua"}, {"hold.go"}}, blocks)

	blocks, found = shown(text, "The walk")
	require.False(t, found)
	require.Empty(t, blocks)

	blocks, found = shown("```\n# The walk of a lock\n```\n### The walk of a lock\nNothing yet.\n", heading)
	require.True(t, found)
	require.Empty(t, blocks)
}

func TestPassedAreFilesWithAStatementThatRan(t *testing.T) {
	require.Equal(t, []string{"internal/gate/gate.go", "lease.go"}, passedIn("mode: atomic\n"+
		"github.com/relock-go/relock/lease.go:10.2,12.3 2 0\n"+
		"github.com/relock-go/relock/lease.go:13.2,14.3 1 10\n"+
		"github.com/relock-go/relock/lease.go:15.2,16.3 1 1\n"+
		"github.com/relock-go/relock/hold.go:10.2,12.3 1 0\n"+
		"github.com/relock-go/relock/internal/gate/gate.go:1.2,3.4 1 7\n"+
		"github.com/relock-go/relock/internal/tools/walk/probe/main.go:1.2,3.4 1 1\n"))
}

// A file is in if most runs had it, and the lists begin at the top.
func TestElectedAreTheFilesOfMostRuns(t *testing.T) {
	most := []string{"hold.go", "lease.go", "internal/gate/gate.go", "internal/clock/clock.go"}
	require.Equal(t, most, elected([][]string{
		{"internal/clock/clock.go", "lease.go", "sweep.go"},
		{"internal/gate/gate.go", "hold.go", "lease.go", "internal/clock/clock.go"},
		{"internal/gate/gate.go", "hold.go", "lease.go"},
	}))
	require.Empty(t, elected([][]string{{"a.go"}, nil}))
}

func TestAProgramThatFailsSaysWhy(t *testing.T) {
	_, _, err := measure(os.Args[0], "-test.unknown", t.TempDir())
	require.ErrorContains(t, err, "test.unknown")
}
