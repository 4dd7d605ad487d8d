package world

import (
	"github.com/relock-go/relock/internal/sim"
	"github.com/relock-go/relock/lua"
)

// warm does outside of a bubble what a process does once, and draws from chance for: it goes through maps. Else the first
// seed of a process would run otherwise than the same seed as one of many.
func warm(o sim.Options) {
	if _, err := (lua.Scripts{Kind: "mutex"}).Text("acquire"); err != nil { // takes all files apart
		panic(err)
	}
	s := sim.NewServer(o)
	s.Exec(s.Open("", "", nil, nil), []string{"EVAL", "return 1", "0"}) // makes the engine of this version
}
