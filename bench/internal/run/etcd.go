package run

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/relock-go/relock/bench/internal/peer"
	"github.com/relock-go/relock/internal/redistest"
)

// etcd is the server of etcd's own locks.
type etcd struct {
	addr  string
	title string
	close func()
}

func needsEtcd(s peer.Spec) bool { return s.NeedsEtcd }

// findEtcd connects to the etcd given, or starts the one in PATH. Without either its peers are left out, as they are of
// a quick run that did not ask for them.
func (r *runner) findEtcd(ctx context.Context) {
	wanted := false
	for _, s := range r.specs {
		wanted = wanted || s.NeedsEtcd
	}
	if !wanted {
		return
	}
	if r.cfg.Quick && r.cfg.Etcd == "" && len(r.cfg.Peers) == 0 {
		r.leaveOut("a quick run starts no etcd of its own; -etcd or -peers etcd measures it", needsEtcd)
		return
	}
	e := &etcd{addr: r.cfg.Etcd, close: func() {}}
	if e.addr == "" {
		path, err := exec.LookPath("etcd")
		if err != nil {
			r.leaveOut("no etcd was given (-etcd host:port, RELOCK_ETCD) and none is in PATH", needsEtcd)
			return
		}
		if err := e.start(path); err != nil {
			r.leaveOut(err.Error(), needsEtcd)
			return
		}
	}
	if err := e.connect(ctx); err != nil {
		e.close()
		r.leaveOut(err.Error(), needsEtcd)
		return
	}
	r.etcd = e
}

// start runs an etcd of one member with default options on free ports.
func (e *etcd) start(path string) (err error) {
	h := &host{}
	e.close = h.close
	defer func() {
		if f, ok := recover().(failure); ok {
			err = f.error
		}
	}()
	dir := h.TempDir()
	e.addr = fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(h))
	client := url.URL{Scheme: "http", Host: e.addr}
	member := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(h))}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(path, "--data-dir", filepath.Join(dir, "data"), "--name", "bench",
		"--listen-client-urls", client.String(), "--advertise-client-urls", client.String(),
		"--listen-peer-urls", member.String(), "--initial-advertise-peer-urls", member.String(),
		"--initial-cluster", "bench="+member.String(), "--log-level", "error")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	h.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return nil
}

// connect waits until etcd answers and notes its version.
func (e *etcd) connect(ctx context.Context) error {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{e.addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return fmt.Errorf("etcd at %s: %w", e.addr, err)
	}
	defer c.Close()
	limit := time.Now().Add(10 * time.Second)
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		status, err := c.Status(try, e.addr)
		cancel()
		if err == nil && len(status.Errors) == 0 {
			e.title = "etcd " + status.Version
			return nil
		}
		if ctx.Err() != nil || time.Now().After(limit) {
			return fmt.Errorf("etcd at %s does not answer: %s", e.addr, strings.TrimSpace(fmt.Sprint(err)))
		}
		if err := sleepUntil(ctx, time.Now().Add(50*time.Millisecond)); err != nil {
			return err
		}
	}
}
