package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

func TestCardsAreToldInWords(t *testing.T) {
	for want, c := range map[string]Card{
		"":                              {},
		"billing":                       {Name: "billing"},
		"billing on pod-7f9c (pid 12)":  {Name: "billing", Host: "pod-7f9c", PID: 12, Version: "v1.2.3"},
		"on pod-7f9c (pid 12)":          {Host: "pod-7f9c", PID: 12},
		"Rechnungen für 7 on ü (pid 1)": {Name: "Rechnungen für 7", Host: "ü", PID: 1},
	} {
		require.Equal(t, want, c.String())
	}
}

// What somebody else wrote into a card is not told to a terminal.
func TestCardsCanBePrinted(t *testing.T) {
	c := CardOf(map[string]string{
		"name": "a\x1b[2Jb\nc", "host": strings.Repeat("h", 1000), "pid": "twelve", "started": "1795000000123", "version": "v1\xff",
		"later": "fields are passed by",
	})
	started := time.UnixMilli(1795000000123)
	require.Equal(t, Card{Name: "a�[2Jb�c", Host: strings.Repeat("h", 256), Started: started, Version: "v1�"}, c)
	require.Zero(t, CardOf(nil))
	for _, v := range []driver.Value{driver.Int(1), driver.List(driver.String("name")), driver.List(driver.Int(1), driver.List())} {
		_, err := parseCard(v)
		require.ErrorContains(t, err, "whois: ")
		require.NotContains(t, err.Error(), "%!")
	}
}

// Whose lock it is, is told of relock's alone, and of a shared owner's where one client has it.
func TestClientIn(t *testing.T) {
	const one, two = "01234567-89ab-cdef-0123-456789abcdef", "11234567-89ab-cdef-0123-456789abcdef"
	for _, c := range []struct {
		what, want string
		fields     []string
	}{
		{"nobody's", "", nil},
		{"Redisson's", "", []string{one + ":57", "1"}},
		{"a client's", one, []string{one + ":1", "2", "relock:first", "7:256"}},
		{"a quorum's", one, []string{one + ":1", "1", "relock:first", "7:256", "relock:vote", "7:99"}},
		{"an owner's", one, []string{"order 7", "2", one + ":1", "1", "relock:first", "7:1:order 7", one + ":2", "1"}},
		{"shared by two", "", []string{"order 7", "2", one + ":1", "1", "relock:first", "7:1:order 7", two + ":2", "1"}},
		{"like a client's", one, []string{two + ":9", "1", one + ":1", "1", "relock:first", "7:1:" + two + ":9"}},
		{"sharers left", "", []string{"order 7", "1", "relock:first", "7:1:order 7"}},
		{"given back", one, []string{"o", "1", one + ":1", "1", "relock:first", "7:1:o", "relock:again:" + two + ":1", "8"}},
	} {
		require.Equal(t, c.want, ClientIn(c.fields), c.what)
	}
}
