package relockui

import (
	"html/template"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/operator"
)

// texts are the functions that templates call.
var texts = template.FuncMap{
	"count": count,
	"plain": operator.Plain,
	"owner": operator.Owner,
	"short": operator.Short,
	"clock": clock,
	"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"place": func(i int) int { return i + 1 },
}

// count returns a number with commas between thousands.
func count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// clock returns a time in UTC, with the date if it is over a day ago.
func clock(t time.Time) string {
	if time.Since(t) > 24*time.Hour {
		return t.UTC().Format("2006-01-02 15:04")
	}
	return t.UTC().Format("15:04:05")
}
