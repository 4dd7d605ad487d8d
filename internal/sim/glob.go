package sim

// matches reports whether s matches a pattern of KEYS, PSUBSCRIBE or an access rule: * ? [a-z] [^x] and \ before any.
func matches(pattern, s string) bool {
	for pattern != "" {
		switch pattern[0] {
		case '*':
			return matchesRest(pattern, s)
		case '[':
			if s == "" {
				return false
			}
			rest, ok := matchClass(pattern[1:], s[0])
			if !ok {
				return false
			}
			pattern, s = rest, s[1:]
			continue
		case '\\':
			if len(pattern) > 1 {
				pattern = pattern[1:]
			}
			if s == "" || pattern[0] != s[0] {
				return false
			}
		default:
			if s == "" || pattern[0] != '?' && pattern[0] != s[0] {
				return false
			}
		}
		pattern, s = pattern[1:], s[1:]
	}
	return s == ""
}

func matchesRest(pattern, s string) bool {
	for pattern != "" && pattern[0] == '*' {
		pattern = pattern[1:]
	}
	if pattern == "" {
		return true
	}
	for i := 0; i <= len(s); i++ {
		if matches(pattern, s[i:]) {
			return true
		}
	}
	return false
}

// matchClass matches c against what stands behind a [, and returns what stands behind its ].
func matchClass(class string, c byte) (rest string, ok bool) {
	negated := class != "" && class[0] == '^'
	if negated {
		class = class[1:]
	}
	found := false
	for class != "" && class[0] != ']' {
		switch {
		case class[0] == '\\' && len(class) > 1:
			found = found || class[1] == c
			class = class[2:]
		case len(class) > 2 && class[1] == '-':
			low, high := min(class[0], class[2]), max(class[0], class[2])
			found = found || low <= c && c <= high
			class = class[3:]
		default:
			found = found || class[0] == c
			class = class[1:]
		}
	}
	if class != "" {
		class = class[1:]
	}
	return class, found != negated
}
