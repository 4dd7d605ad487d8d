package sim

import (
	"math"
	"strconv"
	"strings"
)

// parseInt reads an integer as Redis does: no sign but a minus, no zero in front, no space.
func parseInt(s string) (int64, bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > 1 && digits[0] == '0' || s == "-0" || digits[0] == '+' || digits[0] == '-' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// parseFloat reads a score: what strtod reads to the end, but no NaN.
func parseFloat(s string) (float64, bool) {
	if strings.Contains(s, "_") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return parseHexadecimal(s)
	}
	return f, !math.IsNaN(f)
}

// parseHexadecimal reads 0x and digits, which Go wants an exponent behind.
func parseHexadecimal(s string) (float64, bool) {
	lower := strings.ToLower(strings.TrimLeft(s, "+-"))
	if !strings.HasPrefix(lower, "0x") || strings.Contains(lower, "p") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s+"p0", 64)
	return f, err == nil
}

// formatScore spells a score as Redis 7.0 and older do, with 17 digits.
func formatScore(f float64) string { return formatNumber(f, 17) }

// formatNumber is %.<precision>g of C.
func formatNumber(f float64, precision int) string {
	switch {
	case f == math.Trunc(f) && math.Abs(f) < 1e14:
		if f == 0 && math.Signbit(f) {
			return "-0"
		}
		return strconv.FormatInt(int64(f), 10)
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		if math.Signbit(f) {
			return "-nan"
		}
		return "nan"
	}
	return strconv.FormatFloat(f, 'g', precision, 64)
}
