// Package embedded runs the Redis of an example that was given none.
package embedded

import "github.com/alicebob/miniredis/v2"

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
