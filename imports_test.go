package relock

import (
	"testing"

	"github.com/relock-go/relock/internal/tools/floors"
	"github.com/stretchr/testify/require"
)

// The packages stand on floors, and each imports only what is below it. The order is in package
// floors.
func TestImportsLeadDown(t *testing.T) {
	files, imports, err := floors.Read(".")
	require.NoError(t, err)
	require.Contains(t, files, "client.go")
	require.NotEmpty(t, imports)
	require.Empty(t, floors.Strangers(files), "packages that stand on no floor")
	require.Empty(t, floors.Broken(imports))
}
