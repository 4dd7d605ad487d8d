package sim

import "slices"

// Kept is what of the keys is left when a server starts again.
type Kept uint8

const (
	Nothing  Kept = iota // no persistence
	Snapshot             // what the last call of Snapshot saw
	All                  // every write was on the disk
)

// Snapshot saves the keys as they are, for a later start.
func (s *Server) Snapshot() { s.saved = s.keys.clone() }

// Stop ends the server as a crash would: its connections are told, and nothing can be opened until Start.
func (s *Server) Stop() {
	s.running = false
	for _, c := range slices.Clone(s.conns) {
		s.drop(c, ErrStopped)
	}
	for _, replica := range s.replicas {
		replica.apart = true
	}
}

// Start boots a server that was stopped: as what it was, master or replica, with a new run id.
func (s *Server) Start(keep Kept) {
	keys := s.keys
	switch keep {
	case Nothing:
		keys = keyspace{}
	case Snapshot:
		keys = s.saved.clone()
	}
	s.boot(keys)
	s.pending, s.apart = nil, s.master != nil
}

// Restart is Stop and Start.
func (s *Server) Restart(keep Kept) {
	s.Stop()
	s.Start(keep)
}
