package wire

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
)

// ClientPrefix starts the keys of clients' cards. No lock's name starts with it.
const ClientPrefix = "relock_client:"

// ClientKey returns the key of the card of the client with that uuid.
func ClientKey(client string) string { return ClientPrefix + client }

// Card is what a client says of itself. The zero Card says nothing.
type Card struct {
	Name    string
	Host    string
	PID     int
	Started time.Time // of the client
	Version string    // of the library
}

// String returns "billing on pod-7f9c (pid 12)", without the parts that are not known, and "" for the
// zero Card.
func (c Card) String() string {
	text := c.Name
	if c.Host != "" {
		text += " on " + c.Host
	}
	if c.PID > 0 {
		text += fmt.Sprintf(" (pid %d)", c.PID)
	}
	return strings.TrimSpace(text)
}

// ValidClientName returns what is wrong with the name of a client, nil if nothing is.
func ValidClientName(name string) error {
	if len(name) > maxOwner {
		return fmt.Errorf("%q… has %d bytes, %d are allowed", name[:32], len(name), maxOwner)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable) {
		return fmt.Errorf("%q cannot be printed as it is", name)
	}
	return nil
}

// Shown returns a text that others wrote so that it can stand in an error, in a log or on a terminal.
// It is quoted if it has characters that cannot be printed: a terminal would obey them.
func Shown(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unprintable) {
		return strconv.Quote(text)
	}
	return text
}

// unprintable reports whether a terminal might obey a character instead of showing it.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// The fields of a card.
const (
	nameField    = "name"
	hostField    = "host"
	pidField     = "pid"
	startedField = "started" // milliseconds since 1970, by the client's clock
	versionField = "version"
)

// CardOf reads the fields of a card. The texts that it returns can be printed, whatever the fields are.
func CardOf(fields map[string]string) Card {
	c := Card{Name: printable(fields[nameField]), Host: printable(fields[hostField]), Version: printable(fields[versionField])}
	c.PID, _ = strconv.Atoi(fields[pidField])
	if ms, err := strconv.ParseInt(fields[startedField], 10, 64); err == nil {
		c.Started = time.UnixMilli(ms)
	}
	return c
}

// printable cuts a text to the length of a name, and replaces what cannot be printed.
func printable(text string) string {
	if len(text) > maxOwner {
		text = text[:maxOwner]
	}
	return strings.Map(func(r rune) rune {
		if unprintable(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// Introduce writes a client's card, which expires after stay. If a card of the client is there already,
// only its expiry is set anew.
func (r *Redis) Introduce(ctx context.Context, client string, c *Card, stay time.Duration) error {
	return r.introduce(ctx, client, MS(stay), nameField, c.Name, hostField, c.Host, pidField, strconv.Itoa(c.PID),
		startedField, strconv.FormatInt(c.Started.UnixMilli(), 10), versionField, c.Version)
}

// Withdraw takes a client's card away.
func (r *Redis) Withdraw(ctx context.Context, client string) error {
	return r.introduce(ctx, client, "0")
}

// introduce writes or deletes a client's card. No lock depends on it, so its failure does not
// count as one of the Redis.
func (r *Redis) introduce(ctx context.Context, client string, args ...string) error {
	_, err := integer(r.link.Do(ctx, r.link.Timeout, r.of(nil).introduce, []string{ClientKey(client)}, args, link.Unheeded))
	return err
}

// Whois reads a client's card. It returns the zero Card if the client has none.
func (r *Redis) Whois(ctx context.Context, client string) (Card, error) {
	v, err := r.link.Do(ctx, r.link.Timeout, r.of(nil).whois, []string{ClientKey(client)}, nil, link.Unheeded)
	if err != nil {
		return Card{}, err
	}
	return parseCard(v)
}

// parseCard reads the fields and values, by turns, of a card's hash.
func parseCard(v driver.Value) (Card, error) {
	parts, err := v.Texts()
	if err != nil {
		return Card{}, fmt.Errorf("whois: %w", err)
	}
	if len(parts)%2 != 0 {
		return Card{}, fmt.Errorf("whois: a hash of %d parts", len(parts))
	}
	fields := make(map[string]string)
	for i := 0; i < len(parts); i += 2 {
		fields[parts[i]] = parts[i+1]
	}
	return CardOf(fields), nil
}

// ClientOf returns the uuid of the client, relock's or Redisson's, that an entry's field in a lock's
// hash names. Of a handle it is the client that handed the lock over. It returns "" for any other field, such
// as a shared owner's.
func ClientOf(holder string) string {
	if !sharer.MatchString(holder) && !IsHandleField(holder) {
		return ""
	}
	client, _, _ := strings.Cut(holder, ":")
	return client
}

// ClientIn returns the uuid of the relock client that holds a lock, "" if another library's does.
// fields has the fields of the lock's hash and their values by turns. A shared owner's client is that
// of its sharers, "" if they are of several clients.
func ClientIn(fields []string) (client string) {
	_, owner, ours := grantIn(fields)
	for i := 0; ours && i+1 < len(fields); i += 2 {
		of := ClientOf(fields[i])
		if of == "" || fields[i] == owner {
			continue
		}
		if client != "" && client != of {
			return ""
		}
		client = of
	}
	return client
}
