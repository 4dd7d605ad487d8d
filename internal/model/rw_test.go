package model

import "testing"

// The scopes of the read-write system.
var (
	rwTwo = RWScope{Side: [4]int8{reads, reads, writes}, Proc: [4]int8{0, 1, 2}, Calls: [4]int8{1, 1, 1}, Lease: 2, Batch: 2}
)

func TestReadWriteHolds(t *testing.T) {
	fail := rwTwo
	fail.Faults = 1
	hold(t, []run{
		all(RW(rwTwo, RWRules{})),
		all(RW(fail, RWRules{})),
	}, nil, nil)
}
