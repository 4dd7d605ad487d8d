package api

import (
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

const (
	root   = "../../.." // of the repository
	module = "github.com/relock-go/relock"
)

// unpromised packages are for the repository's own modules, and for readers.
var unpromised = []string{
	module + "/lua",
	module + "/contrib/relockgoredis/overgoredis",
	module + "/contrib/relockvalkey/overvalkey",
	module + "/contrib/relocktest/example",
}

// The packages that programs import export what the texts in api say. RELOCK_RECORD=1 records anew: the change of those
// files is then the change of the API. Additions are recorded too, or nothing would guard them. From v1.0 on what breaks
// programs is not recorded.
func TestAPIStays(t *testing.T) {
	recorded, imports := readTexts(t)
	now, imported := load(t, imports)
	require.Contains(t, now, module)
	require.Contains(t, now, module+"/contrib/relocktest")
	paths := slices.Collect(maps.Keys(now))
	for path := range recorded {
		if _, is := now[path]; !is {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)

	command, err := os.ReadFile(filepath.Join(root, "cmd", "relock", "go.mod"))
	require.NoError(t, err)
	record, final := os.Getenv("RELOCK_RECORD") != "", Final(command)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if pkg, is := now[path]; is && pkg == nil {
				t.Fatal("it does not compile")
			}
			c, err := Judge(path, recorded[path], now[path], imported)
			require.NoError(t, err)
			if c.Text == nil && c.Breaks == nil {
				return
			}
			what := told(c)
			switch {
			case c.Breaks != nil && final:
				t.Errorf("%s\nFrom v1.0 on no change may break programs.", what)
			case !record:
				t.Errorf("%s\nIf that is meant, record it by RELOCK_RECORD=1 make api. What breaks programs has a line in CHANGELOG.md.", what)
			case now[path] == nil:
				require.NoError(t, os.Remove(fileOf(path)))
			default:
				require.NoError(t, os.WriteFile(fileOf(path), c.Text, 0o644))
				t.Log("recorded: " + what)
			}
		})
	}
}

func told(c Change) string {
	var lines []string
	for _, what := range c.Breaks {
		lines = append(lines, "breaks programs: "+what)
	}
	for _, what := range c.Adds {
		lines = append(lines, "new: "+what)
	}
	if lines == nil {
		lines = append(lines, "breaks no program: names of parameters or tags of fields differ")
	}
	return strings.Join(lines, "\n")
}

// fileOf is where the text of a package stands: docs/api/relock.txt of the library, docs/api/relockui.txt of contrib/relockui.
func fileOf(path string) string {
	return filepath.Join(root, "docs", "api", filepath.Base(path)+".txt")
}

var header = regexp.MustCompile(`^// What (\S+) exports\.`)

// readTexts returns what was recorded, by the packages' paths, and what that imports.
func readTexts(t *testing.T) (recorded map[string][]byte, imports []string) {
	files, err := filepath.Glob(fileOf("*"))
	require.NoError(t, err)
	recorded = make(map[string][]byte)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		match := header.FindSubmatch(text)
		require.NotNil(t, match, "%s does not say of which package it is", file)
		recorded[string(match[1])] = text
		more, err := Imports(text)
		require.NoError(t, err, file)
		imports = append(imports, more...)
	}
	return recorded, imports
}

// load returns the packages that programs may import, and all that the texts of these and those recorded import.
func load(t *testing.T, imports []string) (now, imported map[string]*types.Package) {
	patterns := append([]string{"./..."}, imports...)
	modules, err := filepath.Glob(filepath.Join(root, "contrib", "*", "go.mod"))
	require.NoError(t, err)
	for _, file := range modules {
		patterns = append(patterns, "./contrib/"+filepath.Base(filepath.Dir(file))+"/...")
	}
	loaded, err := packages.Load(&packages.Config{Mode: needed, Dir: root}, patterns...)
	require.NoError(t, err)
	now, imported = make(map[string]*types.Package), make(map[string]*types.Package)
	for _, pkg := range loaded {
		path := pkg.PkgPath
		ours := path == module || strings.HasPrefix(path, module+"/")
		if len(pkg.Errors) > 0 { // of no package of ours: a text imports what is gone, and cannot be read
			if ours {
				t.Log(pkg.Errors[0].Msg)
				now[path] = nil
			}
			continue
		}
		if ours && pkg.Name != "main" && !slices.Contains(strings.Split(path, "/"), "internal") && !slices.Contains(unpromised, path) {
			now[path] = pkg.Types
		}
	}
	for pkg := range packages.Postorder(loaded) {
		if len(pkg.Errors) == 0 {
			imported[pkg.PkgPath] = pkg.Types
		}
	}
	return now, imported
}
