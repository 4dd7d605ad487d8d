package peer

import (
	"os/exec"
	"runtime/debug"
	"strings"
)

// Version returns the version of the module a peer comes from, as it was built in; "" when it is not known.
func Version(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok || module == "" {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == module && dep.Replace == nil && dep.Version != "(devel)" {
			return dep.Version
		}
	}
	return treeVersion()
}

// treeVersion names the commit of the work tree that relock itself was built from.
func treeVersion() string {
	out, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "devel"
	}
	return strings.TrimSpace(string(out))
}
