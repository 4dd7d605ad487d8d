package lua_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// faults are what may happen to a command.
var faults = []string{"twice", "lost", "late"}

// fates is what becomes of the commands of one history.
type fates struct {
	t      *testing.T
	seed   uint64
	rand   *rand.Rand
	met    map[string]int
	rarest string   // script, and a fault that it met most seldom
	late   []func() // commands that are on their way
	trace  []string
}

// untilEachMeets plays histories until each script has met each fault as often as wanted, and tells how often.
func untilEachMeets(t *testing.T, scripts []string, wanted int, play func(f *fates, n int)) {
	met := make(map[string]int)
	for _, script := range scripts {
		for _, fault := range faults {
			met[script+" "+fault] = 0
		}
	}
	histories := 0
	for rarest := ""; ; histories++ {
		for counted, n := range met {
			if rarest == "" || n < met[rarest] {
				rarest = counted
			}
		}
		if met[rarest] >= wanted {
			break
		}
		seed := rand.Uint64()
		f := &fates{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), met: met, rarest: rarest}
		play(f, histories)
	}
	for _, counted := range slices.Sorted(maps.Keys(met)) {
		t.Logf("%-24s %d", counted, met[counted])
	}
	t.Logf("%d histories", histories)
}

// tell prints the history if the test has failed.
func (f *fates) tell() {
	if f.t.Failed() {
		f.t.Logf("seed %d\n%s", f.seed, strings.Join(f.trace, "\n"))
	}
}

// meets runs a command, and may have it meet a fault. then is called with an answer that arrives; before each run that its client
// does not hear of, unheard is.
func (f *fates) meets(script string, run func() any, unheard func(), then func(any)) (answered bool) {
	fault := ""
	if f.rand.IntN(2) == 0 {
		fault = faults[f.rand.IntN(len(faults))]
		f.met[script+" "+fault]++
		f.trace = append(f.trace, "  *** "+fault)
	}
	switch fault {
	case "lost":
		unheard()
		run()
		return false
	case "twice":
		second := f.rand.IntN(2) == 0 // is the answer that arrives
		if second {
			unheard()
		}
		answer := run()
		if !second {
			unheard()
		}
		if again := run(); second {
			answer = again
		}
		then(answer)
	case "late":
		then(run())
		f.late = append(f.late, func() {
			f.trace = append(f.trace, "  *** late:")
			unheard()
			run()
		})
	default:
		then(run())
	}
	return true
}

// arrive runs a command that is late.
func (f *fates) arrive() {
	i := f.rand.IntN(len(f.late))
	late := f.late[i]
	f.late = slices.Delete(f.late, i, i+1)
	late()
}

// conn is a connection to Redis that speaks RESP2.
type conn struct {
	net.Conn
	in      *bufio.Reader
	t       *testing.T
	refused bool // what is sent may be
}

func dial(t *testing.T, addr string) *conn {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	return &conn{Conn: c, in: bufio.NewReader(c), t: t}
}

func (c *conn) do(args ...string) any {
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(arg), arg)
	}
	_, err := c.Write([]byte(text.String()))
	require.NoError(c.t, err)
	return c.read()
}

// read reads an answer. An error that Redis answers is an error, or fails the test.
func (c *conn) read() any {
	line, err := c.in.ReadString('\n')
	require.NoError(c.t, err)
	line = strings.TrimSuffix(line, "\r\n")
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '+':
		return line[1:]
	case ':':
		return int64(n)
	case '$':
		if n < 0 {
			return nil
		}
		text := make([]byte, n+2)
		_, err := io.ReadFull(c.in, text)
		require.NoError(c.t, err)
		return string(text[:n])
	case '*':
		all := make([]any, max(n, 0))
		for i := range all {
			all[i] = c.read()
		}
		return all
	}
	if line[0] == '-' && c.refused {
		return errors.New(line[1:])
	}
	require.Fail(c.t, "Redis answered", line)
	return nil
}

// messages returns what a subscriber was sent since the last call: what was published before the answer to its PING.
func (c *conn) messages() (all []string) {
	_, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n"))
	require.NoError(c.t, err)
	for {
		parts := c.read().([]any)
		if parts[0] == "pong" {
			return all
		}
		all = append(all, parts[2].(string))
	}
}

// number is an answer that is a number, or a text that is one.
func number(v any) int64 {
	n, err := strconv.ParseInt(fmt.Sprint(cmp.Or(v, any(0))), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
