package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// systems are those that the command is released for: packages import other modules on other systems.
var systems = []string{"linux", "darwin", "windows"}

// standard stands for Go's standard library, which every binary contains.
const standard = "Go's standard library"

// module is a module that others import.
type module struct {
	path  string
	dir   string
	in    []string        // what users compile it into; none if only tests of this repository use it
	files map[string]bool // of licences and notices
}

// imported is a package, as the go command lists it.
type imported struct {
	ImportPath, Dir, Name, ForTest string
	Standard                       bool
	Imports                        []string
	Module                         *struct {
		Path, Dir string
		Main      bool
	}
}

// dependencies returns the modules that those in these directories import, by path.
func dependencies(dir string, own []string) ([]*module, error) {
	found := make(map[string]*module)
	for _, system := range systems {
		packages, err := list(dir, system, own)
		if err != nil {
			return nil, err
		}
		at := make(map[string]*imported)
		for _, p := range packages {
			enter(found, p, "")
			at[p.ImportPath] = p
		}
		for _, p := range packages {
			if into := userOf(p); into != "" {
				follow(at, p, make(map[string]bool), func(p *imported) { enter(found, p, into) })
			}
		}
	}
	root, err := command(dir, "", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	root = strings.TrimSpace(root)
	found[standard].dir = root
	if found[standard].files, err = notices(root, root); err != nil {
		return nil, err
	}
	all := make([]*module, 0, len(found))
	for _, m := range found {
		slices.Sort(m.in)
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// list runs go list over the packages of these modules, their tests, and all that these import.
func list(dir, system string, own []string) (all []*imported, err error) {
	args := []string{"list", "-deps", "-test", "-json=ImportPath,Dir,Name,Standard,ForTest,Imports,Module"}
	for _, m := range own {
		args = append(args, "./"+filepath.ToSlash(filepath.Join(m, "...")))
	}
	text, err := command(dir, system, args...)
	if err != nil {
		return nil, err
	}
	for in := json.NewDecoder(strings.NewReader(text)); ; {
		p := new(imported)
		if err := in.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

func command(dir, system string, args ...string) (string, error) {
	var errs strings.Builder
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = dir, &errs
	if system != "" {
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, &errs)
	}
	return string(out), nil
}

// userOf names what users compile p into because they import it, or run it. It returns "" for all that they cannot import,
// and for programs other than the command.
func userOf(p *imported) string {
	if p.Module == nil || !p.Module.Main || p.ForTest != "" || slices.Contains(strings.Split(p.ImportPath, "/"), "internal") {
		return ""
	}
	if p.Name == "main" && p.ImportPath != p.Module.Path {
		return ""
	}
	name := p.Module.Path[strings.LastIndex(p.Module.Path, "/")+1:]
	switch {
	case p.Name == "main":
		return "command"
	case strings.Count(p.Module.Path, "/") < 3:
		return "library"
	default:
		return name
	}
}

// follow calls visit for p and all that it imports.
func follow(at map[string]*imported, p *imported, seen map[string]bool, visit func(*imported)) {
	if p == nil || seen[p.ImportPath] {
		return
	}
	seen[p.ImportPath] = true
	visit(p)
	for _, path := range p.Imports {
		follow(at, at[path], seen, visit)
	}
}

// enter adds the module of a package, with what users compile it into.
func enter(found map[string]*module, p *imported, into string) {
	path := standard
	switch {
	case p.Standard:
	case p.Module == nil || p.Module.Main:
		return
	default:
		path = p.Module.Path
	}
	m := found[path]
	if m == nil {
		m = &module{path: path, files: make(map[string]bool)}
		found[path] = m
	}
	if into != "" && !slices.Contains(m.in, into) {
		m.in = append(m.in, into)
	}
	if p.Standard {
		return
	}
	m.dir = p.Module.Dir
	// A package may be another author's, with a licence in its own directory. That of the module stands in the module's
	// root. If a directory cannot be read, the licence is missing.
	files, _ := notices(p.Module.Dir, p.Dir)
	for file := range files {
		m.files[file] = true
	}
}

var noticeName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense)([-._].*)?$`)

// notices returns the files of licences and notices in dir, and in those above it up to root.
func notices(root, dir string) (map[string]bool, error) {
	all := make(map[string]bool)
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() && noticeName.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
				all[filepath.Join(dir, e.Name())] = true
			}
		}
		if len(dir) <= len(root) {
			return all, nil
		}
		dir = filepath.Dir(dir)
	}
}
