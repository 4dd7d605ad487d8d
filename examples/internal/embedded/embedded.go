// Package embedded runs the Redis of an example that was given none.
package embedded

import (
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Redis says where Redis is.
type Redis struct {
	URL      string
	Embedded bool // it is a miniredis, for which rueidis needs other options
}

// Start starts a Redis in this process if r has no URL. It runs until end is called.
func (r *Redis) Start() (end func(), err error) {
	if r.URL != "" {
		return func() {}, nil
	}
	mini := miniredis.NewMiniRedis()
	if err := mini.Start(); err != nil {
		return nil, err
	}
	mini.ClockTTL(true) // otherwise leases never end
	*r = Redis{"redis://" + mini.Addr(), true}
	return mini.Close, nil
}

// Explain adds to the error of an example that nothing listens where its user's Redis should be, if so. Processes of a
// show that miss their Redis end it by a time-out, or by their end, which does not say why.
func (r Redis) Explain(err error) error {
	at, wrong := url.Parse(r.URL)
	if err == nil || r.URL == "" || wrong != nil {
		return err
	}
	host := at.Host
	if at.Port() == "" {
		host = net.JoinHostPort(at.Hostname(), "6379")
	}
	conn, gone := net.DialTimeout("tcp", host, time.Second)
	if gone != nil {
		return fmt.Errorf("%w (Redis is gone: %w)", err, gone)
	}
	_ = conn.Close()
	return err
}
