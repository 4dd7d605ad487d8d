package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/semver"
)

// sabotage breaks what the trial is to tell, in copies of the release. What the tool refuses by itself is in
// TestWhatIsNotReleased.
func (p *public) sabotage(t *testing.T, page func(string) string, redis string) {
	t.Run("a program that does not compile", func(t *testing.T) {
		t.Parallel()
		broken := func(name string) string { return strings.ReplaceAll(page(name), "relock.New(rdb)", "relock.Open(rdb)") }
		err := try(p.arrive(t), "README.md", broken, redis)
		require.ErrorContains(t, err, "the first program of README.md: ")
		require.ErrorContains(t, err, "undefined: relock.Open")
	})
	t.Run("modules tagged by hand", func(t *testing.T) {
		t.Parallel()
		byHand := p.byHand(t)
		err := byHand.arrive(t).follow("go get " + root + "/contrib/relockui@latest")
		require.ErrorContains(t, err, root+" is "+p.version+", not "+byHand.version+": a module still asks for that")
		err = byHand.arrive(t).follow("go install " + root + "/cmd/relock@latest")
		require.ErrorContains(t, err, "replace")
	})
	t.Run("a signature", func(t *testing.T) {
		t.Parallel()
		copied := p.copied(t, p.tree.dir)
		edit(t, copied, "contrib/relockui/options.go", "func WithForce() Option {", "func WithForce(_ ...bool) Option {")
		edit(t, copied, "CHANGELOG.md", "\n## ", "\n## Unreleased ("+successors(p.version)[0]+")\n\nA fix.\n\n## ")
		git(t, copied, "commit", "--quiet", "--all", "--message", "A fix")
		_, err := release(t.Context(), copied.dir, successors(p.version)[0], day)
		require.ErrorContains(t, err, "breaks programs: WithForce: changed from")
		edit(t, copied, "docs/api/relockui.txt", "func WithForce() Option", "func WithForce(_ ...bool) Option")
		git(t, copied, "commit", "--quiet", "--all", "--message", "Recorded")
		_, err = release(t.Context(), copied.dir, successors(p.version)[0], day)
		require.ErrorContains(t, err, "relockui.WithForce: changed from")
		told := "a patch release may not break programs"
		if semver.Major(p.version) != "v0" {
			told = "no release from v1.0 on may break programs"
		}
		require.ErrorContains(t, err, "since "+p.version+": "+told)
	})
}

// byHand is the repository with one more release, tagged without the tool: the page's module still asks for the release
// before, and the command replaces the library.
func (p *public) byHand(t *testing.T) *public {
	t.Helper()
	copied := p.copied(t, p.bare)
	version := successors(p.version)[0]
	mods, err := copied.modules()
	require.NoError(t, err)
	require.NoError(t, mods.set(version))
	edit(t, copied, "contrib/relockui/go.mod", root+" "+version, root+" "+p.version)
	edit(t, copied, "cmd/relock/go.mod", "\ngo ", "\nreplace "+root+" => ../..\n\ngo ")
	git(t, copied, "commit", "--quiet", "--all", "--message", "By hand")
	for _, tag := range tagsOf(mods, version) {
		git(t, copied, "tag", tag)
	}
	return &public{bare: filepath.Join(copied.dir, ".git"), tree: copied, version: version, proxies: p.proxies, mods: filepath.Join(t.TempDir(), "mod")}
}

// copied is a clone of a copy of the repository.
func (p *public) copied(t *testing.T, of string) tree {
	t.Helper()
	copied := tree{t.Context(), filepath.Join(t.TempDir(), "relock")}
	git(t, tree{t.Context(), filepath.Dir(copied.dir)}, "clone", "--quiet", "--shared", of, copied.dir)
	return copied
}

// edit replaces old by new where it stands first in a file.
func edit(t *testing.T, tr tree, file, old, new string) {
	t.Helper()
	text := string(tr.read(file))
	require.Contains(t, text, old, file)
	require.NoError(t, os.WriteFile(tr.at(file), []byte(strings.Replace(text, old, new, 1)), 0o644))
}
