package model

import "testing"

func TestTokensHold(t *testing.T) {
	hold(t, []run{
		all(Tokens(TokenScope{Block: 2, Lead: 2, Retention: 3, Lease: 3, Ticks: 8}, TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Lease: 3, Ticks: 5, Losses: 1, Gap: 3}, TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Retention: 3, Lease: 4, Ticks: 5, Losses: 1, Gap: 3}, TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Retention: 3, Lease: 2, Ticks: 7, Back: 2, Grants: 5}, TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Retention: 3, Span: 2, Lease: 3, Ticks: 8}, TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Retention: 3, Span: 2, Lease: 2, Ticks: 7, Back: 2, Grants: 4}, TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Retention: 3, Lease: 5, Ticks: 7, Back: 2, Grants: 4}, TokenRules{})), // a long one
		all(Tokens(TokenScope{Block: 2, Lead: 2, Retention: 3, Lease: 3, Ticks: 8}, TokenRules{Dropped: true})),        // see below
		all(Tokens(TokenScope{Block: 1, Lead: 2, Retention: 3, Lease: 3, Ticks: 6, Back: 1, Grants: 3}, TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Lease: 3, Ticks: 5, Java: 3}, TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Retention: 2, Span: 2, Lease: 2, Ticks: 8, Java: 3, JavaFirst: true}, TokenRules{})),
		all(Tokens(TokenScope{Block: 1, Lead: 1, Retention: 1, Lease: 4, Ticks: 8}, TokenRules{})),
		all(Tokens(TokenScope{Block: 1, Lead: 2, Lease: 5, Ticks: 6, Losses: 1, Gap: 3, Raises: true}, TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Lease: 3, Ticks: 5, Losses: 1, Gap: 3, Raises: true, Proposes: true},
			TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Retention: 3, Lease: 4, Ticks: 6, Losses: 1, Gap: 3, Raises: true},
			TokenRules{})),
		all(Tokens(TokenScope{Block: 2, Lead: 2, Retention: 4, Lease: 3, Ticks: 6, Losses: 2, Gap: 3}, TokenRules{})),
	}, []run{
		all(Tokens(TokenScope{Block: 3, Lead: 3, Retention: 5, Lease: 4, Ticks: 9, Losses: 2, Gap: 4}, TokenRules{})),
	})
}

func tokens(name, rule string, steps int, scope TokenScope, rules TokenRules) broken {
	return broken{name: name, run: one(Tokens(scope, rules), rule), rule: rule, steps: steps}
}

func TestBrokenTokensAreCaught(t *testing.T) {
	plain := TokenScope{Block: 2, Lead: 2, Retention: 3, Lease: 3, Ticks: 8}
	kept := TokenScope{Block: 2, Lead: 2, Lease: 3, Ticks: 6}
	loses, early := kept, kept
	loses.Losses, loses.Gap = 1, 3
	early.Losses, early.Gap = 1, 2
	long, back := loses, plain
	long.Lease = 5
	single := long
	single.Block = 1
	back.Lease, back.Grants = 2, 5
	setBack := func(by int8) TokenScope { back.Back = by; return back }
	proposed := loses
	proposed.Proposes = true
	javas := plain
	javas.Java = 1
	first := javas
	first.JavaFirst = true
	dropped := TokenScope{Block: 1, Lead: 2, Retention: 3, Lease: 3, Ticks: 6, Back: 1, Grants: 3}
	spans := back
	spans.Span = 2
	spans.Back = 2
	catch(t, []broken{
		tokens("counters count on", "tokens rise", 3, loses, TokenRules{CountOnly: true}),
		tokens("a counter a little behind the clock counts on", "tokens rise", 7, loses, TokenRules{Lag: 2}),
		tokens("blocks are not cut", "tokens rise", 6, loses, TokenRules{NoCut: true}),
		tokens("the new clock is not above all that was reserved", "tokens rise", 6, early, TokenRules{}),
		tokens("the expiry is written only where the counter is raised", "tokens rise", 12, plain,
			TokenRules{RaisedOnly: true}),
		tokens("the expiry counts from the clock", "tokens rise", 9, setBack(1), TokenRules{ClockOnly: true}),
		tokens("a clock is set back by the retention", "tokens rise", 7, setBack(3), TokenRules{}),
		tokens("the expiry of a span counts from its first grant", "tokens rise", 11, spans, TokenRules{Unrounded: true}),
		// Without a step back tokens rise without the counter, see above; with it they rise with a step back.
		tokens("a release leaves no counter, and the clock is set back by one", "tokens rise", 6, dropped, TokenRules{Dropped: true}),
		tokens("Redisson counts first after the retention", "tokens rise", 6, javas, TokenRules{}),
		tokens("a counter that Redisson made is given an expiry", "tokens rise", 6, first, TokenRules{Given: true}),
		tokens("an acquire sent again is answered a whole block", "answers are right", 5, plain,
			TokenRules{WholeBlock: true}),
		tokens("an acquire sent again is answered by the counter, which is gone", "answers are right", 3, single,
			TokenRules{WholeBlock: true}),
		tokens("a late release raises a missing counter to an old token", "exclusion", 14,
			TokenScope{Block: 1, Lead: 2, Lease: 5, Ticks: 7, Losses: 1, Gap: 3, Raises: true}, TokenRules{RaiseZero: true}),
		tokens("tokens begin at whatever is proposed", "tokens rise", 3, proposed, TokenRules{AnyProposal: true}),
		tokens("a waiter is told that a missing counter is 0", "exclusion", 13, long, TokenRules{MissingZero: true}),
	})
}

func TestTokensReach(t *testing.T) {
	plain := Tokens(TokenScope{Block: 2, Lead: 2, Retention: 3, Lease: 5, Ticks: 6, Losses: 1, Gap: 3}, TokenRules{})
	reached(t, plain, "a block that is cut", func(s tokenState) bool { return s.owner == asker && s.tokens == 1 })
	reached(t, plain, "a counter that expired under a holder", func(s tokenState) bool {
		return s.owner == asker && s.counter == 0 && s.losses == 1
	})
	reached(t, plain, "a message of a grant that is over, and another in force", func(s tokenState) bool {
		return s.push > 0 && s.owner == asker && s.queued && s.age == 0
	})
	reached(t, plain, "a grant after an older copy was read", func(s tokenState) bool {
		return s.losses == 0 && s.copied && s.ends != s.copyEnds && s.owner == waiter
	})
}
