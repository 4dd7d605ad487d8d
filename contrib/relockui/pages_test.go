package relockui

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// everyPage renders each page in each of its states, with text wherever a page shows what comes from outside.
func everyPage(t *testing.T, text string) (all []string) {
	t.Helper()
	names, err := wire.Mutex.Names("", "x")
	require.NoError(t, err)
	names.Name = text
	by := wire.Card{Name: text, Host: text, Version: text, Started: time.Unix(1, 0)}
	for state := range 1 << 5 {
		is := func(bit int) bool { return state&(1<<bit) != 0 }
		s := operator.Sighting{
			Names: names, Kind: text, Held: is(0), Holder: text, Count: 300, Age: time.Second, Waiters: 2, Nodes: 1, Permits: 4, Token: 1,
		}
		if is(1) {
			s.Kind, s.Age, s.Waiters = operator.KindSemaphore, -1, 0
		}
		if is(2) {
			s.By = by
			s.Holders = []operator.Holding{{Owner: text, By: by}, {Owner: text}}
		}
		f := frame{Title: text, Label: text, Edition: edition, Live: is(3), Trouble: text}
		if is(4) {
			f.Trouble, f.At = "", time.Unix(1, 0)
		}
		l := &listing{frame: f, query: query{Filter: text, Sort: operator.ByAge, Many: is(1)}, Pending: is(4) && !is(0)}
		one := &single{frame: f, view: view{Sighting: s}, Name: text, Force: true, Pending: l.Pending}
		if is(0) {
			l.Rows, l.All, l.Found, l.Rest = []operator.Sighting{s}, counts{Locks: 9}, counts{Locks: 7}, counts{Locks: 6}
			one.Queue, one.Rest = []operator.Waiter{{Owner: text, By: by, Side: text, Wants: 1}, {Owner: text}}, 1
			one.Past = []period{{Held: true, Holder: text, Owner: text}, {Held: true, Owner: text}, {}}
		}
		for _, c := range []content{l, one, &question{frame: f, Sighting: s, Name: text, Grants: []string{text}}, &message{f, text, text}} {
			all = append(all, string(render(c)))
		}
	}
	return all
}

// A page has the same tags and quotes, whatever text comes from outside.
func TestEveryPageKeepsItsTags(t *testing.T) {
	t.Parallel()
	const evil = `</q><script>"'&#%s{{.}}`
	plain, hostile := everyPage(t, "plain"), everyPage(t, evil)
	for i := range plain {
		require.NotContains(t, plain[i], "%", "markup has more values than it takes, or fewer")
		require.NotContains(t, hostile[i], "</q><")
		for _, mark := range []string{"<", ">", `"`, "'"} {
			require.Equal(t, strings.Count(plain[i], mark), strings.Count(hostile[i], mark), "%s in %s", mark, hostile[i])
		}
	}
	require.Contains(t, strings.Join(hostile, ""), "&lt;/q&gt;&lt;script&gt;&#34;&#39;&amp;#%s{{.}}", "text is not escaped twice")
}
