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

// each calls check for the servers in turn, and returns its first error.
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

// RefuseReplicas cuts the replicas of s off, and refuses them until s is restarted: what is written
// from now on is lost with s. It returns when no replica is connected. The replicas stay up, and
// could be promoted.
func (s *Server) RefuseReplicas() {
	s.tb.Helper()
	s.Do("ACL", "SETUSER", "default", "-psync", "-sync")
	until(s.tb, settleLimit, "cut of "+s.Addr()+" from its replicas", func() error {
		if _, err := s.Try("CLIENT", "KILL", "TYPE", "replica"); err != nil {
			return err
		}
		reply, err := s.probe("INFO", "replication")
		if err != nil {
			return err
		}
		if n := infoField(text(reply), "connected_slaves"); n != "0" {
			return fmt.Errorf("%s replicas are connected", n)
		}
		return nil
	})
}

// AwaitReplicas returns when that many replicas have received all that s has written.
func (s *Server) AwaitReplicas(replicas int) {
	s.tb.Helper()
	until(s.tb, settleLimit, "replicas of "+s.Addr(), func() error {
		if err := replicasInSync(s, replicas); err != nil {
			return err
		}
		reply, err := s.probe("WAIT", strconv.Itoa(replicas), "400")
		if err != nil {
			return err
		}
		if text(reply) < strconv.Itoa(replicas) {
			return fmt.Errorf("%s of %d replicas have it all", text(reply), replicas)
		}
		return nil
	})
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
