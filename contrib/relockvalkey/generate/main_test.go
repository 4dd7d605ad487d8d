package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is checked in is what the generator would write.
func TestUpToDate(t *testing.T) {
	t.Chdir("..")
	want, err := generate()
	require.NoError(t, err)
	have, err := filepath.Glob(filepath.Join(to, "*.go"))
	require.NoError(t, err)
	require.Len(t, have, len(want), "go generate in contrib/relockvalkey; delete what it did not write")
	for name, text := range want {
		now, err := os.ReadFile(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, string(text), string(now), "go generate in contrib/relockvalkey")
	}
}
