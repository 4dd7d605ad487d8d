package redistest

import (
	"fmt"
	"strconv"
	"strings"
)

// startAll starts servers at the same time and returns when all answer.
func startAll(servers []*Server) {
	for _, s := range servers {
		s.tb.Helper()
		s.spawn()
	}
	for _, s := range servers {
		s.awaitReady()
	}
}

// each returns the first error that check has about one of servers.
func each(servers []*Server, check func(*Server) error) error {
	for _, s := range servers {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

func byPort(servers []*Server, port string) (*Server, error) {
	for _, s := range servers {
		if strconv.Itoa(s.port) == port {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no server of this test has port %s", port)
}

// hasRole returns nil when the server says it is a "master" or a "slave".
func hasRole(s *Server, role string) error {
	reply, err := s.probe("ROLE")
	if err != nil {
		return err
	}
	if fields, ok := reply.([]any); !ok || len(fields) == 0 || text(fields[0]) != role {
		return fmt.Errorf("%s is no %s", s.Addr(), role)
	}
	return nil
}

// replicasInSync returns nil when that many replicas follow master's stream.
func replicasInSync(master *Server, replicas int) error {
	reply, err := master.probe("INFO", "replication")
	if err != nil {
		return err
	}
	online := 0
	for i := range replicas {
		if strings.Contains(infoField(text(reply), "slave"+strconv.Itoa(i)), "state=online") {
			online++
		}
	}
	if online < replicas {
		return fmt.Errorf("%s: %d of %d replicas in sync", master.Addr(), online, replicas)
	}
	return nil
}

// pairField returns the value that follows name in an array of names and
// values, "" when there is none.
func pairField(reply any, name string) string {
	fields, _ := reply.([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		if text(fields[i]) == name {
			return text(fields[i+1])
		}
	}
	return ""
}
