package world

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const standstill = `goroutine 8 [running]:
github.com/relock-go/relock/internal/sim/world.bubbleStacks()

goroutine 20 [synctest.Run, synctest bubble 5]:
internal/synctest.Run(0xc000400000)

goroutine 21 [chan receive (durable), synctest bubble 5]:
github.com/relock-go/relock/internal/sim/world.(*World).waitFor(0xc000111000, 0x1)

goroutine 22 [select (durable), synctest bubble 5]:
github.com/relock-go/relock/internal/link.(*Link).run(0xc000333000, {0x1, 0x2})
github.com/relock-go/relock.(*seat).check(0xc000222000)
github.com/relock-go/relock/internal/sim/world.(*Actor).run(0xc000111000)

goroutine 23 [sync.Mutex.Lock, synctest bubble 5]:
internal/sync.(*Mutex).lockSlow(0xc000222008)
sync.(*Mutex).Lock(...)
github.com/relock-go/relock.(*seat).check(0xc000222000)
github.com/relock-go/relock/internal/sim/world.(*Actor).run(0xc000111000)`

// TestTheCulpritIsToldFirst is told of a mutex that is held by a goroutine which waits for an answer.
func TestTheCulpritIsToldFirst(t *testing.T) {
	told := sorted(standstill)
	var order []string
	for _, who := range []string{"goroutine 23 ", "goroutine 22 ", "goroutine 21 "} {
		require.Equal(t, 1, strings.Count(told, who))
		order = append(order, who)
	}
	at := 0
	for _, who := range order {
		next := strings.Index(told, who)
		require.Greater(t, next, at)
		at = next
	}
	require.Contains(t, told, "not durably blocked: 1\n")
	require.NotContains(t, told, "goroutine 8 ")
	require.NotContains(t, told, "goroutine 20 ")
}
