// Command fencedsql shows how a table refuses a late write: a row keeps the fencing token of its last write, or a version.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", for PostgreSQL
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/show"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

func withToken(ctx context.Context, w *show.Worker, lease *relock.Lease) error {
	db, err := open(w.Store)
	if err != nil {
		return err
	}
	defer db.Close()
	w.Pause()
	return setState(ctx, db, 42, w.Name, lease.Token())
}

func withVersion(ctx context.Context, w *show.Worker, _ *relock.Lease) error {
	db, err := open(w.Store)
	if err != nil {
		return err
	}
	defer db.Close()
	var version int64 // is read under the lock, before the work
	if err = db.QueryRowContext(ctx, "SELECT version FROM fenced_orders WHERE id = 42").Scan(&version); err != nil {
		return err
	}
	w.Pause()
	return setVersion(ctx, db, 42, w.Name, version)
}

// without is the control group.
func without(ctx context.Context, w *show.Worker, _ *relock.Lease) error {
	db, err := open(w.Store)
	if err != nil {
		return err
	}
	defer db.Close()
	w.Pause()
	_, err = db.ExecContext(ctx, "UPDATE fenced_orders SET state = $1 WHERE id = 42", w.Name)
	return err
}

// open opens a file of SQLite, or else PostgreSQL.
func open(store string) (*sql.DB, error) {
	if strings.HasPrefix(store, "file:") {
		return sql.Open("sqlite", store+"?_pragma=busy_timeout(60000)")
	}
	return sql.Open("pgx", store)
}

var example = show.Example{
	Lock: "order:42",
	Ways: []show.Way{
		{Name: "token", Work: withToken, Refusal: errStale},
		{Name: "version", Work: withVersion, Refusal: errChanged},
		{Name: "without", Work: without},
	},
	Prepare: prepare,
	State: func(ctx context.Context, s *show.Setting) (state string, err error) {
		db, err := open(s.Store)
		if err != nil {
			return "", err
		}
		defer db.Close()
		err = db.QueryRowContext(ctx, "SELECT state FROM fenced_orders WHERE id = 42").Scan(&state)
		return state, err
	},
}

func prepare(ctx context.Context, s *show.Setting) (end func(), err error) {
	end = func() {}
	if s.Store == "" {
		dir, err := os.MkdirTemp("", "fencedsql")
		if err != nil {
			return nil, err
		}
		s.Store = "file:" + filepath.Join(dir, "orders.db")
		end = func() { os.RemoveAll(dir) }
	}
	db, err := open(s.Store)
	if err != nil {
		return end, err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, schema)
	_, inserting := db.ExecContext(ctx, "INSERT INTO fenced_orders (id, state) VALUES (42, 'new') ON CONFLICT (id) DO NOTHING")
	return end, errors.Join(err, inserting)
}

func main() {
	flag.StringVar(&example.Store, "dsn", "", "a PostgreSQL database, as postgres://user@host/name; without it SQLite is embedded")
	show.Main(&example)
}
