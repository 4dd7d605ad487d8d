package operator

import "strings"

// Match reports whether a name matches a pattern of Redis's: * ? [a-z] [^a-z] and \ before a
// character that means itself. Its time grows no faster than the product of their lengths.
func Match(pattern, name string) bool {
	star, after := -1, 0 // where to go on when the last * takes one character more
	at, on := 0, 0
	for on < len(name) {
		switch next, fits := step(pattern[at:], name[on]); {
		case at < len(pattern) && pattern[at] == '*':
			star, after = at, on
			at++
		case fits:
			at, on = at+next, on+1
		case star >= 0:
			after++
			at, on = star+1, after
		default:
			return false
		}
	}
	return strings.Trim(pattern[at:], "*") == ""
}

// step reads the first element of a pattern, which is not *. It returns the element's length, and
// whether it matches c.
func step(pattern string, c byte) (next int, fits bool) {
	switch {
	case pattern == "":
		return 0, false
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '[':
		return class(pattern, c)
	case pattern[0] == '\\' && len(pattern) > 1:
		return 2, pattern[1] == c
	default:
		return 1, pattern[0] == c
	}
}

// class reads the class in brackets that a pattern starts with. A class without its ] takes the
// rest of the pattern.
func class(pattern string, c byte) (next int, fits bool) {
	next = 1
	not := next < len(pattern) && pattern[next] == '^'
	if not {
		next++
	}
	for ; next < len(pattern) && pattern[next] != ']'; next++ {
		if pattern[next] == '\\' && next+1 < len(pattern) {
			next++
			fits = fits || pattern[next] == c
			continue
		}
		low, high := pattern[next], pattern[next]
		if next+2 < len(pattern) && pattern[next+1] == '-' {
			high = pattern[next+2]
			next += 2
		}
		fits = fits || min(low, high) <= c && c <= max(low, high)
	}
	return min(next+1, len(pattern)), fits != not
}

// IsPattern reports whether a text is meant as a pattern: it has a character that means something
// in patterns.
func IsPattern(text string) bool { return strings.ContainsAny(text, `*?[\`) }
