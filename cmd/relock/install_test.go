package main

import (
	"archive/zip"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	tree          = "../.."
	libraryPath   = "github.com/relock-go/relock"
	commandPath   = libraryPath + "/cmd/relock"
	embeddedRedis = "github.com/alicebob/miniredis"
	embeddedLua   = "github.com/yuin/gopher-lua"
	simulator     = "internal/sim" // released for the test kit, which no program imports
)

// goenv is the go command as somebody has it who knows nothing of this tree's workspace.
type goenv struct {
	t      *testing.T
	dir    string // where it runs
	bin    string // where it installs
	setenv []string
}

// newGoenv has a module cache of its own, and finds there the modules that the tree would be if it were released now, in
// the version that the command's go.mod asks for. What else they need comes from where it came from before: the
// machine's module cache, whose sums were checked when it was filled, or else the machine's proxy.
func newGoenv(t *testing.T) *goenv {
	t.Helper()
	machine := &goenv{t: t, dir: "."}
	var has struct{ GOPROXY, GOMODCACHE string }
	require.NoError(t, json.Unmarshal([]byte(machine.run("env", "-json", "GOPROXY", "GOMODCACHE")), &has))
	proxy, version := t.TempDir(), releasing(t, machine)
	publish(t, proxy, libraryPath, version, tree)
	publish(t, proxy, commandPath, version, filepath.Join(tree, "cmd", "relock"))
	for _, dir := range append(contributed(t), simulator) {
		publish(t, proxy, libraryPath+"/"+dir, version, filepath.Join(tree, dir))
	}
	g := &goenv{t: t, dir: t.TempDir(), bin: t.TempDir()}
	proxies := []string{fileURL(proxy), fileURL(filepath.Join(has.GOMODCACHE, "cache", "download")), has.GOPROXY}
	g.setenv = []string{
		"GOPROXY=" + strings.Join(proxies, ","), "GONOPROXY=none", "GOSUMDB=off", "GOWORK=off",
		"GOMODCACHE=" + t.TempDir(), "GOBIN=" + g.bin,
		// A cache that can be deleted, and builds that do not depend on where it was: CI builds so too, and has most of them.
		"GOFLAGS=-mod=mod -modcacherw -trimpath",
	}
	return g
}

// contributed are the directories of the modules below contrib.
func contributed(t *testing.T) (dirs []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(tree, "contrib", "*", "go.mod"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, mod := range found {
		dirs = append(dirs, "contrib/"+filepath.Base(filepath.Dir(mod)))
	}
	return dirs
}

// releasing returns the version of the library, and of what the command uses of contrib, that the command's go.mod asks for.
func releasing(t *testing.T, g *goenv) string {
	t.Helper()
	var mod struct {
		Require []struct{ Path, Version string }
		Replace []struct{}
	}
	require.NoError(t, json.Unmarshal([]byte(g.run("mod", "edit", "-json")), &mod))
	require.Empty(t, mod.Replace, "a command whose go.mod replaces modules cannot be installed by its version")
	version := ""
	for _, r := range mod.Require {
		if r.Path == libraryPath {
			version = r.Version
		}
	}
	require.NotEmpty(t, version, "the command's go.mod does not ask for the library")
	for _, r := range mod.Require {
		if strings.HasPrefix(r.Path, libraryPath+"/") {
			require.Equal(t, version, r.Version, "%s: they are released together", r.Path)
		}
	}
	return version
}

// run runs the go command, which must succeed, and returns its standard output.
func (g *goenv) run(args ...string) string {
	g.t.Helper()
	var errs strings.Builder
	cmd := exec.CommandContext(g.t.Context(), "go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = g.dir, append(os.Environ(), g.setenv...), &errs
	out, err := cmd.Output()
	require.NoError(g.t, err, "go %s: %s", strings.Join(args, " "), &errs)
	return string(out)
}

// publish puts the module whose root is dir into a file proxy.
func publish(t *testing.T, proxy, module, version, dir string) {
	t.Helper()
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	require.NoError(t, os.MkdirAll(at, 0o700))
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	put("list", version+"\n")
	put(version+".info", `{"Version": "`+version+`"}`)
	put(version+".mod", string(mod))
	archive, err := os.Create(filepath.Join(at, version+".zip"))
	require.NoError(t, err)
	packed := zip.NewWriter(archive)
	require.NoError(t, pack(packed, module+"@"+version, os.DirFS(dir)))
	require.NoError(t, packed.Close())
	require.NoError(t, archive.Close())
}

// pack adds the files of a module. Those of modules below it are not its own.
func pack(to *zip.Writer, prefix string, files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir():
			_, err := fs.Stat(files, path.Join(name, "go.mod"))
			if err == nil || entry.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		case entry.Name() == ".git" || !entry.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		file, err := to.Create(path.Join(prefix, name))
		if err == nil {
			_, err = file.Write(text)
		}
		return err
	})
}

func fileURL(dir string) string { return "file:///" + strings.TrimPrefix(filepath.ToSlash(dir), "/") }

// readmeSays returns the arguments of the go command that begins with these words on a line of the README.
func readmeSays(t *testing.T, words string) []string { return says(t, "README.md", words) }

// says does so for any document.
func says(t *testing.T, document, words string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tree, document))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "go "+words) {
			return strings.Fields(line)[1:]
		}
	}
	require.FailNow(t, document+" has no such line", "go %s", words)
	return nil
}

// Who has no clone installs the command with the README's line.
func TestInstall(t *testing.T) {
	t.Parallel()
	g := newGoenv(t)
	g.run(readmeSays(t, "install "+commandPath)...)
	command := filepath.Join(g.bin, "relock")
	out, err := exec.CommandContext(t.Context(), command, "help").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "relock demo")

	// 23 MB are in order. Past this the linker kept every method of every type, for a package that finds methods by their
	// names: go build -ldflags=-dumpdep marks it with ReflectMethod.
	binary, err := os.Stat(command)
	require.NoError(t, err)
	require.Less(t, binary.Size(), int64(30_000_000))
}

// consumer is a program that uses the library.
const consumer = `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

func main() {
	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: os.Args[1:], DisableCache: true})
	if err != nil {
		log.Fatal(err)
	}
	defer rdb.Close()
	locks, err := relock.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Mutex("orders").Do(context.Background(), func(context.Context) error {
		_, err := fmt.Println("locked")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
`

// Who imports the library gets it with the README's line, and the command's embedded Redis is not in the bargain.
func TestImport(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	g := newGoenv(t)
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "main.go"), []byte(consumer), 0o600))
	g.run("mod", "init", "example.org/consumer")
	g.run(readmeSays(t, "get "+libraryPath)...)
	require.Equal(t, "locked\n", g.run("run", ".", srv.Addr()))
	sums, err := os.ReadFile(filepath.Join(g.dir, "go.sum"))
	require.NoError(t, err)
	for what, text := range map[string]string{"go.sum": string(sums), "module graph": g.run("mod", "graph")} {
		require.Contains(t, text, libraryPath, what)
		require.NotContains(t, text, embeddedRedis, what)
		require.NotContains(t, text, embeddedLua, what)
	}
}

// consumerTest is a test of a program that uses the library.
const consumerTest = `package main

import (
	"errors"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relocktest"
)

func TestBusy(t *testing.T) {
	locks := relocktest.New(t)
	relocktest.Hold(t, locks, "orders")
	if _, err := locks.Mutex("orders").TryLock(t.Context()); !errors.Is(err, relock.ErrNotAcquired) {
		t.Fatal(err)
	}
}
`

// Who tests code that uses the library gets the kit, and the simulator below it, with the guide's line.
func TestImportOfTheTestKit(t *testing.T) {
	t.Parallel()
	g := newGoenv(t)
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "main.go"), []byte(consumer), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "main_test.go"), []byte(consumerTest), 0o600))
	g.run("mod", "init", "example.org/consumer")
	g.run(readmeSays(t, "get "+libraryPath)...)
	g.run(says(t, filepath.Join("docs", "testing.md"), "get "+libraryPath+"/contrib/relocktest")...)
	g.run("vet", ".")
	g.run("test", ".")
	require.NotContains(t, g.run("list", "-deps", "."), embeddedLua, "the kit is of the tests alone")
	require.NotContains(t, g.run("list", "-deps", "-test", "."), "porcupine", "the simulation's own judge")
}
