package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/semver"
)

// older is what the release before the next one is made of while there is none. A clone without it takes what is to be
// released for both.
const older = "2245dba8383e849c3dcedafa4c484d5ee05c2552"

// public is the repository as the public would have it, with this tree as its next release.
type public struct {
	bare    string // git's directory
	tree    tree   // a clone, by which it was released
	last    string // the release before
	version string
	proxies string // for what the modules depend on
	mods    string // the strangers' module cache
}

// publish releases this tree, with what is not committed, in a copy of the repository: by make release, and by the line that
// this prints.
func publish(t *testing.T) *public {
	t.Helper()
	top, err := filepath.Abs("../../..")
	require.NoError(t, err)
	at := t.TempDir()
	p := &public{bare: filepath.Join(at, "relock.git"), tree: tree{t.Context(), filepath.Join(at, "relock")}, mods: filepath.Join(at, "mod")}
	here := tree{t.Context(), at}
	git(t, here, "clone", "--quiet", "--shared", "--no-checkout", top, p.tree.dir)
	git(t, p.tree, "checkout", "--quiet", "-B", "main")
	git(t, here, "--git-dir", filepath.Join(p.tree.dir, ".git"), "--work-tree", top, "add", "--all")
	git(t, p.tree, "commit", "--quiet", "--allow-empty", "--message", "What is not committed")
	git(t, p.tree, "reset", "--quiet", "--hard")
	git(t, p.tree, "clean", "--quiet", "--force", "-d") // what is deleted, but not committed
	git(t, here, "clone", "--quiet", "--bare", "--shared", p.tree.dir, p.bare)
	git(t, p.tree, "remote", "set-url", "origin", p.bare)

	p.last, err = p.tree.last()
	require.NoError(t, err)
	if p.last == "" {
		p.last = asked(t, p.tree)
		git(t, p.tree, "tag", p.last)
		before := "main"
		if _, err := p.tree.git("cat-file", "-e", older+"^{commit}"); err == nil {
			before = older
		}
		git(t, tree{t.Context(), p.bare}, "tag", p.last, before)
	}
	p.version = next(t, p.tree, p.last)
	git(t, p.tree, "commit", "--quiet", "--all", "--allow-empty", "--message", "Prepare "+p.version)

	out, err := p.tree.run(".", "make", "--silent", "release", "VERSION="+p.version)
	require.NoError(t, err)
	push := out[strings.LastIndex(out, "\n")+1:]
	require.True(t, strings.HasPrefix(push, "git push "), out)
	_, err = p.tree.run(".", "sh", "-c", push)
	require.NoError(t, err)

	has, err := here.run(".", "go", "env", "-json", "GOPROXY", "GOMODCACHE")
	require.NoError(t, err)
	var env struct{ GOPROXY, GOMODCACHE string }
	require.NoError(t, json.Unmarshal([]byte(has), &env))
	p.proxies = fileURL(filepath.Join(env.GOMODCACHE, "cache", "download")) + "," + env.GOPROXY
	return p
}

func fileURL(dir string) string { return "file:///" + strings.TrimPrefix(filepath.ToSlash(dir), "/") }

// asked is the version of the library that the command asks for.
func asked(t *testing.T, tr tree) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^\t` + root + ` (v\S+)$`).FindSubmatch(tr.read("cmd/relock/go.mod"))
	require.NotNil(t, match)
	return string(match[1])
}

// next returns the version that CHANGELOG.md has a section for, or else gives it one for the next minor version. While there
// is no release yet, the one before gets its section too.
func next(t *testing.T, tr tree, last string) string {
	t.Helper()
	text := string(tr.read("CHANGELOG.md"))
	if released([]byte(text)) == "" {
		text += "\n## " + last + " (2026-11-30)\n\nA rehearsal.\n"
	}
	waiting := regexp.MustCompile(`(?m)^## Unreleased \((v\S+)\)\n`)
	match := waiting.FindStringSubmatch(text)
	version := successors(last)[1]
	section := "## Unreleased (" + version + ")\n"
	switch {
	case match == nil:
		text = strings.Replace(text, "\n## ", "\n"+section+"\nA rehearsal.\n\n## ", 1)
	case semver.Compare(match[1], last) > 0:
		version = match[1]
	default:
		text = strings.Replace(text, match[0], section, 1)
	}
	require.NoError(t, os.WriteFile(tr.at("CHANGELOG.md"), []byte(text), 0o644))
	return version
}
