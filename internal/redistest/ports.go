package redistest

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// Server ports, their cluster buses and their guards are three ranges that
// do not overlap, all below the ephemeral ports of Linux and macOS: while a
// killed server is down, no outgoing connection can be given its port.
const (
	loopback    = "127.0.0.1"
	firstPort   = 11000
	portCount   = 5000
	busOffset   = 10000 // fixed by Redis
	guardOffset = 15000
)

// FreePort returns a loopback port on which nothing listens, with its cluster
// bus port (port + 10000) free too. It stays reserved against every other
// FreePort of this machine, those of other processes included, until tb's
// cleanup, even while nothing listens on it.
func FreePort(tb TB) int {
	tb.Helper()
	start := rand.IntN(portCount)
	for i := range portCount {
		port := firstPort + (start+i)%portCount
		// The open guard is the reservation: only one process can hold it.
		guard, err := net.Listen("tcp", address(port+guardOffset))
		if err != nil {
			continue
		}
		if vacant(port) && vacant(port+busOffset) {
			tb.Cleanup(func() { _ = guard.Close() })
			return port
		}
		_ = guard.Close()
	}
	tb.Fatalf("redistest: none of the ports %d to %d is free", firstPort, firstPort+portCount-1)
	return 0
}

func vacant(port int) bool {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
