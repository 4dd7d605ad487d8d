package relockui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockui"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// locks is the client of the service's locks.
var locks *relock.Client

func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", relockui.Handler(locks)))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/locks/", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), ">orders</a>"))
}

// The example needs a Redis, so it has no output of its own for go test to compare.
func TestExample(t *testing.T) {
	srv := redistest.Start(t)
	var err error
	locks, err = relock.New(srv.Client())
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	_, err = locks.Mutex("orders").Lock(context.Background())
	require.NoError(t, err)
	require.Equal(t, "200 true\n", printed(t, ExampleHandler))
}

// printed is what a function writes to the standard output.
func printed(t *testing.T, f func()) string {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	require.NoError(t, err)
	was := os.Stdout
	os.Stdout = out
	defer func() { os.Stdout = was }()
	f()
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	return string(text)
}

// What the README shows is what the example does.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	code, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	for line := range strings.Lines(code) {
		require.Contains(t, string(example), "\t"+line)
	}
}
