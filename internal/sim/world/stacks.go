package world

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
)

// bubbleStacks are the goroutines of bubbles: first those that hold its time up, then who may hold a mutex that they wait
// for, then some others.
func bubbleStacks() string {
	buf := make([]byte, 16<<20)
	return sorted(string(buf[:runtime.Stack(buf, true)]))
}

// most is how many goroutines are shown that are blocked as they may be.
const most = 40

// sorted puts the goroutines of bubbles in the order in which they explain why the time of a bubble stands still.
func sorted(dump string) string {
	var awake, blocked []string
	for one := range strings.SplitSeq(dump, "\n\n") {
		head, _, _ := strings.Cut(one, "\n")
		switch {
		case !strings.Contains(head, "synctest bubble"), strings.Contains(head, "[synctest."):
		case strings.Contains(head, "(durable)"):
			blocked = append(blocked, one)
		default:
			awake = append(awake, one)
		}
	}
	near, far := holders(awake, blocked)
	var b strings.Builder
	section(&b, "not durably blocked", awake, `Time stands still in a bubble while it has such a goroutine. One that runs is
in a loop. One that waits for a mutex waits for another, which holds the mutex while it waits for time or for a channel.`)
	section(&b, "likely to hold that mutex", near, "Each is durably blocked inside of an object whose mutex is waited for.")
	section(&b, "durably blocked elsewhere", far, "")
	return strings.TrimSpace(b.String())
}

func section(b *strings.Builder, title string, stacks []string, meaning string) {
	if len(stacks) == 0 {
		return
	}
	fmt.Fprintf(b, "== %s: %d\n%s\n\n", title, len(stacks), meaning)
	if meaning == "" {
		stacks = stacks[:min(len(stacks), most)]
	}
	fmt.Fprintf(b, "%s\n\n", strings.Join(stacks, "\n\n"))
}

var (
	waitsForMutex = regexp.MustCompile(`^goroutine \d+ \[(?:sync\.|semacquire)`)
	libraryCall   = regexp.MustCompile(`(?m)^github\.com/relock-go/relock[^\n]*\((0x[0-9a-f]+)`)
)

// holders tells, of the goroutines that are blocked, those apart that are in a method of an object whose method waits
// for a mutex. The objects of the world itself are none: all goroutines share them.
func holders(awake, blocked []string) (near, far []string) {
	objects := map[string]bool{}
	for _, one := range awake {
		if waitsForMutex.MatchString(one) {
			for _, object := range receivers(one) {
				objects[object] = true
			}
		}
	}
next:
	for _, one := range blocked {
		for _, object := range receivers(one) {
			if objects[object] {
				near = append(near, one)
				continue next
			}
		}
		far = append(far, one)
	}
	return near, far
}

// receivers are the first arguments of the calls of the library on a stack.
func receivers(stack string) (list []string) {
	for _, call := range libraryCall.FindAllStringSubmatch(stack, -1) {
		if !strings.Contains(call[0], "/internal/sim/") {
			list = append(list, call[1])
		}
	}
	return list
}
