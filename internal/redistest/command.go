package redistest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	commandTimeout = 5 * time.Second
	probeTimeout   = 500 * time.Millisecond
)

// Try sends one command over a connection of its own and returns the reply: a
// string, an int64, nil, or a []any of those and of ServerErrors. An error is a
// [ServerError] when the server refused; otherwise the command may or may not
// have run. Gives up after 5 seconds.
func (s *Server) Try(args ...string) (any, error) {
	return s.exchange(commandTimeout, args)
}

// Do is Try for a command that must succeed: it fails the test on any error.
// It returns the reply as text: integers in decimal, nil as "", the items of an
// array one per line.
func (s *Server) Do(args ...string) string {
	s.tb.Helper()
	reply, err := s.Try(args...)
	if err != nil {
		s.tb.Fatalf("redistest: %s: %s: %v", s.Addr(), strings.Join(args, " "), err)
	}
	return text(reply)
}

// CommandCounts returns how often each command ran since the server came up or
// the last reset, by lower-case name, those called by scripts included; a
// subcommand is "client|setinfo" (from Redis 7.0 on). The helpers' own
// commands are left out, those of Do and Try are not.
func (s *Server) CommandCounts() map[string]int64 {
	s.tb.Helper()
	s.mu.Lock()
	own := maps.Clone(s.probes)
	s.mu.Unlock()
	reply, err := s.probe("INFO", "commandstats")
	if err != nil {
		s.tb.Fatalf("redistest: %s: INFO commandstats: %v", s.Addr(), err)
	}
	counts := make(map[string]int64)
	for line := range strings.Lines(text(reply)) {
		name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(stats, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			s.tb.Fatalf("redistest: %s: INFO commandstats: %q", s.Addr(), line)
		}
		if n -= own[name]; n > 0 {
			counts[name] = n
		}
	}
	return counts
}

// ResetCommandCounts makes CommandCounts start again from zero.
func (s *Server) ResetCommandCounts() {
	s.tb.Helper()
	if err := s.resetCounts(); err != nil {
		s.tb.Fatalf("redistest: %s: CONFIG RESETSTAT: %v", s.Addr(), err)
	}
}

func (s *Server) resetCounts() error {
	reset := []string{"CONFIG", "RESETSTAT"}
	if _, err := s.exchange(probeTimeout, reset); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The server counts the command itself after it has reset the counters.
	s.probes = map[string]int64{s.statName(reset): 1}
	return nil
}

// probe is Try for the helpers' own commands: it gives up sooner, and
// CommandCounts does not show the command.
func (s *Server) probe(args ...string) (any, error) {
	reply, err := s.exchange(probeTimeout, args)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.probes[s.statName(args)]++
	}
	return reply, err
}

// statName is the name under which the server counts a command of the helpers.
func (s *Server) statName(args []string) string {
	name := strings.ToLower(args[0])
	switch name {
	case "cluster", "config", "sentinel":
		if s.bin.major >= 7 {
			return name + "|" + strings.ToLower(args[1])
		}
	}
	return name
}

// exchange sends one command on a new connection and reads its reply. A reply
// that is an error is returned as such.
func (s *Server) exchange(timeout time.Duration, args []string) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("no command")
	}
	deadline := time.Now().Add(timeout)
	conn, err := s.dial(deadline)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if err := writeCommand(conn, args); err != nil {
		return nil, err
	}
	reply, err := readReply(bufio.NewReader(conn))
	if err != nil {
		return nil, err
	}
	if refused, ok := reply.(ServerError); ok {
		return nil, refused
	}
	return reply, nil
}

func (s *Server) dial(deadline time.Time) (net.Conn, error) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if s.secure != nil {
		dialer := tls.Dialer{Config: s.secure}
		return dialer.DialContext(ctx, "tcp", s.Addr())
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", s.Addr())
}
