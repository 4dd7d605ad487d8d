package redistest

import "fmt"

// slotRange is what one node says of the slots first to last: which master serves them.
type slotRange struct {
	first, last int64
	port        string // of the master
	replicas    int
}

// slotRanges returns the cluster's layout as the node s sees it.
func (s *Server) slotRanges() ([]slotRange, error) {
	reply, err := s.probe("CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	items, _ := reply.([]any)
	ranges := make([]slotRange, 0, len(items))
	for _, item := range items {
		r, ok := parseRange(item)
		if !ok {
			return nil, fmt.Errorf("%s: CLUSTER SLOTS: %v", s.Addr(), item)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// parseRange reads [first, last, [ip, port, …] of the master, one more such
// array per replica].
func parseRange(item any) (r slotRange, ok bool) {
	fields, _ := item.([]any)
	if len(fields) < 3 {
		return r, false
	}
	first, ok1 := fields[0].(int64)
	last, ok2 := fields[1].(int64)
	master, ok3 := fields[2].([]any)
	if !ok1 || !ok2 || !ok3 || len(master) < 2 {
		return r, false
	}
	return slotRange{first: first, last: last, port: text(master[1]), replicas: len(fields) - 3}, true
}
