package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

const libraryModule = "github.com/relock-go/relock"

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of relock, of the library in it, and of Go",
		Args:  cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			info, _ := debug.ReadBuildInfo()
			printVersion(a.std.out, info)
		},
	}
}

// printVersion prints what the build tells of itself; info may be nil.
func printVersion(w io.Writer, info *debug.BuildInfo) {
	command, library, commit := "unknown", "", ""
	if info != nil {
		command = info.Main.Version
		for _, dep := range info.Deps {
			if dep.Path == libraryModule {
				library = dep.Version
			}
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				commit = setting.Value
			}
		}
	}
	fmt.Fprintf(w, "relock   %s\n", command)
	if library != "" {
		fmt.Fprintf(w, "library  %s\n", library)
	}
	if commit != "" {
		fmt.Fprintf(w, "commit   %s\n", commit)
	}
	fmt.Fprintf(w, "go       %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
