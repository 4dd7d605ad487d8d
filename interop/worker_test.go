package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// workerEnv makes the test binary a Go peer: it holds the site, as JSON, and the lease after a space.
const workerEnv = "RELOCK_INTEROP_WORKER"

func TestMain(m *testing.M) {
	if spec, ok := os.LookupEnv(workerEnv); ok {
		if err := work(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the goroutines of relock and of the tests that do not end, "" when there are none.
func leaked() string {
	stacks := make([]byte, 1<<20)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var left []string
		for _, stack := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, "relock-go/relock") && !strings.Contains(stack, "TestMain") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

// startGo runs a Go process with relock that follows the line protocol.
func startGo(t testing.TB, s site, lease time.Duration) *peer {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerEnv+"="+lease.String()+" "+s.String())
	return startPeer(t, cmd)
}

// worker is the Go end of the line protocol.
type worker struct {
	locks *relock.Client
	rdb   rueidis.Client

	mu     sync.Mutex // guards leases
	leases map[string]*relock.Lease
}

// work follows the lines of standard input until their end. As in the Java program each thread name is a goroutine.
func work(spec string) error {
	lease, text, _ := strings.Cut(spec, " ")
	var s site
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	d, err := time.ParseDuration(lease)
	if err != nil {
		return err
	}
	w := &worker{leases: make(map[string]*relock.Lease)}
	if w.rdb, err = s.open(); err != nil {
		return err
	}
	if w.locks, err = relock.New(w.rdb, append(s.options(), relock.WithLease(d))...); err != nil {
		return err
	}
	fmt.Println(w.locks.ID())
	threads := make(map[string]chan []string)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Split(lines.Text(), "\t")
		thread := threads[words[1]]
		if thread == nil {
			thread = make(chan []string, 100)
			threads[words[1]] = thread
			go w.serve(thread)
		}
		thread <- words
	}
	return nil
}

func (w *worker) serve(thread <-chan []string) {
	for words := range thread {
		began := time.Now().UnixMicro()
		status := "ok"
		value, err := w.run(words[1], words[2], words[3:])
		if err != nil {
			status, value = "error", strings.Join(strings.Fields(err.Error()), " ")
		}
		fmt.Printf("%s\t%s\t%s\t%d\t%d\n", words[0], status, value, began, time.Now().UnixMicro())
	}
}

// run does one command and returns its value. A thread's leases nest.
func (w *worker) run(thread, command string, args []string) (string, error) {
	ctx := context.Background()
	switch command {
	case "load":
		l, journal, err := parseLoad(args)
		if err != nil {
			return "", err
		}
		entries, err := l.run(ctx, w.locks, w.rdb)
		if err != nil {
			return "", err
		}
		return strconv.Itoa(len(entries)), writeJournal(journal, entries)
	case "lock":
		lease, err := w.locks.Mutex(args[0]).Lock(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.leases[thread+" "+args[0]] = lease
		return "", err
	case "rlock", "wlock":
		rw := w.locks.RWMutex(args[0])
		lock := rw.Lock
		if command == "rlock" {
			lock = rw.RLock
		}
		lease, err := lock(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.leases[thread+" "+args[0]] = lease
		return "", err
	case "reads":
		return w.reads(ctx, args)
	case "writes":
		return w.writes(ctx, args)
	case "unlock":
		w.mu.Lock()
		defer w.mu.Unlock()
		return "", w.leases[thread+" "+args[0]].Unlock(ctx)
	case "acquire":
		k, err := strconv.Atoi(args[1])
		if err != nil {
			return "", err
		}
		permit, err := w.locks.Semaphore(args[0], noSize).Acquire(ctx, k)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.leases[thread+" "+args[0]] = permit
		return "", err
	case "lost":
		w.mu.Lock()
		permit := w.leases[args[1]+" "+args[0]]
		w.mu.Unlock()
		<-permit.Context().Done()
		return "", context.Cause(permit.Context())
	}
	return "", fmt.Errorf("no command %s", command)
}

// reads has goroutines read under a read-write lock again and again: name, how many, microseconds of each, milliseconds that
// the lock lingers, milliseconds of all. It returns how often each did.
func (w *worker) reads(ctx context.Context, args []string) (string, error) {
	linger, err := strconv.Atoi(args[3])
	if err != nil {
		return "", err
	}
	rw := w.locks.RWMutex(args[0], relock.WithLinger(time.Duration(linger)*time.Millisecond))
	return again(ctx, rw.RDo, slices.Delete(args[1:], 2, 3))
}

// writes is reads for writers, which do not linger.
func (w *worker) writes(ctx context.Context, args []string) (string, error) {
	return again(ctx, w.locks.RWMutex(args[0]).Do, args[1:])
}

// again has goroutines do something again and again: how many, microseconds of each, milliseconds of all. It returns how often
// each did.
func again(ctx context.Context, do func(context.Context, func(context.Context) error) error, args []string) (string, error) {
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(args[i]); err != nil {
			return "", err
		}
	}
	end := time.Now().Add(time.Duration(n[2]) * time.Millisecond)
	counts, errs := make([]int, n[0]), make([]error, n[0])
	var wg sync.WaitGroup
	for i := range n[0] {
		wg.Go(func() {
			for errs[i] == nil && time.Now().Before(end) {
				errs[i] = do(ctx, func(context.Context) error {
					time.Sleep(time.Duration(n[1]) * time.Microsecond)
					return nil
				})
				counts[i]++
			}
		})
	}
	wg.Wait()
	return strings.Trim(fmt.Sprint(counts), "[]"), errors.Join(errs...)
}
