package relock_test

import (
	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
)

// connect stands for the rueidis client that a service has already, here over a Redis of the example's own.
func connect() (rueidis.Client, func()) {
	s := new(redistest.Stage)
	return redistest.Start(s).Client(), s.End
}
