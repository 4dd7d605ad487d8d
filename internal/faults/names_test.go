package faults_test

import (
	"testing"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// The names by which tests pick scripts are those of the library's own, however their texts are put together.
func TestTheLibrarysScriptsAreKnown(t *testing.T) {
	name := func(text string, err error) string {
		require.NoError(t, err)
		return (&faults.Call{Script: text}).ScriptName()
	}
	for _, topology := range []struct {
		quorum bool
		names  []string
	}{
		{false, []string{"acquire", "release", "force", "recount", "renew", "refill", "move", "inspect", "introduce", "whois", "result", "keep", "forget"}},
		{true, []string{"vote", "unvote", "fence", "recount", "renew", "inspect", "introduce", "whois"}},
	} {
		s := lua.Scripts{Kind: "mutex", Quorum: topology.quorum}
		for _, want := range topology.names {
			require.Equal(t, want, name(s.Text(want)))
		}
		require.Equal(t, "sweep", name(s.Sweep(map[bool]string{false: "release", true: "unvote"}[topology.quorum])))
	}
}
