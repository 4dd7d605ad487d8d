package model

import (
	"flag"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var large = flag.Bool("large", false, "explore larger scopes too: minutes and gigabytes")

const limit = 30_000_000

// run is an exploration that waits for its turn.
type run func() Result

func all[S comparable](sys System[S]) run {
	return func() Result { return Explore(sys, limit) }
}

// one explores for the sake of a single rule, the first shortest trace against it.
func one[S comparable](sys System[S], rule string) run {
	sys.Rules = slices.DeleteFunc(sys.Rules, func(r Rule[S]) bool { return r.Name != rule })
	if rule != "progress" {
		sys.Goal = nil
	}
	return func() Result { return Explore(sys, limit) }
}

// hold requires that nothing is broken: in the explorations, and in the large ones where those are asked for.
func hold(t *testing.T, explorations, most []run) {
	if *large {
		explorations = slices.Concat(explorations, most)
	}
	for _, explore := range explorations {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			res := explore()
			t.Log(res)
			if res.Broken != nil {
				t.Fatalf("%s\n%s", res.Name, res.Broken)
			}
			require.True(t, res.Complete, "stopped at the limit of states")
		})
	}
}

// reached explores until some state is like that, so that a rule cannot hold for want of anything happening.
func reached[S comparable](t *testing.T, sys System[S], what string, like func(S) bool) {
	t.Helper()
	sys.Goal = nil
	sys.Rules = []Rule[S]{{what, func(s S) string {
		if like(s) {
			return "reached"
		}
		return ""
	}}}
	res := Explore(sys, limit)
	require.NotNil(t, res.Broken, "%s: never: %s", res.Name, what)
	t.Logf("%s, after %d steps", what, len(res.Broken.Trace))
}

// broken is a protocol with one rule off, and what that must lead to.
type broken struct {
	name  string
	run   run
	rule  string
	steps int // of a shortest trace
}

func catch(t *testing.T, cases []broken) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res := c.run()
			require.NotNil(t, res.Broken, "not caught: %v", res)
			t.Logf("%v\n%v", res, res.Broken)
			require.Equal(t, c.rule, res.Broken.Rule)
			require.Len(t, res.Broken.Trace, c.steps)
		})
	}
}
