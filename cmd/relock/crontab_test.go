//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// onPath is a PATH on which relock run uses the server: the tests' processes start without the variables.
func onPath(t *testing.T, srv *redistest.Server) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nshift\nexec %s run -redis %s \"$@\"\n", os.Args[0], srv.Addr())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "relock"), []byte(script), 0o700))
	return "PATH=" + dir + ":/bin:/usr/bin"
}

// The crontab lines of the documents run their job once, and say nothing on a host that comes second: cron would mail it.
func TestCrontabLines(t *testing.T) {
	srv := redistest.Start(t)
	env := []string{onPath(t, srv)}
	line := regexp.MustCompile(`(?m)^[0-9*/]+ [0-9*]+ \* \* \* +(relock run .* --) /`)
	for name, count := range map[string]int{"cli.md": 2, "recipes.md": 1} {
		text := document(t, name)
		require.Contains(t, text, "\nRELOCK_REDIS=redis://redis.example.org:6379\nRELOCK_PASSWORD_FILE=/etc/relock/password\n")
		lines := line.FindAllStringSubmatch(text, -1)
		require.Len(t, lines, count, name)
		for _, l := range lines {
			host := func() string {
				cmd := exec.Command("/bin/sh", "-c", l[1]+" echo ran")
				cmd.Env = env
				said, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s: %s", l[0], said)
				return string(said)
			}
			require.Equal(t, "ran\n", host(), l[0])
			require.Empty(t, host(), l[0])
		}
	}
}

// cronJob is what a recipe's manifest must say.
type cronJob struct {
	Kind string
	Spec struct {
		StartingDeadlineSeconds int `yaml:"startingDeadlineSeconds"`
		JobTemplate             struct {
			Spec struct {
				BackoffLimit     int `yaml:"backoffLimit"`
				PodFailurePolicy struct {
					Rules []struct {
						Action      string
						OnExitCodes struct {
							ContainerName, Operator string
							Values                  []int
						} `yaml:"onExitCodes"`
					}
				} `yaml:"podFailurePolicy"`
				Template struct {
					Spec struct {
						RestartPolicy string `yaml:"restartPolicy"`
						Containers    []struct {
							Name          string
							Command, Args []string
							Env           []struct{ Name, Value string }
						}
					}
				}
			}
		} `yaml:"jobTemplate"`
	}
}

// The CronJob of docs/recipes.md runs its command in one pod. A retry may follow the one status of a run that did not start,
// since after any other it would end well.
func TestCronJob(t *testing.T) {
	_, text, found := strings.Cut(document(t, "recipes.md"), "```yaml\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "```")
	var job cronJob
	require.NoError(t, yaml.Unmarshal([]byte(text), &job))
	spec := job.Spec.JobTemplate.Spec
	require.Equal(t, "CronJob", job.Kind)
	require.Equal(t, "Never", spec.Template.Spec.RestartPolicy, "Kubernetes takes a podFailurePolicy with no other")
	require.Positive(t, spec.BackoffLimit)
	require.Len(t, spec.PodFailurePolicy.Rules, 1)
	rule := spec.PodFailurePolicy.Rules[0]
	require.Equal(t, "FailJob", rule.Action)
	require.Equal(t, "NotIn", rule.OnExitCodes.Operator)
	require.Equal(t, []int{statusBroken}, rule.OnExitCodes.Values)
	require.Len(t, spec.Template.Spec.Containers, 1)
	container := spec.Template.Spec.Containers[0]
	at := slices.Index(container.Command, "-at-least")
	require.Positive(t, at)
	atLeast, err := time.ParseDuration(container.Command[at+1])
	require.NoError(t, err)
	require.Less(t, time.Duration(job.Spec.StartingDeadlineSeconds)*time.Second, atLeast, "a cluster that is late runs it again")
	require.NotEmpty(t, container.Args)
	for _, env := range container.Env {
		require.True(t, slices.Contains(passwords, env.Name) || env.Name == variables["redis"], env.Name)
	}

	srv := redistest.Start(t)
	cluster := []string{onPath(t, srv)}
	pod := func(lock string, command ...string) (int, string) {
		args := append(slices.Clone(container.Command), command...)
		args[slices.Index(args, "nightly")] = lock
		cmd := exec.Command("/bin/sh", append([]string{"-c", `exec "$@"`, "sh"}, args...)...)
		cmd.Env = cluster
		said, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.True(t, err == nil || errors.As(err, &exit), "%v", err)
		return cmd.ProcessState.ExitCode(), string(said)
	}
	expect := func(status int, said string, lock string, command ...string) {
		t.Helper()
		got, text := pod(lock, command...)
		require.Equal(t, status, got, text)
		require.Equal(t, said, text)
	}
	expect(0, "ran\n", "one", "echo", "ran")
	expect(0, "", "one", "echo", "ran in another cluster")
	expect(7, "", "two", "sh", "-c", "exit 7")
	expect(0, "", "two", "sh", "-c", "exit 7")
	srv.Kill()
	got, _ := pod("three", "echo", "ran")
	require.Equal(t, statusBroken, got)
}
