// Command release makes a release of all modules on main:
//
//	go run ./internal/tools/release v0.2.0
//
// It sets the version in each go.mod and in go.work, dates the section of CHANGELOG.md, commits, and
// tags the commit once for each released module. It pushes nothing, and prints the line that pushes
// all of it. If anything is wrong, or Ctrl-C ends it, it says what and changes nothing.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" {
		fmt.Fprintln(os.Stderr, "usage: make release VERSION=v0.2.0")
		os.Exit(2)
	}
	version := os.Args[1]
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	push, err := release(ctx, ".", version, time.Now())
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s is not released:\n%v\n", version, err)
		os.Exit(1)
	}
	fmt.Printf("%s is released here. Nobody else has it yet. Look at it with git show, then push all of it:\n\n%s\n", version, push)
}
