package overgoredis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// command is a command that the library never repeats. Others it repeats by itself, even after an
// answer was lost.
type command struct {
	redis.Cmd
	words []any
	room  [24]any // for most commands' words
}

// NoRetry tells the library not to repeat the command.
func (c *command) NoRetry() bool { return true }

// newCommand returns a command with room for n words. The caller appends them to words, and then
// calls seal.
func newCommand(n int) *command {
	c := &command{}
	c.words = c.room[:0]
	if n > len(c.room) {
		c.words = make([]any, 0, n)
	}
	return c
}

// seal makes the library's command of the words.
func (c *command) seal(ctx context.Context) { c.Cmd = *redis.NewCmd(ctx, c.words...) }

// appendWords appends pointers to strings, which the library writes as the strings: an interface of
// a string itself costs an allocation.
func appendWords(words []any, more []string) []any {
	for i := range more {
		words = append(words, &more[i])
	}
	return words
}
