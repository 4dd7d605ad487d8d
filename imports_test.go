package relock

import (
	"slices"
	"testing"

	"github.com/relock-go/relock/internal/tools/floors"
	"github.com/stretchr/testify/require"
)

// knowTheClientLibrary are the files that still import the client library, which a driver hides.
// The list only shrinks.
var knowTheClientLibrary = []string{
	"acquisition.go", "ballots.go", "errors.go", "feed.go", "link.go", "node.go", "pubsub.go", "scripts.go", "seat.go",
	"sharded.go", "state.go", "sweepscript.go",
}

// The packages stand on floors, and each imports only what is below it. The order is in package
// floors.
func TestImportsLeadDown(t *testing.T) {
	files, imports, err := floors.Read(".")
	require.NoError(t, err)
	require.Contains(t, files, "client.go")
	require.NotEmpty(t, imports)
	require.Empty(t, floors.Strangers(files), "packages that stand on no floor")
	require.Empty(t, floors.Broken(imports, knowTheClientLibrary...))
	for _, file := range knowTheClientLibrary {
		if !slices.ContainsFunc(imports, func(i floors.Import) bool { return i.File == file && i.Path == floors.Library }) {
			t.Logf("%s no longer imports the client library: take it off the list", file)
		}
	}
}
