package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/relock-go/relock"
)

// NOT NULL DEFAULT 0 lets the first write in: a comparison with NULL is not true, so it would refuse every write.
const schema = `
CREATE TABLE IF NOT EXISTS fenced_orders (
	id      BIGINT PRIMARY KEY,
	state   TEXT NOT NULL,
	fence   BIGINT NOT NULL DEFAULT 0,
	version BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS fenced_payments (
	order_id BIGINT NOT NULL REFERENCES fenced_orders
)
`

// One statement compares and writes, in SQLite as in PostgreSQL.
const (
	update = `
UPDATE fenced_orders SET state = $1, fence = $2
WHERE id = $3 AND fence <= $2
`
	read = `
UPDATE fenced_orders SET fence = $1
WHERE id = $2 AND fence <= $1
RETURNING state
`
	upsert = `
INSERT INTO fenced_orders (state, fence, id) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, fence = excluded.fence
WHERE fenced_orders.fence <= excluded.fence
`
	updateVersion = `
UPDATE fenced_orders SET state = $1, version = version + 1
WHERE id = $2 AND version = $3
`
)

var (
	// errStale wraps ErrLost: a later holder wrote, so this one has lost its lock.
	errStale   = fmt.Errorf("a later holder has written: %w", relock.ErrLost)
	errNoOrder = errors.New("there is no such order")
	errChanged = errors.New("the order has changed since it was read")
)

// setState is what a service would have: each write of an order passes here.
func setState(ctx context.Context, db *sql.DB, id int64, state string, token int64) error {
	rows, err := written(db.ExecContext(ctx, update, state, token, id))
	if err != nil || rows > 0 {
		return err
	}
	return whyNot(ctx, db, id)
}

// readState is for holders whose write depends on the state. From here on a write of an earlier holder is refused.
func readState(ctx context.Context, db *sql.DB, id, token int64) (state string, err error) {
	err = db.QueryRowContext(ctx, read, token, id).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		err = whyNot(ctx, db, id)
	}
	return state, err
}

// whyNot tells why no row was written: the token is stale, or there is no such order.
func whyNot(ctx context.Context, db *sql.DB, id int64) error {
	var there bool
	err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM fenced_orders WHERE id = $1)", id).Scan(&there)
	switch {
	case err != nil:
		return err
	case !there:
		return errNoOrder
	}
	return errStale
}

// putState makes an order that is missing, so that no row means a stale token.
func putState(ctx context.Context, db *sql.DB, id int64, state string, token int64) error {
	rows, err := written(db.ExecContext(ctx, upsert, state, token, id))
	if err == nil && rows == 0 {
		return errStale
	}
	return err
}

// setVersion is for orders that are also changed without the lock. The caller has read the version.
func setVersion(ctx context.Context, db *sql.DB, id int64, state string, version int64) error {
	rows, err := written(db.ExecContext(ctx, updateVersion, state, id, version))
	if err == nil && rows == 0 {
		return errChanged
	}
	return err
}

// pay writes to two tables. The row that keeps the token comes first, in one transaction with the others.
func pay(ctx context.Context, db *sql.DB, id, token int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	rows, err := written(tx.ExecContext(ctx, update, "paid", token, id))
	if err == nil && rows == 0 {
		err = errStale
	}
	if err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, "INSERT INTO fenced_payments (order_id) VALUES ($1)", id); err != nil {
		return err
	}
	return tx.Commit()
}

func written(result sql.Result, err error) (rows int64, _ error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
