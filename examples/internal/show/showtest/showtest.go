// Package showtest tests what an example shows.
package showtest

import (
	"testing"

	"github.com/relock-go/relock/examples/internal/show"
	"github.com/stretchr/testify/require"
)

// Run plays the example: the store refuses every late write by a way that has a Refusal, and takes every other one.
func Run(t *testing.T, e show.Example) {
	t.Helper()
	rounds := *show.Rounds
	require.Positive(t, rounds)
	counts, err := show.Play(t.Context(), e, rounds, t.Logf)
	require.NoError(t, err)
	for i, way := range e.Ways {
		want := show.Count{Accepted: rounds}
		if way.Refusal != nil {
			want = show.Count{Refused: rounds}
		}
		require.Equal(t, want, counts[i], way.Name)
	}
}
