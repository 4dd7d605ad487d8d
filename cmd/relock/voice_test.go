package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// gate is a writer that takes nothing before it is opened.
type gate struct {
	open chan struct{}
	safeBuffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.safeBuffer.Write(p)
}

// A voice never keeps the speaker waiting: it drops what its queue has no room for, and says so once it can.
func TestVoiceDropsAndTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &gate{open: make(chan struct{})}
		v := newVoice(slow, "relock run")
		const more = 10
		synctest.Wait()
		fmt.Fprintln(v, "line")
		synctest.Wait() // it is being written
		for range voiceLines + more {
			fmt.Fprintln(v, "line")
		}
		close(slow.open)
		began := time.Now()
		v.end()
		require.Zero(t, time.Since(began))
		require.Equal(t, strings.Repeat("line\n", 1+voiceLines)+
			fmt.Sprintf("relock run: %d lines were dropped, since nothing took them\n", more), slow.String())
	})
}

// At the end a voice stays for a bounded time.
func TestVoiceEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := &gate{open: make(chan struct{})}
		v := newVoice(deaf, "relock run")
		fmt.Fprintln(v, "line")
		began := time.Now()
		v.end()
		require.Equal(t, voiceTime, time.Since(began))
		fmt.Fprintln(v, "a line behind the end")
		close(deaf.open)
		synctest.Wait()
	})
}

// A voice whose writer fails tells why, and writes nothing any more.
func TestVoiceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		broken := errors.New("broken")
		reader.CloseWithError(broken)
		v := newVoice(writer, "relock run")
		fmt.Fprintln(v, "line")
		<-v.failed
		require.ErrorIs(t, v.err, broken)
		for range 3 * voiceLines {
			fmt.Fprintln(v, "line")
		}
		v.end()
	})
}
