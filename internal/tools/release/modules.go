package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// root is the library's module. Every other module's path is this one and its directory.
const root = "github.com/relock-go/relock"

// unreleased is the version by which modules that are never released ask for the tree's own.
const unreleased = "v0.0.0-00010101000000-000000000000"

// modules are all modules of a tree, and the workspace that joins them.
type modules struct {
	all  []*module
	work *modfile.WorkFile
	file string // of the workspace
}

// A module is released if programs may ask for it: the library, the commands, those below contrib, and
// what these require.
type module struct {
	dir      string // "." is the library's
	file     string // its go.mod
	mod      *modfile.File
	released bool
}

func (m *module) path() string { return path.Join(root, m.dir) }

func (t tree) modules() (mods modules, err error) {
	files, err := t.git("ls-files", "--", "go.mod", "*/go.mod")
	if err != nil {
		return mods, err
	}
	for name := range strings.FieldsSeq(files) {
		if slices.Contains(strings.Split(name, "/"), "testdata") {
			continue
		}
		m := &module{dir: path.Dir(name), file: t.at(name)}
		if m.mod, err = modfile.Parse(name, t.read(name), nil); err != nil {
			return mods, err
		}
		if m.mod.Module.Mod.Path != m.path() {
			return mods, fmt.Errorf("%s: its module is %s, not %s", name, m.mod.Module.Mod.Path, m.path())
		}
		mods.all = append(mods.all, m)
	}
	mods.file = t.at("go.work")
	if mods.work, err = modfile.ParseWork("go.work", t.read("go.work"), nil); err != nil {
		return mods, err
	}
	for _, m := range mods.all {
		if above := path.Dir(m.dir); m.dir == "." || above == "cmd" || above == "contrib" {
			mods.mark(m)
		}
	}
	return mods, nil
}

// mark says that a module is released, and with it what it requires.
func (mods modules) mark(m *module) {
	if m.released {
		return
	}
	m.released = true
	for _, r := range m.mod.Require {
		if i := slices.IndexFunc(mods.all, func(m *module) bool { return m.path() == r.Mod.Path }); i >= 0 {
			mods.mark(mods.all[i])
		}
	}
}

// releasable reports what go.mod and go.work have that keeps programs from using the modules.
func (mods modules) releasable() error {
	var errs []error
	for _, m := range mods.all {
		used := func(u *modfile.Use) bool { return path.Clean(u.Path) == m.dir }
		switch {
		case !slices.ContainsFunc(mods.work.Use, used):
			errs = append(errs, fmt.Errorf("%s is not in go.work", m.dir))
		case !m.released:
		case len(m.mod.Replace) > 0: // go install refuses it, and elsewhere it hides what the module asks for
			errs = append(errs, fmt.Errorf("%s replaces %s: that belongs in go.work", path.Join(m.dir, "go.mod"), m.mod.Replace[0].Old.Path))
		case len(m.mod.Exclude) > 0:
			errs = append(errs, fmt.Errorf("%s excludes %s: go install refuses that", path.Join(m.dir, "go.mod"), m.mod.Exclude[0].Mod.Path))
		}
	}
	return errors.Join(errs...)
}

// set has all modules ask for a version of the released ones, and go.work put the tree in its place.
func (mods modules) set(version string) error {
	released := make(map[string]bool)
	for _, m := range mods.all {
		released[m.path()] = m.released
	}
	for _, m := range mods.all {
		for _, r := range m.mod.Require {
			if released[r.Mod.Path] && r.Mod.Version != unreleased {
				if err := m.mod.AddRequire(r.Mod.Path, version); err != nil {
					return err
				}
			}
		}
		text, err := m.mod.Format()
		if err != nil {
			return err
		}
		if err := os.WriteFile(m.file, text, 0o644); err != nil {
			return err
		}
	}
	for _, r := range slices.Clone(mods.work.Replace) {
		if !released[r.Old.Path] || r.Old.Version == "" || r.Old.Version == version {
			continue
		}
		if err := mods.work.AddReplace(r.Old.Path, version, r.New.Path, ""); err != nil {
			return err
		}
		if err := mods.work.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	mods.work.Cleanup()
	return os.WriteFile(mods.file, modfile.Format(mods.work.Syntax), 0o644)
}
