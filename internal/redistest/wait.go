package redistest

import "time"

// pollEvery is the pause between two looks at a condition.
const pollEvery = 10 * time.Millisecond

// until calls check again and again until it returns nil. When limit has passed, until fails tb
// with what was awaited and check's last error.
func until(tb TB, limit time.Duration, what string, check func() error) {
	tb.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("redistest: %s: not within %v: %v", what, limit, err)
			return
		}
		time.Sleep(pollEvery)
	}
}
