package run

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/bench/internal/peer"
	"github.com/relock-go/relock/bench/internal/results"
)

// describe fills in where the run takes place and who takes part.
func (r *runner) describe(ctx context.Context) error {
	m := &r.report.Machine
	m.OS, m.Arch, m.Cores, m.Go = runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()
	m.CPU = procField("/proc/cpuinfo", "model name")
	if m.CPU == "" {
		m.CPU = "CPU unknown"
	}
	kib, _, _ := strings.Cut(procField("/proc/meminfo", "MemTotal"), " ")
	if n, err := strconv.ParseInt(kib, 10, 64); err == nil {
		m.MemoryMB = n / 1024
	}
	m.Redis = r.server.title
	var err error
	if m.RTTMicros, err = roundTrip(ctx, r.server.url); err != nil {
		return err
	}
	if r.etcd != nil {
		m.Etcd = r.etcd.title
	}
	r.report.Schema, r.report.Command = results.Schema, r.cfg.Command
	r.report.Time = time.Now().UTC().Truncate(time.Second)
	r.report.Mode = "full"
	if r.cfg.Quick {
		r.report.Mode = "quick"
	}
	if r.server.embedded {
		r.note("no redis-server was found: the figures are of an embedded stand-in, for a look only")
	}
	for _, s := range r.specs {
		p := results.Peer{Name: s.Name, Setup: s.Setup, Version: peer.Version(s.Module)}
		switch {
		case s.JVM != "":
			p.Version = redissonVersion(r.cfg.Java)
		case s.Version != "":
			p.Version = s.Version
		}
		r.report.Peers = append(r.report.Peers, p)
	}
	return nil
}

// procField returns a field of a file in Linux's /proc, "" elsewhere.
func procField(path, field string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
