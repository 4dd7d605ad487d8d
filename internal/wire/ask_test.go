package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// entryOf is a try for a mutex, as a client makes it.
func entryOf(t *testing.T, name, id string) *Entry {
	t.Helper()
	n, err := NamesOf("", name)
	require.NoError(t, err)
	return &Entry{Kind: Mutex, Names: n, ID: id, Lease: time.Second, Block: 256, Timeout: time.Second}
}

// Rights are asked for once a name, and no more names are remembered than is bearable.
func TestRightsAreAskedForOnce(t *testing.T) {
	v := &vetted{}
	e := entryOf(t, "k", "uuid:1")
	require.Equal(t, []string{"PUBLISH", "relock_listen:{k}", InboxPrefix + "uuid"}, v.ask(nil, Plain, e))
	require.NotEmpty(t, v.ask(nil, Plain, e)[0], "until they were found to be there")
	v.note("k")
	require.Equal(t, []string{"", "", ""}, v.ask(nil, Plain, e))
	require.Empty(t, v.ask(nil, Route{Publish: "PUBLISH"}, entryOf(t, "other", "uuid:2"))[2], "no inbox")
	for i := range 3 * maxVetted {
		v.note(fmt.Sprint(i))
		require.LessOrEqual(t, len(v.names), maxVetted)
	}
	require.NotEmpty(t, v.ask(nil, Plain, e)[0])
}
