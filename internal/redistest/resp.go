package redistest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ServerError is an error reply: the server received the command and said no.
// Any other error of [Server.Try] leaves open whether the command ran.
type ServerError string

func (e ServerError) Error() string { return string(e) }

// writeCommand sends args as one RESP array of bulk strings.
func writeCommand(w io.Writer, args []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// readReply reads one RESP2 reply: a string, an int64, nil, a []any of those or
// a [ServerError]. The error is about the connection or the format only.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, fmt.Errorf("empty reply line")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return ServerError(rest), nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$', '*':
		size, err := strconv.Atoi(rest)
		if err != nil || size < 0 {
			return nil, err
		}
		if kind == '$' {
			return readBulk(r, size)
		}
		return readArray(r, size)
	}
	return nil, fmt.Errorf("unknown reply %q", line)
}

func readBulk(r *bufio.Reader, size int) (any, error) {
	buf := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, err
	}
	return string(buf[:size]), nil
}

func readArray(r *bufio.Reader, size int) (any, error) {
	items := make([]any, size)
	for i := range items {
		item, err := readReply(r)
		if err != nil {
			return nil, err
		}
		items[i] = item
	}
	return items, nil
}

// text renders a reply for a reader: integers in decimal, nil as nothing, the
// items of an array one per line.
func text(reply any) string {
	switch reply := reply.(type) {
	case nil:
		return ""
	case string:
		return reply
	case []any:
		lines := make([]string, len(reply))
		for i, item := range reply {
			lines[i] = text(item)
		}
		return strings.Join(lines, "\n")
	default:
		return fmt.Sprint(reply)
	}
}

// infoField returns the value of a "name:value" line of an INFO reply, "" when
// there is none.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && key == name {
			return value
		}
	}
	return ""
}
