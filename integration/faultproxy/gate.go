package faultproxy

import (
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

const (
	gateType = "relock_gate"

	// queue is how many reads of a connection may wait for their delay.
	queue = 1024

	// stuck is how long the far end may read nothing before it counts as gone.
	stuck = 10 * time.Second
)

func init() { toxics.Register(gateType, new(gate)) }

// gate is the toxic that applies a board's faults to one direction of every
// connection.
//
// It is there from the first byte and changes its behaviour, rather than being
// replaced by other toxics, because adding or removing a toxic waits until the
// toxic before it is interrupted: that toxic may be handing data to a connection
// that has just died, and then the proxy is stuck for good (toxiproxy issue
// 427). A test that switches faults under load gets there within seconds.
type gate struct {
	board   *board
	replies bool // the direction from the server to the client
}

// GetBufferSize implements [toxics.BufferedToxic].
func (g *gate) GetBufferSize() int { return queue }

// Pipe implements [toxics.Toxic] for one connection.
func (g *gate) Pipe(stub *toxics.ToxicStub) {
	epoch := g.board.current().epoch
	var held *stream.StreamChunk // read from the near end, not yet passed on
	gap := false                 // bytes of this connection were lost
	for {
		now := g.board.current()
		lose := now.loses(g.replies)
		if epoch != now.epoch || gap && !lose {
			hangUp(stub)
			return
		}
		if held != nil && lose {
			held, gap = nil, true
		}
		input, output, timer := ways(stub, held, now)
		select {
		case <-now.replaced:
		case chunk := <-input:
			if chunk == nil {
				stub.Close()
				return
			}
			held = chunk
		case output <- held:
			held = nil
		case <-timer:
			if output != nil {
				// Nobody reads what is meant for a connection whose far end is gone.
				hangUp(stub)
				return
			}
		case <-stub.Interrupt:
			return // only when a toxic is added or removed, which the proxy never does
		}
	}
}

// ways returns what a gate that holds a chunk, or none, can do next: read, pass
// the chunk on, wait for a timer. What it cannot do is nil.
func ways(stub *toxics.ToxicStub, held *stream.StreamChunk, now *faults) (
	input <-chan *stream.StreamChunk, output chan<- *stream.StreamChunk, timer <-chan time.Time,
) {
	if held == nil {
		return stub.Input, nil, nil
	}
	if now.stall {
		return nil, nil, nil
	}
	if wait := time.Until(held.Timestamp.Add(now.delay)); wait > 0 {
		return nil, nil, time.After(wait)
	}
	return nil, stub.Output, time.After(stuck)
}

// hangUp closes the far end and takes what still comes from the near end, until
// that is closed too: the sender would wait for ever otherwise.
func hangUp(stub *toxics.ToxicStub) {
	stub.Close()
	for range stub.Input {
	}
}
