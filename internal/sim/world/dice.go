package world

import (
	"math/rand/v2"
	"time"
)

// dice are random numbers that follow from a name: the same name always throws the same.
type dice uint64

// throw names dice of a seed.
func throw(seed uint64, parts ...string) dice {
	h := seed ^ 0x9E3779B97F4A7C15
	for _, part := range parts {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 0x100000001B3
		}
		h = mix(h + 0x9E3779B97F4A7C15)
	}
	return dice(mix(h))
}

// mix is the finisher of splitmix64.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return h ^ h>>31
}

// next is a number from the stream of the dice.
func (d *dice) next() uint64 {
	*d += 0x9E3779B97F4A7C15
	return mix(uint64(*d))
}

// chance is true with probability p.
func (d *dice) chance(p float64) bool { return float64(d.next()>>11)/(1<<53) < p }

// upTo is between 1 and most nanoseconds.
func (d *dice) upTo(most time.Duration) time.Duration {
	return 1 + time.Duration(d.next()%uint64(max(most, 1)))
}

// of is below n.
func (d *dice) of(n int) int { return int(d.next() % uint64(n)) }

// stream is a source for those who draw much.
func (d dice) stream() *rand.Rand {
	return rand.New(rand.NewPCG(uint64(d), uint64(d)^0xDA942042E4DD58B5))
}

// Read fills p, so that dice are a source for uuids.
func (d *dice) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(d.next())
	}
	return len(p), nil
}
