package model

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// pair is a state of two counters that nothing tells apart.
type pair [2]int

// pairs counts either counter up to most.
func pairs(most int) System[pair] {
	return System[pair]{
		Name: "pairs",
		Steps: func(s pair, emit func(Step[pair])) {
			for i := range s {
				if s[i] < most {
					next := s
					next[i]++
					emit(Step[pair]{Act: Action{"{c} counts to {t}", [3]int8{int8(i), int8(next[i])}}, To: next})
				}
			}
		},
		Show: func(s pair) string { return fmt.Sprint(s) },
	}
}

func swapped(s pair) pair {
	if s[0] > s[1] {
		s[0], s[1] = s[1], s[0]
	}
	return s
}

func TestExploreCountsStates(t *testing.T) {
	sys := pairs(9)
	res := Explore(sys, limit)
	require.Nil(t, res.Broken)
	require.True(t, res.Complete)
	require.Equal(t, []int{100, 180, 18}, []int{res.States, res.Edges, res.Depth})
	sys.Canon = swapped
	require.Equal(t, 55, Explore(sys, limit).States)
	require.False(t, Explore(sys, 54).Complete)
}

func TestTraceIsShortestAndKeepsNames(t *testing.T) {
	sys := pairs(9)
	sys.Canon = swapped
	sys.Rules = []Rule[pair]{{"apart", func(s pair) string {
		if s[0]*s[1] == 3 {
			return fmt.Sprint(s, " is apart")
		}
		return ""
	}}}
	res := Explore(sys, limit)
	require.NotNil(t, res.Broken)
	require.Len(t, res.Broken.Trace, 4)
	require.Equal(t, res, Explore(sys, limit), "not the same again")
	s := pair{}
	for _, l := range res.Broken.Trace {
		for i := range s {
			next := s
			next[i]++
			if l.Act == fmt.Sprintf("%s counts to %d", letter(i), next[i]) {
				s = next
				break
			}
		}
		require.Equal(t, fmt.Sprint(s), l.State)
	}
	require.Equal(t, fmt.Sprint(s, " is apart"), res.Broken.What)
}

func TestRuleThatTheFirstStateBreaks(t *testing.T) {
	sys := pairs(1)
	sys.Rules = []Rule[pair]{{"no", func(pair) string { return "broken" }}}
	res := Explore(sys, limit)
	require.NotNil(t, res.Broken)
	require.Empty(t, res.Broken.Trace)
}

func TestGoalThatCannotBeReached(t *testing.T) {
	sys := pairs(2)
	sys.Goal = func(s pair) bool { return s == pair{2, 1} }
	res := Explore(sys, limit)
	require.NotNil(t, res.Broken)
	require.Equal(t, "progress", res.Broken.Rule)
	sys.Goal = func(s pair) bool { return s == pair{2, 2} }
	require.Nil(t, Explore(sys, limit).Broken)
}

func TestActionsAreReadable(t *testing.T) {
	act := Action{"{c} asks {n} for {t}", [3]int8{1, 2, 7}}
	require.Equal(t, "B asks n3 for 7", act.String())
	require.Equal(t, "a tick passes", Action{Text: "a tick passes"}.String())
}
