package driver

import (
	"crypto/sha1" // EVALSHA names scripts by it
	"encoding/hex"
)

// Script is a Lua script and its hash, which is computed once.
type Script struct {
	Text string
	SHA  string // 40 hexadecimal digits
	For  Op     // the purpose that its commands are counted as
}

// NewScript returns the script of a text.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{Text: text, SHA: hex.EncodeToString(sum[:])}
}
