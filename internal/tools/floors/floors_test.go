package floors

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Library is a client library with a driver in this module.
const Library = "github.com/redis/rueidis"

func TestImportsThatLeadDownAreFine(t *testing.T) {
	for _, i := range []Import{
		{"internal/gate/gate.go", "sync"},
		{"internal/gate/gate.go", Module + "/internal/clock"},
		{"internal/link/link.go", Module + "/internal/driver"},
		{"internal/link/link.go", Module + "/internal/clock"},
		{"internal/driver/overrueidis/conn.go", Library},
		{"internal/driver/overrueidis/conn.go", Library + "/internal/cmds"},
		{"internal/driver/overrueidis/conn.go", Module + "/internal/driver"},
		{"internal/wire/grant.go", Module + "/lua"},
		{"internal/quorum/election.go", Module + "/internal/node"},
		{"hold.go", Module + "/internal/gate"},
		{"hold.go", Module + "/internal/clock"},
		{"hold.go", "github.com/google/uuid"},
		{"election/election.go", Module},
		{"election/election.go", "iter"},
		{"client.go", Library},
		{"redlock.go", Library},
		{"client.go", Module + "/internal/driver/overrueidis"},
		{"redlock.go", Module + "/internal/driver/overrueidis"},
		{"cmd/relock/demo.go", Library},
		{"cmd/relock/demo.go", Module},
		{"cmd/relock/demo.go", Module + "/internal/redistest"},
		{"cmd/relock/demo.go", Module + "/cmd/relock/internal/table"},
		{"internal/redistest/client.go", Library},
		{"internal/faults/goredis.go", "github.com/redis/go-redis/v9"},
		{"hold.go", "github.com/redis/go-redis-extra"},
		{"internal/sim/world/world.go", Module + "/internal/node"},
		{"internal/tools/walk/main.go", Module + "/internal/tools/floors"},
		{"internal/tools/walk/main.go", "github.com/relock-go/relocked"},
	} {
		require.Empty(t, Broken([]Import{i}), "%v", i)
	}
}

func TestImportsThatAreBroken(t *testing.T) {
	for _, test := range []struct{ file, path, why string }{
		{"internal/clock/clock.go", Module + "/internal/gate", "that leads up"},
		{"internal/wire/grant.go", Module + "/internal/hub", "that leads up"},
		{"internal/driver/driver.go", Module + "/internal/driver/overrueidis", "that leads up"},
		{"internal/quorum/election.go", Module, "that leads up"},
		{"lua/texts.go", Module + "/internal/wire", "that leads up"},
		{"client.go", Module + "/election", "that leads up"},
		{"election/watch.go", Module + "/internal/clock", "it stands on the root alone"},
		{"election/watch.go", Module + "/internal/redistest", "it stands on the root alone"},
		{"election/watch.go", Library, "it stands on the root alone"},
		{"internal/node/node.go", Module + "/internal/quorum", "that leads up"},
		{"internal/hub/hub.go", Module + "/internal/gate", "that is for . alone"},
		{"internal/gate/gate.go", Library, "that is for internal/driver/overrueidis, client.go, redlock.go alone"},
		{"internal/link/link.go", Library, "that is for internal/driver/overrueidis, client.go, redlock.go alone"},
		{"hold.go", Library, "that is for internal/driver/overrueidis, client.go, redlock.go alone"},
		{"hold.go", Library + "/rueidislock", "that is for internal/driver/overrueidis, client.go, redlock.go alone"},
		{"internal/node/client.go", Library, "that is for internal/driver/overrueidis, client.go, redlock.go alone"},
		{"client.go", "github.com/redis/go-redis/v9", "its driver is in another module"},
		{"internal/driver/overrueidis/conn.go", "github.com/valkey-io/valkey-go", "its driver is in another module"},
		{"hold.go", Module + "/internal/driver/overrueidis", "that is for client.go, redlock.go alone"},
		{"internal/link/link.go", Module + "/internal/driver/overrueidis", "that is for client.go, redlock.go alone"},
		{"hold.go", Module + "/internal/redistest", "a helper is for tests"},
		{"internal/node/node.go", Module + "/internal/tools/floors", "a helper is for tests"},
		{"internal/link/link.go", Module + "/internal/drivertest", "a helper is for tests"},
		{"internal/driver/driver.go", Module + "/internal/sim", "a helper is for tests"},
		{"hold.go", Module + "/cmd/relock", "a program is imported by nobody"},
		{"internal/sim/sim.go", Module + "/cmd/relock", "a program is imported by nobody"},
		{"hold.go", Module + "/internal/attic", "internal/attic stands on no floor"},
		{"internal/wire/old/old.go", Module + "/internal/clock", "internal/wire/old stands on no floor"},
		{"internal/modeller/a.go", Module + "/internal/clock", "internal/modeller stands on no floor"},
	} {
		line := test.file + " imports " + test.path + ": " + test.why
		require.Equal(t, []string{line}, Broken([]Import{{test.file, test.path}}))
	}
}

// What is tolerated is one file's import of the client library, and nothing else.
func TestAToleratedFileMayKnowTheClientLibrary(t *testing.T) {
	require.Empty(t, Broken([]Import{{"hold.go", Library}, {"hold.go", "github.com/redis/go-redis/v9"}}, "link.go", "hold.go"))
	require.Len(t, Broken([]Import{
		{"hold.go", Library}, {"lease.go", Module + "/internal/sim"}, {"lease.go", Module + "/internal/driver/overrueidis"},
	}, "lease.go"), 3)
}

func TestStrangersStandOnNoFloor(t *testing.T) {
	require.Equal(t, []string{"internal/attic", "luas"}, Strangers([]string{
		"hold.go", "lua/texts.go", "luas/a.go", "internal/attic/b.go", "internal/attic/a.go", "internal/tools/walk/main.go",
		"cmd/relock/main.go", "internal/driver/driver.go", "election/election.go",
	}))
}

func TestReadLooksAtOneModule(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod":              "module m",
		"a.go":                "package m\n\nimport (\n\t\"fmt\"\n\tother \"example.org/other\"\n)\n",
		"a_test.go":           "package m\n\nimport \"testing\"\n",
		"sub/b_windows.go":    "//go:build windows\n\npackage sub\n\nimport `os`\n",
		"sub/testdata/c.go":   "package c\n\nimport \"os\"\n",
		"bench/go.mod":        "module bench",
		"bench/main.go":       "package main\n\nimport \"os\"\n",
		".hidden/d.go":        "package d\n\nimport \"os\"\n",
		"_old/e.go":           "package e\n\nimport \"os\"\n",
		"sub/deeper/empty.go": "package deeper\n",
		"sub/text.lua":        "return 1",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	files, imports, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"a.go", "sub/b_windows.go", "sub/deeper/empty.go"}, files)
	require.Equal(t, []Import{{"a.go", "fmt"}, {"a.go", "example.org/other"}, {"sub/b_windows.go", "os"}}, imports)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "f.go"), []byte("no Go"), 0o600))
	_, _, err = Read(dir)
	require.Error(t, err)
}

// The packages of the library stand on these floors, and each imports only what is below it.
func TestImportsLeadDown(t *testing.T) {
	files, imports, err := Read("../../..")
	require.NoError(t, err)
	require.Contains(t, files, "client.go")
	require.NotEmpty(t, imports)
	require.Empty(t, Strangers(files), "packages that stand on no floor")
	require.Empty(t, Broken(imports))
}
