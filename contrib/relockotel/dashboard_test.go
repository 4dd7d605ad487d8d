package relockotel

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

const (
	dashboardFile = "dashboard.json"
	alertsFile    = "alerts.yml"
)

// panelQuery is what a panel of the dashboard asks Prometheus.
type panelQuery struct{ panel, expr string }

func dashboardQueries(t *testing.T) (all []panelQuery) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	require.NotEmpty(t, board.Panels)
	for _, p := range board.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		require.NotEmpty(t, p.Description, p.Title)
		for _, target := range p.Targets {
			all = append(all, panelQuery{panel: p.Title, expr: target.Expr})
		}
	}
	return all
}

// exposed are the names of series and of labels that Prometheus reads after each kind of event.
func exposed(t *testing.T) (series, labels map[string]bool) {
	t.Helper()
	registry := prometheus.NewRegistry()
	e, err := exporter.New(exporter.WithRegisterer(registry))
	require.NoError(t, err)
	o, err := New(WithMeterProvider(sdk.NewMeterProvider(sdk.WithReader(e))))
	require.NoError(t, err)
	for kind := relock.EventWaiting; kind <= relock.EventAbandoned; kind++ {
		o.Observe(relock.Event{Kind: kind, Lock: "order:1", LockKind: "mutex", How: relock.HowFree, Cause: relock.ErrLost})
	}
	quorum, err := relock.NewRedlock([]rueidis.Client{redistest.Start(t).Client()}, relock.WithObserver(o))
	require.NoError(t, err)
	defer quorum.Close()
	_, err = quorum.Mutex("k").TryLock(t.Context())
	require.NoError(t, err)
	families, err := registry.Gather()
	require.NoError(t, err)
	series, labels = map[string]bool{}, map[string]bool{}
	for _, f := range families {
		series[f.GetName()] = true
		for _, m := range f.Metric {
			if m.Histogram != nil {
				for _, end := range []string{"_bucket", "_sum", "_count"} {
					series[f.GetName()+end] = true
				}
			}
			for _, l := range m.Label {
				labels[l.GetName()] = true
			}
		}
	}
	return series, labels
}

var ours = regexp.MustCompile(`\brelock_\w+`)

// What the dashboard and the rules ask for is what the exporter tells.
func TestQueriesNameWhatIsTold(t *testing.T) {
	series, labels := exposed(t)
	asked := map[string]bool{}
	known := func(what, expr string) {
		found := ours.FindAllString(expr, -1)
		require.NotEmpty(t, found, what)
		for _, name := range found {
			require.True(t, series[name] || labels[name], "%s asks for %s", what, name)
			asked[name] = true
		}
	}
	for _, q := range dashboardQueries(t) {
		known(q.panel, q.expr)
	}
	for _, name := range []string{
		"relock_wait_duration_seconds_bucket", "relock_hold_duration_seconds_bucket", "relock_waiting", "relock_held",
		"relock_hold_oldest_age_seconds", "relock_lost_total", "relock_renewal_failures_total", "relock_nodes_down", "relock_commands_total",
	} {
		require.True(t, asked[name], "no panel shows %s", name)
	}
	rules, err := os.ReadFile(alertsFile)
	require.NoError(t, err)
	known(alertsFile, string(rules))
}
