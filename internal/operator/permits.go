package operator

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// KindSemaphore is the kind of a semaphore, whichever library's clients hold its permits.
const KindSemaphore = "semaphore"

// heldSuffix ends the key of the permits that are held: a member for each, by when its lease ends in
// ms.
const heldSuffix = ":timeout"

const (
	// numberLength is more than the length of any number of permits. A longer text is no counter, and is
	// not read whole.
	numberLength = 20
	// rawPermit is the length of a permit of Redisson's, whose bytes are any.
	rawPermit = 16
	// never is the end of a lease that Redisson gave no end, in ms, but for some rounding.
	never = 922337203685000
)

// permitMember matches a permit of relock's: <entry's id>:<i>.
var permitMember = regexp.MustCompile(`^([^:]+:[0-9]+):[0-9]+$`)

// permits is what Redis keeps of a semaphore.
type permits struct {
	other   bool  // a key is of another type: it is no semaphore
	counted bool  // the counter is there
	counter int64 // free permits, those past their leases not among them
	all     int64 // permits held, those past their leases among them
	live    int64
	known   bool      // a member is one that relock or Redisson made
	holders []Holding // by when their leases end, but not all of very many
	queueStats
}

// askPermits asks for all that is shown of a semaphore. The counter and the number of permits stand
// side by side, so that Redis reads them one right after the other.
func (g *glance) askPermits() {
	g.asked = true
	held, now := g.semaphore.Tag+heldSuffix, "("+strconv.FormatInt(g.now.UnixMilli(), 10)
	g.askOf(func(said driver.Value) error {
		text, err := said.Text()
		n, bad := strconv.ParseInt(text, 10, 64)
		g.permits.counter, g.permits.counted = n, bad == nil
		g.permits.other = g.permits.other || bad != nil && text != ""
		return err
	}, "GETRANGE", g.semaphore.Lock, "0", strconv.Itoa(numberLength))
	g.askOf(intoNumber(&g.permits.all), "ZCARD", held)
	g.askOf(intoNumber(&g.permits.live), "ZCOUNT", held, now, "+inf")
	g.askOf(func(said driver.Value) error {
		members, err := scored(said)
		g.permits.holders, g.permits.known = holdersIn(members, g.now)
		return err
	}, "ZRANGEBYSCORE", held, now, "+inf", "WITHSCORES", "LIMIT", "0", strconv.Itoa(hashCount))
	g.askWaiters(g.semaphore, &g.permits.queueStats)
	g.askLongest(g.semaphore, &g.permits.queueStats)
}

// askOf is ask about a key that may be of another type: then it is no semaphore's, which is no error.
func (g *glance) askOf(hear func(driver.Value) error, cmd ...string) {
	g.ask(func(said driver.Value) error {
		if wrongType(said) {
			g.permits.other = true
			return nil
		}
		return hear(said)
	}, cmd...)
}

// wrongType reports whether Redis refused a command since the key is of another type.
func wrongType(said driver.Value) bool {
	err := said.Err()
	return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE")
}

// intoNumber returns the function that takes a number.
func intoNumber(into *int64) func(driver.Value) error {
	return func(said driver.Value) (err error) {
		*into, err = said.Int64()
		return err
	}
}

// holdersIn groups permits by their entries, of which the first comes first. known says that one is of a
// form that relock or Redisson makes.
func holdersIn(members []member, now time.Time) (all []Holding, known bool) {
	at := make(map[string]int)
	for _, m := range members {
		owner, ours := permitOf(m.text)
		known = known || ours
		if i, found := at[owner]; found {
			all[i].Count++
			continue
		}
		at[owner] = len(all)
		left := time.Duration(-1)
		if m.score < never {
			left = max(0, time.UnixMilli(int64(m.score)).Sub(now))
		}
		all = append(all, Holding{Owner: owner, Count: 1, TTL: left})
	}
	return all, known
}

// permitOf returns what is shown of a permit's holder: the entry's id, or Redisson's id of the permit in
// hexadecimal digits, as Java has it.
func permitOf(member string) (owner string, known bool) {
	if parts := permitMember.FindStringSubmatch(member); parts != nil && len(member) > rawPermit {
		return parts[1], true
	}
	if len(member) == rawPermit {
		return hex.EncodeToString([]byte(member)), true
	}
	return member, false
}

// stands reports whether what was read is a semaphore: its counter is there, or if an operator has
// deleted it, permits or waiters are.
func (p *permits) stands() bool {
	return !p.other && (p.counted || p.known || p.waiters > 0)
}

// endPermits completes the sighting of a semaphore. Permits past their leases count as free, as they do
// for a client that asks for one.
func (g *glance) endPermits() {
	p := &g.permits
	g.Names, g.Kind, g.Age, g.Permits = g.semaphore, KindSemaphore, -1, -1
	if p.counted {
		g.Permits, g.Free = int(max(0, p.counter+p.all)), int(p.counter+p.all-p.live)
	}
	g.Waiters, g.Longest = p.waiters, 0
	if p.waiters > 0 {
		g.Longest = max(0, p.longest)
	}
	g.Held, g.Count, g.Holders, g.Holder, g.TTL, g.Token = p.live > 0, int(p.live), p.holders, "", 0, 0
	if g.Held = g.Held && len(p.holders) > 0; g.Held {
		g.Holder, g.TTL = p.holders[0].Owner, p.holders[0].TTL
		g.client = wire.ClientOf(g.Holder)
	}
}

// Semaphore reports whether it is a semaphore.
func (s *Sighting) Semaphore() bool { return s.Kind == KindSemaphore }

// Whole reports whether Holders has all permits of a semaphore that are held.
func (s *Sighting) Whole() bool {
	n := 0
	for _, h := range s.Holders {
		n += h.Count
	}
	return n >= s.Count
}

// Fresh returns how many grants of s an earlier look at the lock did not see. Of a semaphore with very
// many holders it is 0: two looks see different ones of them.
func (s *Sighting) Fresh(before *Sighting) int {
	switch {
	case !s.Held:
		return 0
	case !s.Semaphore():
		if s.Holder != before.Holder || s.Token != before.Token {
			return 1
		}
		return 0
	case !s.Whole() || !before.Whole():
		return 0
	}
	known := make(map[string]bool, len(before.Holders))
	for _, h := range before.Holders {
		known[h.Owner] = true
	}
	fresh := slices.DeleteFunc(slices.Clone(s.Holders), func(h Holding) bool { return known[h.Owner] })
	return len(fresh)
}
