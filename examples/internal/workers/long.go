package workers

import "os"

// Rounds is how often a test does something: few times, or many with RELOCK_LONG set.
func Rounds(few, many int) int {
	if os.Getenv("RELOCK_LONG") != "" {
		return many
	}
	return few
}
