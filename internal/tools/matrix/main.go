// Command matrix runs suites of tests against several servers, and prints the results as one table:
//
//	go run ./internal/tools/matrix [-core] [-race] [-only root,command] [-at-once 6] SERVER...
//
// A SERVER is the path of a redis-server or valkey-server. The command fails if a test fails, or a
// suite runs no test.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// A suite is tests of one module.
type suite struct {
	name     string
	dir      string
	packages func() ([]string, error)
	core     string // which of its tests show how servers differ; "" for all
	only     string // which of its tests to run; "" for all
}

// A core run has the tests of what servers differ in: rights, the texts of errors, channels,
// Cluster and Sentinel.
var suites = []suite{
	{name: "root", dir: ".", packages: onRedis, core: "Forbidden|Rights|Right[A-Z]|Refus(ed|al|ing)|Kinds?[A-Z]|Cluster|Sentinel|Replicas|" +
		"OutOfMemory|WrongType|Replies|Driver|EveryRedis|Subscri|Channels|Mode[A-Z]|Scripts|Withdrawn"},
	{name: "simulator", dir: "internal/sim", packages: here("."), core: "Words|Commands|Rights|PubSub|Login|Locks"},
	{name: "go-redis", dir: "contrib/relockgoredis", packages: here("./..."), core: "EveryRedis|Cluster|Driver|Refused"},
	{name: "valkey-go", dir: "contrib/relockvalkey", packages: here("./..."), core: "EveryRedis|Driver|Refused"},
	{name: "command", dir: "cmd/relock", packages: here("./..."), core: "Connect|Cluster|Ls|Refused"},
	{name: "integration", dir: "integration", packages: here("./..."),
		core: "Sentinel|Cluster|Unreachable|NoAuth|WrongPassword|NoPermission|WrongType|Replica|Loading|OutOfMemory|SlotOnTheMove"},
	{name: "interop", dir: "interop", packages: here("./..."), only: "OneLock|Fencing|ReadWrite|WakeUps|Crashe|Sentinel"},
}

// here returns a function that returns patterns: they name the packages of a suite from its
// directory.
func here(patterns ...string) func() ([]string, error) {
	return func() ([]string, error) { return patterns, nil }
}

// onRedis returns the packages of the library whose tests start a Redis, except the tools, which
// only build programs.
func onRedis() ([]string, error) {
	out, err := exec.Command("go", "list", "-test", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var list []string
	for line := range strings.Lines(string(out)) {
		path, deps, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, isTest := strings.CutSuffix(path, ".test")
		if isTest && slices.Contains(strings.Fields(deps), "github.com/relock-go/relock/internal/redistest") && !strings.Contains(path, "/internal/tools/") {
			list = append(list, path)
		}
	}
	return list, nil
}

// A result is what a suite did on a server.
type result struct {
	passed, skipped int
	failed          []string
	took            time.Duration
	err             error
}

func (r *result) ok() bool { return r.err == nil && len(r.failed) == 0 && r.passed > 0 }

func (r *result) String() string {
	took := fmt.Sprintf("%.1f min", r.took.Minutes())
	switch {
	case len(r.failed) > 0:
		return fmt.Sprintf("**%s**, %s", strings.Join(r.failed, ", "), took)
	case r.err != nil:
		return fmt.Sprintf("**%v**, %s", r.err, took)
	case r.passed == 0:
		return "**no test ran**"
	case r.skipped > 0:
		return fmt.Sprintf("%d, %d skipped, %s", r.passed, r.skipped, took)
	}
	return fmt.Sprintf("%d, %s", r.passed, took)
}

// A run is a suite on a server, and what its failing tests printed.
type run struct {
	result *result
	log    bytes.Buffer
}

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// run runs a suite against a server. What failing tests print goes to log.
func (s *suite) run(server string, core, race bool, log io.Writer) *result {
	began, r := time.Now(), &result{}
	defer func() { r.took = time.Since(began) }()
	packages, err := s.packages()
	if err != nil {
		r.err = err
		return r
	}
	args := []string{"test", "-json", "-count=1", "-timeout", "20m"}
	if race {
		args = append(args, "-race")
	}
	if only := s.chosen(core); only != "" {
		args = append(args, "-run", only)
	}
	cmd := exec.Command("go", append(args, packages...)...)
	var said bytes.Buffer // apart from what read writes
	cmd.Dir, cmd.Stderr = s.dir, &said
	cmd.Env = append(os.Environ(), redistest.ServerEnv+"="+server)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.err = err
		return r
	}
	r.read(out, log)
	if err := cmd.Wait(); err != nil && len(r.failed) == 0 {
		r.err = errors.New("go test: " + err.Error())
	}
	_, _ = said.WriteTo(log)
	return r
}

// chosen returns which tests to run, "" for all.
func (s *suite) chosen(core bool) string {
	if core && s.core != "" {
		return s.core
	}
	return s.only
}

// read counts the tests in the stream of go test -json, without subtests. It copies to log what
// failing tests and packages print.
func (r *result) read(from io.Reader, log io.Writer) {
	printed := map[string][]string{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(log, lines.Text())
			continue
		}
		top, _, below := strings.Cut(e.Test, "/")
		key := e.Package + " " + top
		switch {
		case e.Action == "output":
			printed[key] = append(printed[key], e.Output)
		case e.Action == "build-output":
			fmt.Fprint(log, e.Output)
		case below:
		case e.Action == "fail":
			if e.Test == "" && slices.ContainsFunc(r.failed, func(name string) bool { return strings.HasPrefix(name, filepath.Base(e.Package)+".") }) {
				break // the package failed with its test
			}
			r.failed = append(r.failed, strings.TrimSuffix(filepath.Base(e.Package)+"."+e.Test, "."))
			fmt.Fprint(log, strings.Join(printed[key], ""))
		case e.Test == "":
		case e.Action == "pass":
			r.passed++
		case e.Action == "skip":
			r.skipped++
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			if !below {
				delete(printed, key)
			}
		}
	}
	if err := lines.Err(); err != nil {
		r.err = err
	}
}

// named returns what a server says that it is, as in "Redis 7.0.15".
func named(server string) (string, error) {
	out, err := exec.Command(server, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", server, err)
	}
	words := strings.Fields(string(out)) // Redis server v=7.0.15 ...
	if len(words) < 3 || !strings.HasPrefix(words[2], "v=") {
		return "", fmt.Errorf("%s --version: no version in %q", server, out)
	}
	return words[0] + " " + strings.TrimPrefix(words[2], "v="), nil
}

func main() {
	core := flag.Bool("core", false, "run what servers differ in, and nothing else")
	only := flag.String("only", "", "the suites to run, with commas; all but interop where it is empty")
	race := flag.Bool("race", false, "under the race detector")
	atOnce := flag.Int("at-once", 1, "suites that run at the same time, on one server after the other")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: matrix [-core] [-race] [-only SUITE,...] [-at-once N] SERVER...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ok, err := matrix(flag.Args(), *only, *core, *race, max(1, *atOnce))
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// matrix runs the suites and prints the table. It reports whether all passed.
func matrix(servers []string, only string, core, race bool, atOnce int) (bool, error) {
	var wanted []suite
	for _, s := range suites {
		if only == "" && s.only == "" || slices.Contains(strings.Split(only, ","), s.name) {
			wanted = append(wanted, s)
		}
	}
	if n := len(strings.Split(only, ",")); only != "" && n != len(wanted) {
		return false, fmt.Errorf("-only %s: there is no such suite", only)
	}
	names, rows, ok := []string{"suite"}, make([][]string, len(wanted)), true
	for i, server := range servers {
		path, err := exec.LookPath(server)
		if err != nil {
			return false, err
		}
		if servers[i], err = filepath.Abs(path); err != nil {
			return false, err
		}
		name, err := named(servers[i])
		if err != nil {
			return false, err
		}
		names = append(names, name)
	}
	runs, ended, together := make([][]run, len(servers)), make([]sync.WaitGroup, len(servers)), make(chan struct{}, atOnce)
	for i := range servers {
		runs[i] = make([]run, len(wanted))
		ended[i].Add(len(wanted))
	}
	go func() { // in this order: a server's last suite does not keep the next server's from beginning
		for i, server := range servers {
			for j := range wanted {
				together <- struct{}{}
				go func() {
					defer ended[i].Done()
					runs[i][j].result = wanted[j].run(server, core, race, &runs[i][j].log)
					<-together
				}()
			}
		}
	}()
	for i := range servers {
		ended[i].Wait()
		for j := range runs[i] {
			r := &runs[i][j]
			fmt.Fprintf(os.Stderr, "%s%s, %s: %v\n", r.log.String(), names[i+1], wanted[j].name, r.result)
			rows[j] = append(rows[j], r.result.String())
			ok = ok && r.result.ok()
		}
	}
	fmt.Printf("| %s |\n|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for j, row := range rows {
		fmt.Printf("| %s | %s |\n", wanted[j].name, strings.Join(row, " | "))
	}
	return ok, nil
}
