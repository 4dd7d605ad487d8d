package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/show"
	"github.com/relock-go/relock/examples/internal/show/showtest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const asProgram = "FENCEDSQL_AS_PROGRAM" // has the test binary run main

func TestMain(m *testing.M) {
	show.Work(example)
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestOnSQLite(t *testing.T) {
	t.Parallel()
	t.Run("statements", func(t *testing.T) { tryStatements(t, "file:"+filepath.Join(t.TempDir(), "orders.db")) })
	t.Run("late writes", func(t *testing.T) { showtest.Run(t, example) })
}

func TestOnPostgreSQL(t *testing.T) {
	t.Parallel()
	onServers := example
	onServers.Store = startPostgres(t)
	onServers.URL = "redis://" + redistest.Start(t).Addr()
	t.Run("statements", func(t *testing.T) { tryStatements(t, onServers.Store) })
	t.Run("late writes", func(t *testing.T) { showtest.Run(t, onServers) })
	t.Run("program", func(t *testing.T) {
		db, err := open(onServers.Store)
		require.NoError(t, err)
		defer db.Close()
		_, err = db.Exec("UPDATE fenced_orders SET state = 'new' WHERE id = 42")
		require.NoError(t, err)
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), self, "-rounds", "1", "-dsn", onServers.Store, "-redis", onServers.URL)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Regexp(t, `\ntoken +1 +0\nversion +1 +0\nwithout +0 +1\n$`, string(output))
		state, err := example.State(t.Context(), &onServers.Setting)
		require.NoError(t, err)
		require.Equal(t, "late", state, "it has played on this database")
	})
}

// tryStatements tries what the README says of each statement.
func tryStatements(t *testing.T, store string) {
	ctx := t.Context()
	end, err := prepare(ctx, &show.Setting{Store: store})
	require.NoError(t, err)
	defer end()
	db, err := open(store)
	require.NoError(t, err)
	defer db.Close()
	state := func(id int64) (state string) {
		require.NoError(t, db.QueryRow("SELECT state FROM fenced_orders WHERE id = $1", id).Scan(&state))
		return state
	}

	require.NoError(t, putState(ctx, db, 41, "new", 0))
	// As great as tokens are, and greater. An equal token is a re-entry, or a write that is repeated.
	for _, token := range []int64{1, 3, 1_800_000_000_000_001, 1<<63 - 1} {
		for _, set := range []func() error{
			func() error { return setState(ctx, db, 41, "set", token) },
			func() error { return putState(ctx, db, 41, "put", token) },
		} {
			require.NoError(t, set())
			require.NoError(t, set())
		}
		require.ErrorIs(t, setState(ctx, db, 41, "old", token-1), errStale)
		require.ErrorIs(t, putState(ctx, db, 41, "old", token-1), errStale)
		require.Equal(t, "put", state(41))
	}
	require.ErrorIs(t, errStale, relock.ErrLost)

	// A holder that reads first refuses the writes of earlier holders from then on.
	require.NoError(t, putState(ctx, db, 40, "new", 7))
	read, err := readState(ctx, db, 40, 9)
	require.NoError(t, err)
	require.Equal(t, "new", read)
	require.ErrorIs(t, setState(ctx, db, 40, "old", 8), errStale)
	_, err = readState(ctx, db, 40, 8)
	require.ErrorIs(t, err, errStale)
	require.NoError(t, setState(ctx, db, 40, "set", 9))

	// No row: the update tells why, and the upsert makes one.
	require.ErrorIs(t, setState(ctx, db, 7, "set", 5), errNoOrder)
	_, err = readState(ctx, db, 7, 5)
	require.ErrorIs(t, err, errNoOrder)
	require.NoError(t, putState(ctx, db, 7, "put", 5))
	require.ErrorIs(t, putState(ctx, db, 7, "old", 4), errStale)
	require.Equal(t, "put", state(7))

	// The version that was read is the one that is written over, once.
	require.NoError(t, setVersion(ctx, db, 7, "first", 0))
	require.ErrorIs(t, setVersion(ctx, db, 7, "second", 0), errChanged)
	require.ErrorIs(t, setVersion(ctx, db, 8, "none", 0), errChanged)
	require.Equal(t, "first", state(7))

	// A column without NOT NULL DEFAULT 0 refuses every token.
	_, err = db.Exec("CREATE TABLE nullable (id BIGINT, fence BIGINT)")
	require.NoError(t, err)
	_, err = db.Exec("INSERT INTO nullable (id) VALUES (1)")
	require.NoError(t, err)
	compared := func(rest string) int64 {
		rows, err := written(db.Exec("UPDATE nullable SET fence = $1 WHERE id = 1 AND "+rest, 9))
		require.NoError(t, err)
		return rows
	}
	require.Zero(t, compared("fence <= $1"))
	require.Equal(t, int64(1), compared("COALESCE(fence, 0) <= $1"))

	// Two tables: what the first statement refuses leaves no row in the second.
	require.NoError(t, pay(ctx, db, 7, 6))
	require.ErrorIs(t, pay(ctx, db, 7, 5), errStale)
	var payments int
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM fenced_payments").Scan(&payments))
	require.Equal(t, 1, payments)
}
