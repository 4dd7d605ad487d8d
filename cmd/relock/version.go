package main

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

const libraryModule = "github.com/relock-go/relock"

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of relock, of the library in it, and of Go",
		Args:  cobra.NoArgs,
		Run:   func(*cobra.Command, []string) { a.printVersion() },
	}
}

func (a *app) printVersion() {
	info, _ := debug.ReadBuildInfo()
	printVersion(a.std.out, info)
}

// printVersion prints the versions in the build information; info may be nil.
func printVersion(w io.Writer, info *debug.BuildInfo) {
	command, library := "unknown", ""
	if info != nil {
		command = info.Main.Version
		for _, dep := range info.Deps {
			if dep.Path == libraryModule {
				library = dep.Version
			}
		}
	}
	fmt.Fprintf(w, "relock   %s\n", command)
	if library != "" {
		fmt.Fprintf(w, "library  %s\n", library)
	}
	if commit := commitOf(info); commit != "" {
		fmt.Fprintf(w, "commit   %s\n", commit)
	}
	fmt.Fprintf(w, "go       %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commitOf returns the commit that was built: from the clone's data in info, else from the end of a
// pseudo-version, v0.0.0-20060102150405-0123456789ab. For a release it returns "": the version names it.
func commitOf(info *debug.BuildInfo) string {
	if info == nil {
		return "unknown"
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		if settings["vcs.modified"] == "true" {
			commit += ", and changes to it"
		}
		return commit
	}
	if pseudo := pseudoVersion.FindStringSubmatch(info.Main.Version); pseudo != nil {
		return pseudo[1]
	}
	if strings.HasPrefix(info.Main.Version, "v") {
		return ""
	}
	return "unknown: it was built with -buildvcs=false, or outside of a clone"
}

var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(?:\+|$)`)
