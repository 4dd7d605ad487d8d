package wire

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
)

// A handle is a secret that no acquisition is: relock-handle:<client uuid>:<mark of the lock>:<secret>. The
// client is the one that handed the lock over. Redis has the field <client uuid>:handle:<digest> in its
// place. A field has 64 bytes, the longest with which Redis keeps a hash small.
var (
	handleText  = regexp.MustCompile(`^relock-handle:[0-9a-f]{8}-[0-9a-f-]{27}:([\w-]{8}):[A-Z2-7]{26}$`)
	handleField = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f-]{27}:handle:[\w-]{20}$`)
)

// NewHandle returns a handle of a lock, which the client hands over. Its secret has 130 random bits.
func NewHandle(client, lock string) string {
	return "relock-handle:" + client + ":" + markOf(lock) + ":" + rand.Text()
}

// HandleField returns the field that stands for a handle in the hash of its lock.
func HandleField(handle string) string {
	_, client, _ := strings.Cut(handle, ":")
	client, _, _ = strings.Cut(client, ":")
	return client + ":handle:" + digest(handle, 15)
}

// ValidHandle returns why a text is no handle of a lock, nil if it is one. The error leaves the text out: it may
// be most of a secret.
func ValidHandle(text string, n *Names) error {
	parts := handleText.FindStringSubmatch(text)
	switch {
	case parts != nil && parts[1] == markOf(n.Lock):
		return nil
	case parts != nil:
		return NoHandle(n, "it is the handle of another lock")
	case IsHandleField(text), IsID(text):
		return NoHandle(n, "it is the id of a holder, and no handle; HandOver returns one")
	}
	return fmt.Errorf("%w: a text of %d bytes is no handle; HandOver returns one", ErrMisuse, len(text))
}

// NoHandle is the error of a lock that does not stand for a handle.
func NoHandle(n *Names, why string) error {
	return fmt.Errorf("%w: %q is not taken over: %s", ErrLost, n.Name, why)
}

// IsHandleField reports whether a field of a lock's hash stands for a handle.
func IsHandleField(field string) bool { return handleField.MatchString(field) }

// Owner returns how an owner is shown: what its client says of itself, else its field. Of a handle the
// client is the one that handed the lock over.
func Owner(field string, by Card) string {
	text := by.String()
	switch {
	case IsHandleField(field):
		return "a handle of " + cmp.Or(text, ClientOf(field)) + ", to be taken over"
	case text != "":
		return text
	}
	return Shown(field)
}

// markOf tells the handles of locks apart.
func markOf(lock string) string { return digest(lock, 6) }

func digest(text string, size int) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:size])
}
