package presence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

const stay = 30 * time.Second

var errRefused = &driver.ReplyError{Text: "NOPERM this user has no permissions"}

// fake is a Redis that keeps cards and counts what it is asked.
type fake struct {
	mu        sync.Mutex
	cards     map[string]wire.Card
	fails     error
	hangs     bool // for a second, or until the caller leaves
	writes    int
	questions int
}

func (f *fake) said() (hangs bool, fails error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hangs, f.fails
}

func (f *fake) set(hangs bool, fails error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs, f.fails = hangs, fails
}

func (f *fake) Introduce(_ context.Context, client string, card *wire.Card, stays time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writes++; f.fails == nil && stays == stay {
		f.cards[client] = *card
	}
	return f.fails
}

func (f *fake) Withdraw(_ context.Context, client string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.cards, client)
	return nil
}

func (f *fake) Whois(ctx context.Context, client string) (wire.Card, error) {
	f.mu.Lock()
	f.questions++
	f.mu.Unlock()
	hangs, fails := f.said()
	if hangs {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		<-ctx.Done()
		return wire.Card{}, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cards[client], fails
}

// asked is how many questions there were since the last call, once all are answered.
func (f *fake) asked() (n int) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	n, f.questions = f.questions, 0
	return n
}

// among runs a test with the presence of client "c" at n nodes.
func among(t *testing.T, n int, test func(t *testing.T, p *Presence, nodes []*fake)) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []*fake
		for range n {
			nodes = append(nodes, &fake{cards: make(map[string]wire.Card)})
		}
		p := New(Config{Client: of("c"), Name: "billing", Stay: stay, Enough: n/2 + 1}, nodes)
		defer p.Close()
		test(t, p, nodes)
	})
}

// What a client says is written when a round finds it due, each third of its stay, and taken away by Close, unless a
// lock is left behind.
func TestItIsWrittenEachThird(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		among(t, 2, func(t *testing.T, p *Presence, nodes []*fake) {
			round := p.Rounds()
			next := round(clock.Now())
			require.Equal(t, stay/3, next.Until(clock.Now()))
			synctest.Wait()
			for _, f := range nodes {
				require.Equal(t, 1, f.writes)
				require.Equal(t, "billing", f.cards[of("c")].Name)
			}
			time.Sleep(stay/3 - time.Millisecond)
			require.Equal(t, time.Millisecond, round(clock.Now()).Until(clock.Now()))
			time.Sleep(time.Millisecond)
			round(clock.Now())
			synctest.Wait()
			require.Equal(t, 2, nodes[1].writes)
			if leaves {
				p.Stays()
			}
			p.Close()
			for _, f := range nodes {
				require.Equal(t, leaves, f.cards[of("c")] != wire.Card{})
			}
		})
	}
}

// A Redis that refuses to be told is left alone for as long as that would have stood, and one that is silent for a third
// of it.
func TestARefusalIsRespected(t *testing.T) {
	for fails, rest := range map[error]time.Duration{errRefused: stay, context.DeadlineExceeded: stay / 3} {
		among(t, 1, func(t *testing.T, p *Presence, nodes []*fake) {
			nodes[0].set(false, fails)
			p.round(clock.Now())
			synctest.Wait()
			time.Sleep(rest - time.Millisecond)
			p.round(clock.Now())
			synctest.Wait()
			require.Equal(t, 1, nodes[0].writes)
			time.Sleep(time.Millisecond)
			p.round(clock.Now())
			synctest.Wait()
			require.Equal(t, 2, nodes[0].writes)
		})
	}
}

// of is the uuid of a client.
func of(client string) string { return uuid.NewSHA1(uuid.Nil, []byte(client)).String() }

func holderOf(client string) string { return of(client) + ":1" }

// Of whom there is nothing to know, nothing is asked twice in a turn. What was known stays so while it is asked for anew.
func TestHoldersAreAskedForOnceInATurn(t *testing.T) {
	for _, n := range []int{1, 3} {
		among(t, n, func(t *testing.T, p *Presence, nodes []*fake) {
			f := nodes[0]
			other := wire.Card{Name: "other", PID: 7}
			for _, f := range nodes {
				f.cards[of("named")] = other
			}
			look := func(client string) wire.Card {
				err := p.Named(t.Context(), &wire.HeldError{Holder: holderOf(client)})
				var held *wire.HeldError
				require.ErrorAs(t, err, &held)
				return held.By
			}
			require.Equal(t, other, look("named"), "it is waited for")
			require.Zero(t, look("nameless"))
			require.Equal(t, 2, f.asked())
			for range 10 {
				require.Equal(t, other, look("named"))
				require.Zero(t, look("nameless"))
				require.Zero(t, p.Known("order 7"))
				require.Equal(t, "billing", look("c").Name, "its own needs no question")
			}
			require.Zero(t, f.asked())
			for _, f := range nodes {
				delete(f.cards, of("named"))
			}
			time.Sleep(stay / 3)
			require.Equal(t, other, look("named"), "it is not read again yet")
			require.Equal(t, 1, f.asked())
			require.Zero(t, look("named"))
			other.Name = "another"
			for _, f := range nodes {
				f.cards[of("named")] = other
			}
			require.Equal(t, other, p.Whois(t.Context(), of("named")), "for State it is read anew")
			require.Equal(t, other, look("named"), "which is kept")
			require.Equal(t, "another", look("named").Name)
		})
	}
}

// A node that knows a card is enough. Where none does, so many have to say so that it is believed.
func TestOneNodeThatKnowsIsEnough(t *testing.T) {
	among(t, 3, func(t *testing.T, p *Presence, nodes []*fake) {
		nodes[0].set(true, nil)
		nodes[1].set(false, errRefused)
		_, sure := p.read(t.Context(), of("gone"))
		require.False(t, sure)
		nodes[2].cards[of("named")] = wire.Card{Name: "other"}
		card, sure := p.read(t.Context(), of("named"))
		require.True(t, sure)
		require.Equal(t, "other", card.Name)
	})
}

// However many hold locks, so many are asked for in a turn, and no more of them are kept.
func TestHoldersThatAreKeptAreBounded(t *testing.T) {
	among(t, 1, func(t *testing.T, p *Presence, nodes []*fake) {
		for turn := range 3 {
			for i := range 3 * maxCards {
				p.Known(holderOf(fmt.Sprint(turn, "-", i)))
			}
			require.Equal(t, maxCards, nodes[0].asked())
			require.Len(t, p.cards, maxCards)
			require.LessOrEqual(t, len(p.older), maxCards)
			require.Zero(t, p.Whois(t.Context(), of("one more")))
			require.Len(t, p.cards, maxCards)
			require.Equal(t, 1, nodes[0].asked())
			time.Sleep(stay / 3)
		}
	})
}

// A client that is refused the question does not ask again for as long as a card stays, whichever client it would ask for.
func TestRefusedQuestionsAreAskedOnceInAStay(t *testing.T) {
	among(t, 1, func(t *testing.T, p *Presence, nodes []*fake) {
		nodes[0].set(false, errRefused)
		for i := range 29 {
			p.Known(holderOf(fmt.Sprint("client ", i)))
			synctest.Wait()
			time.Sleep(time.Second)
		}
		require.Equal(t, 1, nodes[0].asked())
		time.Sleep(time.Second)
		p.Known(holderOf("one more"))
		require.Equal(t, 1, nodes[0].asked())
	})
}

// A question that is not answered ends with Close, and no further one begins.
func TestCloseEndsQuestions(t *testing.T) {
	among(t, 3, func(t *testing.T, p *Presence, nodes []*fake) {
		for _, f := range nodes {
			f.set(true, nil)
		}
		p.Known(holderOf("a"))
		p.Known(holderOf("b"))
		synctest.Wait()
		began := time.Now()
		p.Close()
		require.Zero(t, time.Since(began))
		require.Empty(t, p.toAskFor)
		require.Equal(t, 1, nodes[0].asked())
	})
	among(t, 1, func(t *testing.T, p *Presence, nodes []*fake) {
		p.Close()
		p.Known(holderOf("a"))
		require.Zero(t, nodes[0].asked())
	})
}

// What a waiter hears makes it ask for the holder and write its own name, and is told on. Nothing is written once the
// client is closed.
func TestAWaiterAsksWhoHoldsItsLock(t *testing.T) {
	among(t, 1, func(t *testing.T, p *Presence, nodes []*fake) {
		nodes[0].cards[of("a")] = wire.Card{Name: "other"}
		var heard []error
		report := p.Asking(waiter{}, func(_ string, err error) { heard = append(heard, err) })
		gone := errors.New("gone")
		report("k", nil)
		report("k", gone)
		require.Equal(t, []error{nil, gone}, heard)
		require.Equal(t, 1, nodes[0].asked())
		require.Equal(t, "other", p.Known(holderOf("a")).Name)
		require.Equal(t, 1, nodes[0].writes)
		require.Equal(t, "billing", nodes[0].cards[of("c")].Name)
		time.Sleep(stay / 3)
		p.Asking(waiter{}, nil)("k", nil)
		synctest.Wait()
		require.Equal(t, 2, nodes[0].writes)
		p.Close()
		time.Sleep(stay)
		report("k", nil)
		synctest.Wait()
		require.Equal(t, 2, nodes[0].writes)
	})
}

// A client without a name has no presence, and nothing is asked or written for it.
func TestNoNameNoPresence(t *testing.T) {
	var p *Presence
	require.Nil(t, p.Rounds())
	require.Nil(t, p.Asking(waiter{}, nil))
	held := &wire.HeldError{Holder: holderOf("a")}
	require.Equal(t, error(held), p.Named(t.Context(), held))
	require.Zero(t, held.By)
	require.Zero(t, p.Whois(t.Context(), of("a")))
	p.Stays()
	p.Close()
}

// waiter is the claim of an entry that waits for client a's lock.
type waiter struct{ claim.Claim }

func (waiter) Seen() (holder string, ttl time.Duration) { return holderOf("a"), time.Second }
