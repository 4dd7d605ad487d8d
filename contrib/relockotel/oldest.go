package relockotel

import (
	"sync"
	"sync/atomic"
	"time"
)

// places is how many leases of a series are noted without a mutex.
const places = 32

// oldest knows since when the leases of a series are held. A lease takes the place that its number gives,
// without a mutex. If another one has it, the lease goes into a map: so where few are held, as of a mutex,
// goroutines that pass a lock on do not wait for one another here.
type oldest struct {
	from   time.Time // when it was made: times are counted from then
	places [places]place

	crowded atomic.Int64 // number of leases in rest: without any, ended need not lock mu
	mu      sync.Mutex
	rest    map[uint64]time.Duration // since when, by the lease's number; guarded by mu
}

// place notes one lease. Only the lease that has it writes since. The collector reads since alone, which
// is 0 whenever lease changes: it takes no lease for another.
type place struct {
	lease atomic.Uint64
	since atomic.Int64 // a reading of now
}

// now reads the clock, without the time of day. It is never 0.
func (o *oldest) now() time.Duration { return time.Since(o.from) + 1 }

// at returns the place of a lease. Leases that follow one another have places on different cache lines.
func (o *oldest) at(lease uint64) *place { return &o.places[lease*5%places] }

// begun notes a lease.
func (o *oldest) begun(lease uint64) {
	if lease == 0 { // of no client
		return
	}
	now := o.now()
	if p := o.at(lease); p.lease.CompareAndSwap(0, lease) {
		p.since.Store(int64(now))
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rest == nil {
		o.rest = make(map[uint64]time.Duration)
	}
	o.rest[lease] = now
	o.crowded.Store(int64(len(o.rest)))
}

// ended forgets a lease. Its beginning was noted before: events of one lease come in order.
func (o *oldest) ended(lease uint64) {
	if lease == 0 {
		return
	}
	if p := o.at(lease); p.lease.Load() == lease {
		p.since.Store(0)
		p.lease.Store(0)
		return
	}
	if o.crowded.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.rest, lease)
	o.crowded.Store(int64(len(o.rest)))
}

// age returns how long the lease that was noted first is held, 0 if none is.
func (o *oldest) age() time.Duration {
	now := o.now()
	first := now
	for i := range o.places {
		if since := time.Duration(o.places[i].since.Load()); since > 0 {
			first = min(first, since)
		}
	}
	if o.crowded.Load() > 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, since := range o.rest {
			first = min(first, since)
		}
	}
	return now - first
}
