// Package floors holds the packages of the library to the order they are built in: what stands
// higher may import what stands lower, and never the other way round.
package floors

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	// Module is the path that all packages of the library begin with.
	Module = "github.com/relock-go/relock"
	// Root is the directory of the package that users import.
	Root = "."
)

// drivers are the client libraries, each with the directory of its driver, which alone may import
// it; empty if the driver is in another module.
var drivers = map[string]string{
	"github.com/redis/rueidis":       "internal/driver/overrueidis",
	"github.com/redis/go-redis":      "",
	"github.com/valkey-io/valkey-go": "",
}

// Order is the floors' directories from the ground up.
var Order = slices.Concat(
	[]string{"internal/clock", "internal/crew", "internal/calls", "internal/ctxmutex", "internal/lazyctx", "internal/lasting", "internal/pool", "internal/tenure", "internal/gate", "internal/driver"}, driverDirs(),
	[]string{"internal/opening", "internal/link", "lua", "internal/wire", "internal/lookup", "internal/eventlog", "internal/profile",
		"internal/hub", "internal/node", "internal/claim", "internal/watchdog", "internal/presence", "internal/single", "internal/quorum", Root},
)

// guests stand on what users see of the root, and on nothing else. No floor may import them.
var guests = []string{"election"}

// helpers serve tests, tools and programs. No floor may import them or what lies below them.
var helpers = []string{"internal/drivertest", "internal/faults", "internal/locktest", "internal/model", "internal/operator",
	"internal/redistest", "internal/sim", "internal/tools"}

// programs lie below this directory. Nobody else may import them.
const programs = "cmd"

// makers are the files of the root that may import a client library, and the driver over it: New and
// NewRedlock take the user's client, and make a driver of it.
var makers = []string{"client.go", "redlock.go"}

// importers has the packages that not all floors above may import, each with the directories or
// files that may.
var importers = map[string][]string{
	"internal/gate":     {Root},
	"internal/lookup":   {Root},
	"internal/opening":  {Root},
	"internal/presence": {Root},
	"internal/eventlog": {Root},
	"internal/profile":  {Root},
	"internal/tenure":   {Root},
	"internal/ctxmutex": {Root},
	"internal/lazyctx":  {Root},
	"internal/lasting":  {Root},
	"internal/pool":     {Root},
	"internal/calls":    {Root},
	"internal/watchdog": {Root},
}

func init() {
	for library, dir := range drivers {
		importers[library] = []string{}
		if dir != "" {
			importers[library], importers[dir] = append([]string{dir}, makers...), makers
		}
	}
}

// driverDirs are the directories of the drivers in this module, sorted.
func driverDirs() (dirs []string) {
	for _, dir := range drivers {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// Import is one import in one file that is no test. Directories and files are given from the
// module's root.
type Import struct {
	File string // with slashes
	Path string // as the file has it
}

// Broken returns what is wrong with imports, one line each and sorted. The files in tolerated may
// import any client library as well.
func Broken(imports []Import, tolerated ...string) (lines []string) {
	for _, i := range imports {
		if why := i.broken(tolerated); why != "" {
			lines = append(lines, fmt.Sprintf("%s imports %s: %s", i.File, i.Path, why))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// broken says what is wrong with an import, "" if nothing is.
func (i Import) broken(tolerated []string) string {
	from, to := path.Dir(i.File), i.target()
	_, library := drivers[to]
	level := slices.Index(Order, from)
	switch {
	case to == "" || to == from || within(programs, from):
		return ""
	case within(programs, to):
		return "a program is imported by nobody"
	case isHelper(from), slices.Contains(guests, from) && to == Root:
		return ""
	case slices.Contains(guests, from):
		return "it stands on the root alone"
	case slices.Contains(guests, to):
		return "that leads up"
	case level < 0:
		return from + " stands on no floor"
	case isHelper(to):
		return "a helper is for tests"
	case !library && slices.Index(Order, to) < 0:
		return to + " stands on no floor"
	case slices.Index(Order, to) > level:
		return "that leads up"
	case library && slices.Contains(tolerated, i.File):
		return ""
	}
	if allowed, closed := importers[to]; closed && !slices.Contains(allowed, from) && !slices.Contains(allowed, i.File) {
		if len(allowed) == 0 {
			return "its driver is in another module"
		}
		return "that is for " + strings.Join(allowed, ", ") + " alone"
	}
	return ""
}

// target returns the directory or the client library that is imported, "" for any other import.
func (i Import) target() string {
	switch {
	case i.Path == Module:
		return Root
	case within(Module, i.Path):
		return strings.TrimPrefix(i.Path, Module+"/")
	}
	for library := range drivers {
		if within(library, i.Path) {
			return library
		}
	}
	return ""
}

func isHelper(dir string) bool {
	return slices.ContainsFunc(helpers, func(helper string) bool { return within(helper, dir) })
}

// within reports whether p is parent or lies below it.
func within(parent, p string) bool { return p == parent || strings.HasPrefix(p, parent+"/") }

// Strangers returns the directories of the files that are no floor, no guest, no helper and no
// program, sorted.
func Strangers(files []string) (dirs []string) {
	for _, file := range files {
		dir := path.Dir(file)
		if !slices.Contains(Order, dir) && !slices.Contains(guests, dir) && !isHelper(dir) && !within(programs, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
