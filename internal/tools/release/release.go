package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/semver"
)

// tree is a clone of the repository.
type tree struct {
	ctx context.Context
	dir string
}

// release commits and tags version in the clone in dir, and returns the command that pushes that.
func release(ctx context.Context, dir, version string, day time.Time) (push string, err error) {
	t := tree{ctx, dir}
	if err := wellFormed(version); err != nil {
		return "", err
	}
	if changed, err := t.git("status", "--porcelain", "--untracked-files=all"); err != nil || changed != "" {
		return "", errors.Join(err, fmt.Errorf("files are not committed:\n%s", changed))
	}
	if branch, err := t.git("branch", "--show-current"); err != nil || branch != "main" {
		return "", errors.Join(err, fmt.Errorf("releases are made on main, not on %q", branch))
	}
	head, err := t.git("rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	mods, err := t.modules()
	if err != nil {
		return "", err
	}
	last, err := t.last()
	if err != nil {
		return "", err
	}
	news := t.read("CHANGELOG.md")
	changelog, section, noSection := changes(news, version, day)
	tags := tagsOf(mods, version)
	if err := errors.Join(tagged(released(news), last), follows(version, last), noSection, t.untagged(tags), mods.releasable()); err != nil {
		return "", err
	}
	if err := t.surface(version, last, section); err != nil {
		return "", err
	}

	defer func() {
		if err != nil {
			err = errors.Join(err, t.undo(head, tags))
		}
	}()
	if err := mods.set(version); err != nil {
		return "", err
	}
	if err := os.WriteFile(t.at("CHANGELOG.md"), changelog, 0o644); err != nil {
		return "", err
	}
	if _, err := t.git("commit", "--quiet", "--all", "--message", "Release "+version); err != nil {
		return "", err
	}
	for _, tag := range tags {
		if _, err := t.git("tag", "--annotate", "--message", "relock "+version, tag); err != nil {
			return "", err
		}
	}
	return "git push --atomic origin main " + strings.Join(tags, " "), nil
}

// wellFormed reports what is wrong with a version by itself.
func wellFormed(version string) error {
	switch {
	case semver.Canonical(version) != version:
		return fmt.Errorf("%q is no version such as v0.2.0", version)
	case semver.Major(version) != "v0" && semver.Major(version) != "v1":
		return errors.New("from v2 on the modules' paths end in /v2")
	case semver.Prerelease(version) != "":
		return errors.New("there are no pre-releases: go get would not choose one")
	}
	return nil
}

// tagged refuses a clone without the tags: the versions and the API before cannot be compared there.
func tagged(released, last string) error {
	if released != last {
		return fmt.Errorf("the last release is %q in CHANGELOG.md, and %q by the tags: git fetch --tags brings those that are missing", released, last)
	}
	return nil
}

// follows refuses a version that is not one of those next to the last. What a proxy has seen cannot be
// taken back, so a wrong digit would stay.
func follows(version, last string) error {
	if last == "" {
		return nil
	}
	if next := successors(last); !slices.Contains(next, version) {
		return fmt.Errorf("%s cannot follow %s: the next is %s", version, last, strings.Join(next, ", "))
	}
	return nil
}

// successors are the next patch, minor and major version.
func successors(last string) []string {
	var major, minor, patch int
	fmt.Sscanf(last, "v%d.%d.%d", &major, &minor, &patch) // it is a valid version, so it has them
	return []string{fmt.Sprintf("v%d.%d.%d", major, minor, patch+1), fmt.Sprintf("v%d.%d.0", major, minor+1), fmt.Sprintf("v%d.0.0", major+1)}
}

// last returns the highest release that the branch has, or "".
func (t tree) last() (last string, err error) {
	tags, err := t.git("tag", "--list", "--merged", "HEAD", "v*")
	for tag := range strings.FieldsSeq(tags) {
		if semver.Canonical(tag) == tag && semver.Prerelease(tag) == "" && (last == "" || semver.Compare(tag, last) > 0) {
			last = tag
		}
	}
	return last, err
}

// tagsOf returns the tags of a release: Go finds the version of a module by the tag with its directory.
func tagsOf(mods modules, version string) (tags []string) {
	for _, m := range mods.all {
		if m.released {
			tags = append(tags, strings.TrimPrefix(m.dir+"/"+version, "./"))
		}
	}
	return tags
}

// untagged reports tags that are taken, on any branch.
func (t tree) untagged(tags []string) error {
	taken, err := t.git(append([]string{"tag", "--list"}, tags...)...)
	if err == nil && taken != "" {
		err = fmt.Errorf("tags are taken: %s", strings.ReplaceAll(taken, "\n", " "))
	}
	return err
}

// undo takes back a release that failed on its way: its tags, which were free, and its changes. The tree
// was clean at head, so nothing else is lost.
func (t tree) undo(head string, tags []string) error {
	t.ctx = context.WithoutCancel(t.ctx)
	made, err := t.git(append([]string{"tag", "--list"}, tags...)...)
	if made != "" {
		_, err = t.git(append([]string{"tag", "--delete"}, strings.Fields(made)...)...)
	}
	_, failed := t.git("reset", "--quiet", "--hard", head)
	return errors.Join(err, failed)
}

func (t tree) at(file string) string { return filepath.Join(t.dir, filepath.FromSlash(file)) }

// read returns what a file says, nothing if it is missing.
func (t tree) read(file string) []byte {
	text, err := os.ReadFile(t.at(file))
	if err != nil {
		return nil
	}
	return text
}

func (t tree) git(args ...string) (string, error) { return t.run(".", "git", args...) }

// run runs a command in a directory of the tree, and returns its output without the last line break.
func (t tree) run(dir, name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.at(dir), &out, &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // by which git deletes its lock files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: t.ctx.Done() == nil}  // a further Ctrl-C does not end undo
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.Bytes(), errs.Bytes())
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
