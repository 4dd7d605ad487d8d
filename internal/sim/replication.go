package sim

import "slices"

// replication is a server's part in it. What one command or script wrote is one unit: a replica has all of it or
// nothing.
type replication struct {
	master   *Server // nil for a master
	replicas []*Server
	unit     [][]string   // of the command that runs
	pending  [][][]string // of a replica: units that it has not applied yet
	apart    bool         // a replica that has to copy everything anew
	applying bool
}

// propagate notes a write for the replicas. What depends on the clock is to be spelled out.
func (s *Server) propagate(args ...string) {
	if len(s.replicas) > 0 {
		s.unit = append(s.unit, slices.Clone(args))
	}
}

// followed reports whether propagate does anything.
func (s *Server) followed() bool { return len(s.replicas) > 0 }

// commit closes the unit.
func (s *Server) commit() {
	if len(s.unit) == 0 {
		return
	}
	for _, replica := range s.replicas {
		if !replica.apart {
			replica.pending = append(replica.pending, s.unit)
		}
	}
	s.unit = nil
}

// ReplicaOf makes the server follow master and copies its keys. It refuses writes from then on, until Promote.
func (s *Server) ReplicaOf(master *Server) {
	s.unfollow()
	s.master = master
	master.replicas = append(master.replicas, s)
	s.copyMaster()
}

// Master is whom the server follows, nil for a master.
func (s *Server) Master() *Server { return s.master }

func (s *Server) unfollow() {
	if s.master == nil {
		return
	}
	s.master.replicas = slices.DeleteFunc(s.master.replicas, func(r *Server) bool { return r == s })
	s.master, s.pending, s.apart = nil, nil, false
}

func (s *Server) copyMaster() {
	s.keys, s.pending, s.apart = s.master.keys.clone(), nil, false
	for _, replica := range s.replicas {
		replica.apart = true
	}
}

// Lag is how many units the replica has not applied; -1 where it was cut off, so that it has to copy everything.
func (s *Server) Lag() int {
	if s.apart {
		return -1
	}
	return len(s.pending)
}

// CatchUp applies n units, or all where n is below 0. A replica whose master or itself was restarted copies everything
// once the master is up.
func (s *Server) CatchUp(n int) {
	if !s.running || s.master == nil {
		return
	}
	if s.apart {
		if s.master.running {
			s.copyMaster()
		}
		return
	}
	if n < 0 {
		n = len(s.pending)
	}
	s.at = s.clock.Micro()
	for ; n > 0 && len(s.pending) > 0; n-- {
		unit := s.pending[0]
		s.pending = s.pending[1:]
		s.apply(unit)
	}
}

func (s *Server) apply(unit [][]string) {
	s.applying = true
	for _, args := range unit {
		cmd := s.named(args[0])
		cmd.run(s, nil, args)
	}
	s.applying = false
	s.commit()
}

// Promote makes a master of a replica, with what it has applied.
func (s *Server) Promote() { s.unfollow() }
