package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const childEnv = "RELOCK_REDISTEST_CHILD"

// A test process that is killed leaves no server behind, while a mere thread of
// it that ends does not take the server along.
func TestServerDiesWithItsParent(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		runChild(t)
		return
	}
	adoptOrphans(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithItsParent$")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var server int
	_, err = fmt.Fscanf(out, "server %d\n", &server)
	require.NoError(t, err, "the child has a server that answers")

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	var status syscall.WaitStatus
	require.Eventually(t, func() bool {
		pid, err := syscall.Wait4(server, &status, syscall.WNOHANG, nil)
		return err == nil && pid == server
	}, 5*time.Second, pollEvery)
	require.True(t, status.Signaled())
	require.Equal(t, syscall.SIGKILL, status.Signal())
}

// runChild starts a server from a thread that then ends, tells the server's id
// and waits to be killed.
func runChild(t *testing.T) {
	var s *Server
	onDyingThread(func() { s = Start(t) })
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
		require.Equal(t, "PONG", s.Do("PING"), "the server outlives the thread")
	}
	_, err := fmt.Printf("server %d\n", s.PID())
	require.NoError(t, err)
	<-t.Context().Done()
}

// onDyingThread calls run on an OS thread that ends with it.
func onDyingThread(run func()) {
	for dying := false; !dying; {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
			// The main thread does not; it is parked instead, so that the next try gets another.
			if dying = syscall.Gettid() != syscall.Getpid(); dying {
				run()
			}
		}()
		<-done
	}
}

// adoptOrphans makes this process the parent of its descendants' orphans, so
// that it can see how they end.
func adoptOrphans(t *testing.T) {
	t.Helper()
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	_, _, errno := syscall.Syscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	require.Zero(t, errno)
}
