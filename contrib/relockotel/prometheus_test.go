package relockotel

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// needs returns the path of a program of Prometheus.
func needs(t *testing.T, program string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: goes without Prometheus")
	}
	path, err := exec.LookPath(program)
	require.NoError(t, err, "make prometheus installs it, -short goes without")
	return path
}

func TestRules(t *testing.T) {
	promtool := needs(t, "promtool")
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", "alerts_test.yml"}} {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	tests, err := os.ReadFile("alerts_test.yml")
	require.NoError(t, err)
	for _, found := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(readRules(t), -1) {
		fires := regexp.MustCompile(`alertname: ` + found[1] + `\n +eval_time: \w+\n +exp_alerts:`)
		require.Regexp(t, fires, string(tests), "no test sees it fire")
		require.Contains(t, string(tests), "{alertname: "+found[1]+", eval_time:", "no test sees it quiet")
	}
}

func readRules(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	require.NoError(t, err)
	return string(text)
}

// program is a process that says where it listens.
type program struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	said strings.Builder // guarded by mu
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *program) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// begin starts a program that the test's end ends, and returns what it says where it listens.
func begin(t *testing.T, listens *regexp.Regexp, path string, args ...string) (p *program, where string) {
	t.Helper()
	p = &program{cmd: exec.Command(path, args...)}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", path, p.output())
		}
	})
	require.Eventually(t, func() bool {
		found := listens.FindStringSubmatch(p.output())
		if found != nil {
			where = found[1]
		}
		return found != nil
	}, 4*patience, 10*time.Millisecond, "%s does not say where it listens", path)
	return p, where
}

// builtRelock is the tree's command.
func builtRelock(t *testing.T) string {
	t.Helper()
	relock := filepath.Join(t.TempDir(), "relock")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", relock, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "relock")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return relock
}

const prometheusConfig = `
global: {scrape_interval: 250ms, evaluation_interval: 250ms}
rule_files: [%q]
scrape_configs:
  - job_name: demo
    static_configs: [{targets: [%q]}]
`

// startPrometheus returns the URL of a Prometheus that reads from target.
func startPrometheus(t *testing.T, target string) string {
	t.Helper()
	prometheus, dir := needs(t, "prometheus"), t.TempDir()
	rules, err := filepath.Abs(alertsFile)
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, prometheusConfig, rules, target), 0o600))
	_, where := begin(t, regexp.MustCompile(`msg="?Listening on"? address=(\S+)`), prometheus, "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	return "http://" + where
}

// answer is what Prometheus answers to an instant query.
type answer struct {
	Status string
	Error  string
	Data   struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any // time and number
		}
	}
}

// get returns what Prometheus answers, "" while it has only begun.
func get(t *testing.T, at string) string {
	t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Get(at)
	if err != nil {
		return ""
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	if got.StatusCode == http.StatusServiceUnavailable {
		return ""
	}
	return string(text)
}

func ask(t *testing.T, prometheus, expr string) (a answer) {
	t.Helper()
	text := get(t, prometheus+"/api/v1/query?query="+url.QueryEscape(expr))
	if text == "" {
		return a
	}
	require.NoError(t, json.Unmarshal([]byte(text), &a), text)
	require.Equal(t, "success", a.Status, "%s: %s", expr, a.Error)
	return a
}

// answered reports whether there are series, and all are numbers.
func (a answer) answered() bool {
	for _, r := range a.Data.Result {
		if n, ok := r.Value[1].(string); !ok || n == "NaN" {
			return false
		}
	}
	return len(a.Data.Result) > 0
}

// variables are what Grafana puts into queries.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$lock", ".*", "$job", ".*")

// A Prometheus reads from relock demo -otel, and has an answer to each query of the dashboard. The demo is stopped once
// all is answered.
func TestPrometheusAndTheDemo(t *testing.T) {
	needs(t, "prometheus")
	rules := readRules(t)
	_, metrics := begin(t, regexp.MustCompile(`metrics at http://(\S+)/metrics`), builtRelock(t),
		"demo", "-for", "5m", "-otel", "127.0.0.1:0")
	prometheus := startPrometheus(t, metrics)
	for _, q := range dashboardQueries(t) {
		var last answer
		require.Eventually(t, func() bool {
			last = ask(t, prometheus, variables.Replace(q.expr))
			return last.answered()
		}, 4*patience, 50*time.Millisecond, "%s: %s: %v", q.panel, q.expr, &last)
	}
	require.Eventually(t, func() bool {
		return strings.Count(get(t, prometheus+"/api/v1/rules"), `"health":"ok"`) == strings.Count(rules, "- alert:")
	}, 4*patience, 50*time.Millisecond, "it evaluates all rules")
}
