package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/tools/floors"
)

const (
	// votes is how many processes measure. Files that a slow machine adds to one measurement, or
	// keeps from it, are outvoted.
	votes = 5
	limit = 5 * time.Minute // for one process, which runs at low priority in CI
	probe = "./internal/tools/walk/probe"
)

// walk returns the files that Lock and Unlock run through. Its server and its files are gone with
// tb's cleanup.
func walk(tb redistest.TB) (lock, unlock []string, err error) {
	dir := tb.TempDir()
	program := filepath.Join(dir, "probe")
	if err := build(program); err != nil {
		return nil, nil, err
	}
	server := redistest.Start(tb)
	var locks, unlocks [][]string
	for vote := range votes {
		lock, unlock, err := measure(program, server.Addr(), filepath.Join(dir, fmt.Sprint(vote)))
		if err != nil {
			return nil, nil, err
		}
		locks, unlocks = append(locks, lock), append(unlocks, unlock)
	}
	return elected(locks), elected(unlocks), nil
}

// build makes the program that measures. Every package on a floor counts.
func build(program string) error {
	root, err := output(exec.Command("go", "list", "-f", "{{.Module.Dir}}", floors.Module))
	if err != nil {
		return err
	}
	root = strings.TrimSpace(root)
	files, _, err := floors.Read(root)
	if err != nil {
		return err
	}
	covered := []string{probe}
	for _, dir := range floors.Order {
		if slices.ContainsFunc(files, func(file string) bool { return path.Dir(file) == dir }) {
			covered = append(covered, "./"+dir)
		}
	}
	cmd := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+strings.Join(covered, ","),
		"-o", program, probe)
	cmd.Dir = root
	_, err = output(cmd)
	return err
}

// measure runs the program once, on the Redis at addr, and keeps what it leaves behind in dir.
func measure(program, addr, dir string) (lock, unlock []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	dirs := []string{filepath.Join(dir, "lock"), filepath.Join(dir, "unlock"), filepath.Join(dir, "rest")}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, nil, err
		}
	}
	cmd := exec.CommandContext(ctx, program, addr, dirs[0], dirs[1])
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+dirs[2])
	if _, err := output(cmd); err != nil {
		return nil, nil, err
	}
	if lock, err = passed(dirs[0]); err != nil {
		return nil, nil, err
	}
	unlock, err = passed(dirs[1])
	return lock, unlock, err
}

// passed returns the files on the floors in which a statement ran, by the coverage data in dir.
func passed(dir string) ([]string, error) {
	profile := filepath.Join(dir, "profile")
	if _, err := output(exec.Command("go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	return passedIn(string(text)), nil
}

// passedIn reads a profile: after its mode, lines of a file, a place in it, and how often its
// statements ran.
func passedIn(profile string) (files []string) {
	for line := range strings.Lines(profile) {
		line = strings.TrimSpace(line)
		block, _, found := strings.Cut(line, ".go:")
		file := strings.TrimPrefix(block, floors.Module+"/") + ".go"
		if found && !strings.HasSuffix(line, " 0") && slices.Contains(floors.Order, path.Dir(file)) {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// elected returns the files that are in most of the lists. The highest floor comes first; the files
// of one floor are sorted by name.
func elected(lists [][]string) (files []string) {
	count := make(map[string]int)
	for _, list := range lists {
		for _, file := range list {
			if count[file]++; count[file] == len(lists)/2+1 {
				files = append(files, file)
			}
		}
	}
	slices.SortFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(level(b), level(a)), cmp.Compare(a, b))
	})
	return files
}

func level(file string) int { return slices.Index(floors.Order, path.Dir(file)) }

// output runs a command and returns its output. An error tells what the command complained of.
func output(cmd *exec.Cmd) (string, error) {
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &complaint)
	}
	return string(out), nil
}

// shown returns the fenced code blocks below a heading of a Markdown text, each as the first words
// of its lines, and whether there is such a heading.
func shown(text, heading string) (blocks [][]string, found bool) {
	fenced := false
	for scan := bufio.NewScanner(strings.NewReader(text)); scan.Scan(); {
		line := scan.Text()
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "```"):
			if fenced = !fenced; fenced && found {
				blocks = append(blocks, nil)
			}
		case !fenced && strings.HasPrefix(line, "#"):
			if found {
				return blocks, true
			}
			found = strings.TrimLeft(line, "# ") == heading
		case fenced && found && len(words) > 0:
			last := len(blocks) - 1
			blocks[last] = append(blocks[last], words[0])
		}
	}
	return blocks, found
}
