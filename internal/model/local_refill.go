package model

// The next block of tokens, which is asked for while a hold is passed on with the last one of its block.

// How far the question for the next block has come.
const (
	unfilled int8 = iota
	asked         // it is on its way
	reserved      // Redis has counted; the answer is on its way
	filled        // the block is the hold's
)

// ask is hold.refill: at most one question for a block.
func (w *localSystem) ask(h *localHold) {
	if w.Refill && h.refill == unfilled && h.left == 1 {
		h.refill = asked
	}
}

// nextBlock is hold.nextBlock.
func (w *localSystem) nextBlock(h *localHold) {
	h.token, h.left = h.more, w.Block
	if !w.rules.RefillAgain {
		h.refill, h.more = unfilled, 0
	}
}

// refill emits what becomes of a question: it may run whenever it likes, or never, and be answered whenever.
func (w *localSystem) refill(s localState, i int, emit localEmit) {
	next := s
	h := &next.hold[i]
	switch h.refill {
	case asked:
		h.refill = unfilled
		if s.faults > 0 {
			emit("h{t}'s question for tokens is lost", next, true, i+1)
		}
		if int(s.redis) == i+1 {
			h.refill, h.more = reserved, s.counter+1
			next.counter += w.Block
		}
		emit("h{t}'s question for tokens runs", next, false, i+1)
	case reserved:
		to := i
		for other := range s.hold {
			if w.rules.RefillAnyone && s.hold[other].state == liveHold {
				to = other
			}
		}
		more := h.more
		h.refill, h.more = unfilled, 0
		if s.faults > 0 {
			emit("h{t}'s tokens are not answered", next, true, i+1)
		}
		if next.hold[to].state == liveHold {
			next.hold[to].refill, next.hold[to].more = filled, more
		}
		emit("h{t}'s tokens come", next, false, i+1)
	}
}
