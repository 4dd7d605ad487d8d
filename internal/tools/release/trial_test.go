package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// A program is run, vetted or tested, and prints something.
type program struct {
	name   string // testdata/NAME.go.txt
	test   bool   // it is a test
	prints string
}

// programs are those that pages show.
var programs = map[string]program{
	"README.md":                       {name: "readme", prints: "saved order 42 true\n"},
	"contrib/relockgoredis/README.md": {name: "relockgoredis", prints: "locked true\n"},
	"contrib/relockvalkey/README.md":  {name: "relockvalkey", prints: "locked true\n"},
	"contrib/relockotel/README.md":    {name: "relockotel", prints: "locked true\n"},
	"contrib/relocktest/README.md":    {name: "relocktest", test: true, prints: "ok"},
	"contrib/relockui/README.md":      {name: "relockui", prints: "200 OK\n"},
	"contrib/relockgocron/README.md":  {name: "relockgocron", prints: "ran true\n"},
}

// try has a stranger follow a page: its lines of the go command, and its first program.
func try(s *stranger, name string, page func(string) string, redis string) error {
	for _, line := range lines(page(name)) {
		err := s.follow(line, "-for 10m", "-for 4s -otel-for 1ms", "localhost:9464", "localhost:0")
		if err != nil {
			return fmt.Errorf("%s: %s: %w", name, line, err)
		}
	}
	p, has := programs[name]
	if !has {
		return nil
	}
	file, args := "main.go", []string{"run", ".", redis}
	if p.test {
		file, args = "main_test.go", []string{"test", "-count=1", "."}
	}
	if err := s.program(p.name, file, page, "localhost:6379", redis); err != nil {
		return err
	}
	out, err := s.run("go", args...)
	if err == nil && !strings.HasPrefix(out, p.prints) {
		err = fmt.Errorf("printed %q", out)
	}
	if err != nil {
		return fmt.Errorf("the first program of %s: %w", name, err)
	}
	return nil
}

// Strangers get what is released, and it does what the pages say. Both versions' clients share a Redis.
func TestStrangersUseTheRelease(t *testing.T) {
	t.Parallel()
	p, redis := publish(t), redistest.Start(t)
	t.Logf("%s after %s", p.version, p.last)
	page := func(name string) string { return string(p.tree.read(name)) }
	pages := strings.Fields(git(t, p.tree, "ls-files", "--", "*.md"))

	// The longest first.
	t.Run("examples", func(t *testing.T) { t.Parallel(); p.examples(t, page, redis.Addr()) })
	t.Run("upgrade", func(t *testing.T) { t.Parallel(); p.upgrade(t) })
	for name := range programs {
		require.Contains(t, pages, name)
	}
	tried := 0
	for _, name := range pages {
		if name != "README.md" && !strings.HasPrefix(name, "contrib/") && lines(page(name)) == nil {
			continue
		}
		tried++
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			require.Contains(t, append(slices.Collect(maps.Keys(programs)), "docs/testing.md", "docs/recipes.md"), name, "its first program is not run")
			require.NoError(t, try(p.arrive(t), name, page, redis.Addr()))
		})
	}
	require.GreaterOrEqual(t, tried, len(programs)+2)
	t.Run("the kit's guide", func(t *testing.T) { t.Parallel(); p.guide(t, page) })
	t.Run("Prometheus", func(t *testing.T) { t.Parallel(); p.prometheus(t) })
	t.Run("the command", func(t *testing.T) { t.Parallel(); p.command(t, page) })
	t.Run("what weighs", func(t *testing.T) { t.Parallel(); p.weight(t, page) })
	t.Run("sabotage", func(t *testing.T) { t.Parallel(); p.sabotage(t, page, redis.Addr()) })
}

// guide follows docs/testing.md up to the tests of its sample service. They bring nothing into the program.
func (p *public) guide(t *testing.T, page func(string) string) {
	s := p.arrive(t)
	for _, name := range []string{"payouts.go", "payouts_test.go"} {
		s.write(name, page("contrib/relocktest/example/"+name))
	}
	for _, line := range lines(page("docs/testing.md")) {
		require.NoError(t, s.follow(line))
	}
	_, err := s.run("go", "test", "-count=1", ".")
	require.NoError(t, err)
	for want, args := range map[string][]string{
		embeddedLua: {"list", "-deps", "."},
		"porcupine": {"list", "-deps", "-test", "."}, // the simulation's own judge
	} {
		out, err := s.run("go", args...)
		require.NoError(t, err)
		require.NotContains(t, out, want)
	}
}

// prometheus compiles the whole program that relockotel's page points at, which takes a bit more than the page's go get.
func (p *public) prometheus(t *testing.T) {
	s := p.arrive(t)
	s.write("example_test.go", string(p.tree.read("contrib/relockotel/example_test.go")))
	_, err := s.run("go", "get", root+"/contrib/relockotel")
	require.NoError(t, err)
	_, err = s.run("go", "vet", "-mod=mod", ".")
	require.NoError(t, err)
	require.NoError(t, s.has())
}

const (
	embeddedRedis = "github.com/alicebob/miniredis"
	embeddedLua   = "github.com/yuin/gopher-lua"
)

// weight checks that the library brings no other module's dependencies.
func (p *public) weight(t *testing.T, page func(string) string) {
	s := p.arrive(t)
	require.NoError(t, s.program("readme", "main.go", page))
	for _, line := range lines(page("README.md")) {
		if strings.HasPrefix(line, "go get ") {
			require.NoError(t, s.follow(line))
		}
	}
	graph, err := s.run("go", "mod", "graph")
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(s.dir, "go.sum"))
	require.NoError(t, err)
	for what, text := range map[string]string{"go.sum": string(sums), "module graph": graph} {
		require.Contains(t, text, root, what)
		require.NotContains(t, text, embeddedRedis, what)
		require.NotContains(t, text, embeddedLua, what)
	}
}

// command runs the demo, installed and in a clone.
func (p *public) command(t *testing.T, page func(string) string) {
	require.Contains(t, page("README.md"), "\nrelock demo\n")
	require.Contains(t, page("README.md"), "\ngo run ./cmd/relock demo\n")
	s := p.arrive(t)
	require.NoError(t, s.follow("go install "+root+"/cmd/relock@latest"))
	out, err := s.run(filepath.Join(s.dir, "bin", "relock"), "demo", "-for", "4s")
	require.NoError(t, err)
	t.Log(out)
	clone := s.clone()
	clone.env = append(clone.env, "GOWORK=", "GOMODCACHE=") // the workspace's modules are on the machine
	out, err = clone.run("go", "run", "./cmd/relock", "demo", "-for", "4s")
	require.NoError(t, err)
	t.Log(out)
}

// clone returns the stranger in a clone of the release.
func (s *stranger) clone() *stranger {
	s.t.Helper()
	_, err := s.run("git", "clone", "--quiet", "--branch", s.p.version, "https://"+root)
	require.NoError(s.t, err)
	clone := *s
	clone.dir = filepath.Join(s.dir, "relock")
	return &clone
}

// quick are the examples, with flags by which they take little time. The service runs until it is told to end.
var quick = map[string][]string{
	"service":       nil,
	"scheduler":     {"-ticks", "3", "-kill", "2"},
	"leader":        {"-rounds", "1", "-lease", "1s"},
	"handover":      {"-lease", "1s", "-takes", "500ms"},
	"migration":     {"-for", "500ms"},
	"fencedredis":   {"-rounds", "1"},
	"fencedservice": {"-rounds", "1"},
	"fencedsql":     {"-rounds", "1"},
}

// examples builds the examples with what is released in place of what lies beside them, and runs each.
func (p *public) examples(t *testing.T, page func(string) string, redis string) {
	var named []string
	for _, match := range regexp.MustCompile("`go run ./examples/(\\w+)`").FindAllStringSubmatch(page("examples/README.md"), -1) {
		named = append(named, match[1])
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(quick)), named)
	s := p.arrive(t).clone()
	s.dir = filepath.Join(s.dir, "examples")
	for _, m := range []string{"", "/contrib/relockgoredis", "/contrib/relockotel", "/contrib/relocktest", "/internal/sim"} {
		_, err := s.run("go", "mod", "edit", "-dropreplace", root+m)
		require.NoError(t, err)
	}
	_, err := s.run("go", "build", "-mod=mod", "-buildvcs=false", "-ldflags=-s -w", "-o", "../bin/", "./...")
	require.NoError(t, err)
	for name, flags := range quick {
		at := filepath.Join(filepath.Dir(s.dir), "bin", name)
		require.NoError(t, s.installed(at))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stranger{t: t, p: p, dir: t.TempDir(), env: s.env}
			if name == "service" {
				s.serve(at)
				return
			}
			_, err := s.run(at, append(flags, "-redis", "redis://"+redis)...)
			require.NoError(t, err)
		})
	}
}

// serve starts the service on a Redis of its own, asks it for something, and ends it.
func (s *stranger) serve(at string) {
	addr := fmt.Sprint("localhost:", redistest.FreePort(s.t))
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, at, "-addr", addr)
	cmd.Env, cmd.Stderr = s.env, &errs
	require.NoError(s.t, cmd.Start())
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			break
		}
		require.NoError(s.t, ctx.Err(), &errs)
		time.Sleep(10 * time.Millisecond) // another process begins to listen
	}
	answer, err := http.Get("http://" + addr + "/metrics")
	require.NoError(s.t, err)
	answer.Body.Close()
	require.Equal(s.t, http.StatusOK, answer.StatusCode)
	require.NoError(s.t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(s.t, cmd.Wait(), &errs)
}
