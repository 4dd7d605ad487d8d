package model

import (
	"bytes"
	"fmt"
	"strings"
)

func (w *fenceSystem) exclusion(s fenceState) string {
	first := -1
	for c := range w.Clients {
		if s.client[c].phase != holding || s.client[c].votes() < quorum {
			continue
		}
		if first >= 0 {
			return fmt.Sprintf("%s and %s both hold the lock", letter(first), letter(c))
		}
		first = c
	}
	return ""
}

func tokensRise(s fenceState) string {
	if s.repeat {
		return "a holder got a token that is not above all that were given out before"
	}
	return ""
}

func noRevival(s fenceState) string {
	if s.revived {
		return "a hold counts again although another held the lock meanwhile"
	}
	return ""
}

// noOrphan: an attempt that is over owns nothing that no release is owed to.
func (w *fenceSystem) noOrphan(s fenceState) string {
	for n := range nodes {
		node := &s.node[n]
		if c := int(node.owner) - 1; c >= 0 && node.departed && s.client[c].owed&(1<<n) == 0 {
			return fmt.Sprintf("an attempt of %s is over, owns n%d, and nobody releases it", letter(c), n+1)
		}
	}
	return ""
}

var (
	nodeOrders   = permutations(nodes)
	clientOrders = [...][][]int{1: permutations(1), 2: permutations(2), 3: permutations(3)}
)

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			q := append(append(append([]int{}, p[:at]...), n-1), p[at:]...)
			all = append(all, q)
		}
	}
	return all
}

// canon counts from the lowest number in use and takes the least of all renamings of nodes and clients: neither have an
// order among them. Only renamings that sort them by what a renaming leaves alone are tried.
func (w *fenceSystem) canon(s fenceState) fenceState {
	s.shift()
	var nodeKey [nodes]int
	for n := range s.node {
		v := &s.node[n]
		nodeKey[n] = int(min(v.owner, 1)) | int(bit(v.departed))<<1 | int(v.mode)<<2 | int(v.counter)<<8 | int(v.grant)<<16
	}
	var clientKey [maxClients]int
	for c := range w.Clients {
		v := &s.client[c]
		clientKey[c] = int(v.phase) | int(bit(v.passed))<<1 | v.votes()<<2 | int(v.write)<<8
	}
	var best fenceState
	var least [fenceBytes]byte
	first := true
	for _, to := range nodeOrders {
		if !sorts(to, nodeKey[:]) {
			continue
		}
		for _, who := range clientOrders[w.Clients] {
			if !sorts(who, clientKey[:]) {
				continue
			}
			r := s.rename(to, who)
			if b := r.bytes(); first || bytes.Compare(b[:], least[:]) < 0 {
				best, least, first = r, b, false
			}
		}
	}
	return best
}

// sorts reports whether moving i to order[i] puts the keys in order.
func sorts(order, keys []int) bool {
	for i, to := range order {
		for j := range i {
			if keys[i] != keys[j] && keys[i] < keys[j] != (to < order[j]) {
				return false
			}
		}
	}
	return true
}

// shift counts from the lowest number in use, and forgets those that nobody asks for any more.
func (s *fenceState) shift() {
	by := max(0, s.low()-1)
	s.numbers(func(number *int8) { *number = max(0, *number-by) })
	s.issued = max(0, s.issued-by)
	for n := range s.node {
		node := &s.node[n]
		node.counter = max(0, node.counter-by)
		switch {
		case node.owner == 0 || node.departed:
			node.grant = 0
		case s.client[node.owner-1].phase == holding:
			node.grant = 1
		}
	}
	for c := range s.client {
		mine := &s.client[c]
		if mine.phase == holding {
			mine.token = 0
			for n, b := range mine.belief {
				mine.belief[n] = min(b, 1)
			}
		}
	}
}

// rename moves node n to to[n] and client c to who[c].
func (s *fenceState) rename(to, who []int) fenceState {
	r := *s
	bits := func(b uint8) (out uint8) {
		for n, m := range to {
			out |= b >> n & 1 << m
		}
		return out
	}
	if s.votedAt > 0 {
		r.votedAt = int8(to[s.votedAt-1]) + 1
	}
	for n, m := range to {
		r.node[m] = s.node[n]
		if owner := s.node[n].owner; owner > 0 {
			r.node[m].owner = int8(who[owner-1]) + 1
		}
		r.node[m].seeded = bits(s.node[n].seeded)
	}
	for c, d := range who {
		old := &s.client[c]
		mine := &r.client[d]
		*mine = *old
		for n, m := range to {
			mine.belief[m], mine.ghost[m], mine.proof[m] = old.belief[n], old.ghost[n], old.proof[n]
		}
		mine.former, mine.late, mine.owed = bits(old.former), bits(old.late), bits(old.owed)
		if old.writeTo > 0 {
			mine.writeTo = int8(to[old.writeTo-1]) + 1
		}
	}
	return r
}

const fenceBytes = 1 + 7*nodes + 18*maxClients

// bytes writes the state down, all but what renaming leaves alone.
func (s *fenceState) bytes() (b [fenceBytes]byte) {
	at := append(b[:0], byte(s.votedAt))
	for n := range s.node {
		v := &s.node[n]
		at = append(at, byte(v.owner), bit(v.departed), byte(v.counter), byte(v.grant), byte(v.mode), v.seeded,
			byte(v.remind))
	}
	for c := range s.client {
		v := &s.client[c]
		at = append(at, byte(v.phase), bit(v.passed), v.former, v.late, v.owed,
			byte(v.writeTo), byte(v.write), bit(v.stray), byte(v.tells))
		for n := range nodes {
			at = append(at, byte(v.belief[n]), byte(v.ghost[n]), byte(v.proof[n]))
		}
	}
	return b
}

func bit(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func (s fenceState) String() string {
	var b strings.Builder
	for n, node := range s.node {
		owner := "-"
		if node.owner > 0 {
			owner = letter(int(node.owner) - 1)
			if node.departed {
				owner = strings.ToLower(owner)
			}
		}
		fmt.Fprintf(&b, "n%d %s:%d%s ", n+1, owner, node.counter, [...]string{"", " quarantined", " seeding"}[node.mode])
	}
	for c := range s.client {
		if mine := &s.client[c]; mine.phase == holding {
			fmt.Fprintf(&b, "| %s holds, token %d, by %v ", letter(c), mine.token, mine.belief)
		} else if mine.votes() > 0 {
			fmt.Fprintf(&b, "| %s believes %v ", letter(c), mine.belief)
		}
	}
	return strings.TrimSpace(b.String())
}
