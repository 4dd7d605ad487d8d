package main

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Whoever may write to Redis can choose the names of locks and of their holders, and a Redis what its errors say. What
// a terminal would obey is written so that it shows it.

// harmless returns a text with what cannot be printed written as in a string of Go's. Lines stay.
func harmless(text string) string {
	var shown strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			shown.WriteRune(r)
		} else {
			quoted := strconv.QuoteRune(r)
			shown.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return shown.String()
}

// printJSON writes a value as a line of JSON. In JSON's strings alone there is what cannot be printed.
func printJSON(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var line []byte
	for _, r := range string(text) {
		switch {
		case unicode.IsPrint(r):
			line = append(line, string(r)...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			line = escaped(escaped(line, high), low)
		default:
			line = escaped(line, r)
		}
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// escaped appends a character of at most four digits as JSON escapes it.
func escaped(line []byte, r rune) []byte {
	digits := strconv.FormatUint(uint64(r)+0x10000, 16) // 1 before the four
	return append(append(line, `\u`...), digits[1:]...)
}

// widest bounds a name in a table, whose other rows are as wide. JSON has all of it.
const widest = 200
