package interop

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The client that the transcripts are replayed as.
const (
	replayClient = "6c1de5a0-4ab5-4b0e-a1f8-9a4f1f0d2b11"
	threadA      = replayClient + ":31"
	threadB      = replayClient + ":32"
)

// transcript is what Redisson sent, by operation; what its scripts did is left out.
type transcript map[string][][]string

// readTranscript reads what TestTranscript keeps, with a client, threads and request ids put in.
func readTranscript(t testing.TB, of, version string) transcript {
	t.Helper()
	text, err := os.ReadFile(transcriptPath(of, version))
	require.NoError(t, err)
	fill := strings.NewReplacer("<client>:<a>", threadA, "<client>:<b>", threadB,
		"<request>", strings.Repeat("0123456789abcdef", 2), "<latch>", "17000")
	ids := regexp.MustCompile(`<id\d+>`) // of permits: 16 bytes that are no text
	steps, heading := make(transcript), ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "# "):
			heading = line[2:]
		case strings.HasPrefix(line, `"`):
			line = ids.ReplaceAllStringFunc(fill.Replace(line), func(id string) string {
				return fmt.Sprintf(`\xff a permit %-5s`, id[1:len(id)-1])
			})
			steps[heading] = append(steps[heading], unquote(t, line))
		}
	}
	return steps
}

// unquote takes a line of MONITOR apart.
func unquote(t testing.TB, line string) (args []string) {
	t.Helper()
	for line != "" {
		quoted, err := strconv.QuotedPrefix(line)
		require.NoError(t, err, line)
		arg, err := strconv.Unquote(quoted)
		require.NoError(t, err, line)
		args = append(args, arg)
		line = strings.TrimPrefix(line[len(quoted):], " ")
	}
	return args
}

// channel is what a waiting Redisson subscribes.
func (tr transcript) channel(t testing.TB) string {
	t.Helper()
	for _, command := range slices.Concat(tr["contended lock"], tr["contended acquire"]) {
		if command[0] == "SUBSCRIBE" {
			return command[1]
		}
	}
	t.Fatal("Redisson did not subscribe")
	return ""
}

// replay stands in for Redisson on a server.
type replay struct {
	t      testing.TB
	server *redistest.Server
	steps  transcript
	ahead  time.Duration // of the clock of the machine that Redisson runs on
}

// startReplay runs a server and loads the scripts of a transcript into it.
func startReplay(t testing.TB, of, version string) replay {
	t.Helper()
	r := replay{t: t, server: redistest.Start(t), steps: readTranscript(t, of, version)}
	for _, commands := range r.steps {
		for _, command := range commands {
			if command[0] == "SCRIPT" {
				r.server.Do(command...)
			}
		}
	}
	return r
}

// play sends what Redisson sent for one operation and returns what the first command answered.
func (r replay) play(operation string) any {
	r.t.Helper()
	require.NotEmpty(r.t, r.steps[operation], "the transcript lacks %q", operation)
	var answer any
	asked := make(map[string]bool) // an unknown script was sent again: here it is known
	for i, command := range r.steps[operation] {
		if line := strings.Join(command, " "); command[0] == "SCRIPT" || asked[line] {
			continue
		} else {
			asked[line] = true
		}
		got, err := r.server.Try(r.timed(command)...)
		require.NoError(r.t, err, "%q", command)
		if i == 0 {
			answer = got
		}
	}
	return answer
}

// timed puts the time in where Redisson did.
func (r replay) timed(command []string) []string {
	now := time.Now().Add(r.ahead)
	command = slices.Clone(command)
	for i, arg := range command {
		switch arg {
		case "<now>":
			command[i] = strconv.FormatInt(now.UnixMilli(), 10)
		case "<expiry>":
			command[i] = strconv.FormatInt(now.Add(time.Minute).UnixMilli(), 10)
		}
	}
	return command
}
