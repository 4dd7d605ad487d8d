package run

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/bench/internal/peer"
)

// relockPeer is the peer that takes part as it was at earlier commits.
const relockPeer = "relock"

// buildEarlier adds relock as it was at each git ref asked for: the bench of that commit is built, and its worker does
// what the worker of this one does. Ratios between the two then come from one run.
func (r *runner) buildEarlier(ctx context.Context) error {
	now := func(s peer.Spec) bool { return s.Name == relockPeer }
	for _, ref := range r.cfg.Earlier {
		i := slices.IndexFunc(r.cfg.Specs, now)
		if i < 0 {
			return fmt.Errorf("there is no peer %s to build at %s", relockPeer, ref)
		}
		s, err := r.earlierSpec(ctx, r.cfg.Specs[i], ref)
		if err != nil {
			return fmt.Errorf("relock at %s: %w", ref, err)
		}
		r.earlier[s.Name] = &pool{command: s.Worker}
		r.specs = slices.Insert(r.specs, slices.IndexFunc(r.specs, now)+1, s)
	}
	return nil
}

func (r *runner) earlierSpec(ctx context.Context, s peer.Spec, ref string) (peer.Spec, error) {
	commit, err := git(ctx, "rev-parse", "--verify", "--quiet", ref+"^{commit}")
	if err != nil {
		return s, fmt.Errorf("the git repository of the current directory has no such commit")
	}
	if r.cfg.Progress != nil {
		fmt.Fprintf(r.cfg.Progress, "building the bench of %s\n", ref)
	}
	program := filepath.Join(r.dir, "worker-"+commit)
	if err := r.build(ctx, commit, program); err != nil {
		return s, err
	}
	s.Name, s.Known, s.Version = relockPeer+"@"+ref, relockPeer, commit[:10]
	s.Baseline = true // nobody can choose it: today's relock does not compete with it
	s.Setup = "relock as it was at " + ref + ", in a worker built from that commit"
	s.Worker = []string{program}
	return s, nil
}

// build makes the bench of a commit, in a work tree that is gone afterwards.
func (r *runner) build(ctx context.Context, commit, program string) error {
	tree := filepath.Join(r.dir, "tree-"+commit)
	if _, err := git(ctx, "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = git(ctx, "worktree", "remove", "--force", tree)
	}()
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", program, ".")
	cmd.Dir = filepath.Join(tree, "bench")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("its bench cannot be built: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// git runs a command of git and returns what it wrote.
func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, text)
	}
	return text, nil
}
