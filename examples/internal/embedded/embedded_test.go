package embedded

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The error of a show says that its Redis is gone, if it is.
func TestExplain(t *testing.T) {
	why := errors.New("a worker ended")
	r := Redis{}
	require.Equal(t, why, r.Explain(why), "none was given")
	end, err := r.Start()
	require.NoError(t, err)
	require.Equal(t, why, r.Explain(why), "it answers")
	end()
	require.NoError(t, r.Explain(nil))
	require.ErrorIs(t, r.Explain(why), why)
	require.ErrorIs(t, r.Explain(why), syscall.ECONNREFUSED)
	require.ErrorContains(t, r.Explain(why), "Redis is gone")
}
