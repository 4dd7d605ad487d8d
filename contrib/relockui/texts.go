package relockui

import (
	"html/template"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/operator"
)

// texts are what templates call.
var texts = template.FuncMap{
	"count": count,
	"plain": operator.Plain,
	"owner": operator.Owner,
	"short": operator.Short,
	"clock": func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"lasting": func(p period) string {
		return operator.Short(p.Until.Sub(p.From))
	},
	"place": func(i int) int { return i + 1 },
}

// count writes a number with commas.
func count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
