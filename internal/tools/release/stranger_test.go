package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stranger is a user with an empty directory and the go command, for whom the copy of the repository is the public one.
type stranger struct {
	t   *testing.T
	p   *public
	dir string
	env []string
}

// arrive has the stranger make a module, for which nothing is set but where modules come from. The sums of what the machine's
// module cache has were checked when it was filled.
func (p *public) arrive(t *testing.T) *stranger {
	t.Helper()
	s := &stranger{t: t, p: p, dir: t.TempDir()}
	s.env = append(os.Environ(),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+fileURL(p.bare)+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+root,
		"GOPROXY="+p.proxies, "GONOPROXY="+root+","+root+"/*", "GOSUMDB=off", "GOMODCACHE="+p.mods, "GOWORK=off",
		"GOBIN="+filepath.Join(s.dir, "bin"), "GOFLAGS=-modcacherw -trimpath")
	_, err := s.run("go", "mod", "init", "example.org/stranger")
	require.NoError(t, err)
	return s
}

func (s *stranger) run(name string, args ...string) (string, error) {
	return s.runIn(".", name, args...)
}

func (s *stranger) runIn(dir, name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second // for what go run started
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.Bytes(), errs.Bytes())
	}
	return out.String(), nil
}

// write puts a file into the stranger's module.
func (s *stranger) write(name, text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644))
}

// has reports modules of the repository that the stranger's module got in another version than that released. With one
// module that still asks for an older version, go get of this module alone gives that.
func (s *stranger) has() error {
	out, err := s.run("go", "list", "-m", "-json=Path,Version,Replace", "all")
	if err != nil {
		return err
	}
	var errs []error
	found := 0
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var m struct{ Path, Version string }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		errs = append(errs, s.p.of(m.Path, m.Version))
		if m.Path == root {
			found++
		}
	}
	if found == 0 {
		errs = append(errs, errors.New("the library is not there"))
	}
	return errors.Join(errs...)
}

func (p *public) of(path, version string) error {
	if (path == root || strings.HasPrefix(path, root+"/")) && version != p.version {
		return fmt.Errorf("%s is %s, not %s: a module still asks for that", path, version, p.version)
	}
	return nil
}

// installed reports modules in a program that are of another version. The module that was built in place has none.
func (s *stranger) installed(program string) error {
	out, err := s.run("go", "version", "-m", program)
	var errs []error
	for _, match := range regexp.MustCompile(`(?m)^\t(?:mod|dep)\t(\S+)\t(v\S+)`).FindAllStringSubmatch(out, -1) {
		errs = append(errs, s.p.of(match[1], match[2]))
	}
	if errs == nil {
		errs = append(errs, errors.New(program+" has no modules"))
	}
	return errors.Join(append(errs, err)...)
}

// mostBytes is how large the installed command may be. 23 MB are in order. What brings more, go build -ldflags=-dumpdep marks with
// ReflectMethod.
const mostBytes = 30_000_000

// follow has the stranger run a line of a page. Where the line names numbers for people, others stand in for them.
func (s *stranger) follow(line string, instead ...string) error {
	words := strings.Fields(strings.NewReplacer(instead...).Replace(line))
	out, err := s.run(words[0], words[1:]...)
	if err != nil {
		return err
	}
	switch words[1] {
	case "get":
		return s.has()
	case "install":
		program := filepath.Join(s.dir, "bin", "relock")
		if is, err := os.Stat(program); err == nil && is.Size() > mostBytes {
			return fmt.Errorf("%s has %d bytes: a package that finds methods by their names has the linker keep all", program, is.Size())
		}
		return s.installed(program)
	}
	s.t.Log(out)
	return nil
}

var lineOfGo = regexp.MustCompile(`(?m)^(?:RUN (?:\w+=\S+ )*)?(go (?:get|install|run) (?:.* )?` + regexp.QuoteMeta(root) + `\S*.*)$`)

// lines returns the go commands of a page that name modules of the repository.
func lines(page string) (all []string) {
	for _, match := range lineOfGo.FindAllStringSubmatch(page, -1) {
		all = append(all, match[1])
	}
	return all
}

var placeholder = regexp.MustCompile("(?m)^[ \t]*//page (\\S+) (?:(\\d+)|`(.*)`)$")

// complete puts code of pages into a program: instead of a line //page README.md 0 the first Go code of README.md, instead of
// //page README.md `code` this code, which must be on the page.
func complete(program string, page func(string) string) (string, error) {
	var errs []error
	program = placeholder.ReplaceAllStringFunc(program, func(line string) string {
		match := placeholder.FindStringSubmatch(line)
		text := page(match[1])
		if match[2] == "" {
			if !strings.Contains(text, "`"+match[3]+"`") {
				errs = append(errs, fmt.Errorf("%s has no `%s`", match[1], match[3]))
			}
			return match[3]
		}
		n, _ := strconv.Atoi(match[2])
		blocks := strings.Split(text, "```go\n")[1:]
		if n >= len(blocks) {
			errs = append(errs, fmt.Errorf("%s has %d pieces of Go code", match[1], len(blocks)))
			return ""
		}
		code, _, _ := strings.Cut(blocks[n], "```")
		return code
	})
	return program, errors.Join(errs...)
}

// program has the stranger write a program of a page: testdata/NAME.go.txt, completed by that page's code.
func (s *stranger) program(name, file string, page func(string) string, instead ...string) error {
	text, err := os.ReadFile(filepath.Join("testdata", name+".go.txt"))
	if err != nil {
		return err
	}
	done, err := complete(string(text), page)
	s.write(file, strings.NewReplacer(instead...).Replace(done))
	return err
}
