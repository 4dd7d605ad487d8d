package main

import (
	"errors"
	"fmt"
	"go/token"
	"path"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/relock-go/relock/internal/tools/api"
)

// surface reports changes of what programs can import that docs/compatibility.md does not allow between
// last and version. Before v1.0 a minor release may break programs if its section of CHANGELOG.md names
// what it breaks. Other releases break none.
func (t tree) surface(version, last, section string) error {
	// The texts in docs/api are what the packages export.
	if _, err := t.run("internal/tools/api", "go", "test", "-count=1", "-run", "^TestAPIStays$", "."); err != nil {
		return err
	}
	if last == "" {
		return nil
	}
	before, err := t.texts(last)
	if err != nil {
		return err
	}
	after, err := t.texts("HEAD")
	if err != nil {
		return err
	}
	var all [][]byte
	for _, texts := range []map[string][]byte{before, after} {
		for _, text := range texts {
			all = append(all, text)
		}
	}
	imported, err := api.Imported(t.dir, all...)
	if err != nil {
		return err
	}
	var errs []error
	for name, text := range before {
		change, err := api.Compare(strings.TrimSuffix(name, ".txt"), text, after[name], imported)
		if err != nil {
			return err
		}
		errs = append(errs, broken(version, last, section, name, change.Breaks))
	}
	return errors.Join(errs...)
}

var lastName = regexp.MustCompile(`(\w+)[^\w]*$`)

// broken reports which of the breaks that the package of a text has had since last version may not have.
func broken(version, last, section, text string, breaks []string) error {
	pkg := strings.TrimSuffix(text, ".txt")
	var errs []error
	for _, what := range breaks {
		subject, _, _ := strings.Cut(what, ": ") // (*Lease).Until: removed
		name := lastName.FindStringSubmatch(subject)[1]
		if !token.IsExported(name) { // the package is gone, or cannot be compared
			name = pkg
		}
		switch {
		case semver.Major(last) != "v0":
			errs = append(errs, fmt.Errorf("%s.%s, since %s: no release from v1.0 on may break programs", pkg, what, last))
		case semver.MajorMinor(version) == semver.MajorMinor(last):
			errs = append(errs, fmt.Errorf("%s.%s, since %s: a patch release may not break programs", pkg, what, last))
		case !regexp.MustCompile(`\b` + name + `\b`).MatchString(section):
			errs = append(errs, fmt.Errorf("%s.%s, since %s: CHANGELOG.md does not say what programs do about %s", pkg, what, last, name))
		}
	}
	return errors.Join(errs...)
}

// texts returns the texts in docs/api at a commit, by their names.
func (t tree) texts(commit string) (map[string][]byte, error) {
	names, err := t.git("ls-tree", "--name-only", commit, "docs/api/", "api/") // the second is where they once stood
	if err != nil {
		return nil, err
	}
	texts := make(map[string][]byte)
	for name := range strings.FieldsSeq(names) {
		text, err := t.git("show", commit+":"+name)
		if err != nil {
			return nil, err
		}
		texts[path.Base(name)] = []byte(text + "\n")
	}
	return texts, nil
}
