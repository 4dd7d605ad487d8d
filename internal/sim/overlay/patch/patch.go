// Package patch makes the overlay of Go's source by which simulated runs repeat, from the Go that is installed.
//
// It is bound to the text of that source: where a place is not found exactly once, as in another version, it refuses.
package patch

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tag is the build tag of a program that is built with the overlay.
const Tag = "simoverlay"

//go:embed added/runtime.go.txt
var addedRuntime string

//go:embed added/context.go.txt
var addedContext string

// Installed returns the root and the version of the Go that the go command belongs to.
func Installed() (root, version string, err error) {
	out, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return "", "", fmt.Errorf("go env: %w", err)
	}
	root, version, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	return root, version, nil
}

// Write writes the overlay of the Go in goroot, whose version it is given, to dir, and returns the flags with which
// the go command uses it.
func Write(goroot, version, dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := replaced(filepath.Join(goroot, "src"), version)
	if err != nil {
		return nil, err
	}
	files["runtime/zsim.go"] = strings.ReplaceAll(addedRuntime, "SIMVERSION", version)
	files["context/zsim.go"] = addedContext

	list := map[string]map[string]string{"Replace": {}}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := write(path, []byte(text)); err != nil {
			return nil, err
		}
		list["Replace"][filepath.Join(goroot, "src", filepath.FromSlash(name))] = path
	}
	text, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "overlay.json")
	return []string{"-overlay=" + path, "-tags=" + Tag}, write(path, text)
}

// replaced returns the files of src that change, with every replacement made.
func replaced(src, version string) (map[string]string, error) {
	files := map[string]string{}
	for _, r := range replacements {
		text, read := files[r.file]
		if !read {
			bytes, err := os.ReadFile(filepath.Join(src, filepath.FromSlash(r.file)))
			if err != nil {
				return nil, fmt.Errorf("the overlay does not fit %s: %w", version, err)
			}
			text = string(bytes)
		}
		if n := strings.Count(text, r.from); n != 1 {
			return nil, fmt.Errorf("the overlay does not fit %s: %s has %d times, not once, the text\n%s",
				version, r.file, n, r.from)
		}
		files[r.file] = strings.Replace(text, r.from, r.to, 1)
	}
	return files, nil
}

// write leaves a file alone that has its text already, as another build may be reading it.
func write(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o666)
}
