// Command relock shows what the locks of package relock do, and uses them from a shell.
//
//	relock demo [-redis URL] [-nodes N] [-lock relock|none] [-for D] [-lease D]
//	relock run [-redis URL] [-lease D] [-wait D] [-grace D] NAME -- COMMAND [ARG ...]
//	relock inspect [-redis URL] NAME
//
// demo lets processes fight over one lock, kills one that holds it, and checks that nothing was lost. It ends with
// status 0 only if all was as promised. Given the URL of a Redis it leaves nothing there. With -nodes the lock stands on a
// quorum of servers, one of which hangs while another is stopped and comes back having forgotten everything.
//
// run runs a command under the lock NAME, with the fencing token in the environment as RELOCK_TOKEN, and ends with the
// command's exit status; 124 says that somebody else has the lock, 123 that it was lost, 125 that Redis cannot be used.
// Signals are forwarded. When the lock is lost the command's process group gets SIGTERM and after a grace time SIGKILL;
// at a terminal, where the command stays in the foreground group, it gets them alone. Should relock itself be killed,
// the command runs on without the lock: the token is what a store can refuse it by.
//
// inspect prints what Redis knows of the lock NAME.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

// Exit statuses of relock's own.
const (
	statusOK     = 0
	statusFailed = 1 // the work was tried and went wrong
	statusUsage  = 2 // the command line was wrong, nothing was tried
)

// stdio is what a subcommand reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// command is one subcommand. run returns the exit status.
type command struct {
	name  string
	args  string
	about string // "" for one that is no user's business
	run   func(std stdio, args []string) int
}

func commands() []command {
	return []command{
		{"demo", "[-redis URL] [-nodes N] [-lock relock|none] [-for D] [-lease D]",
			"processes fight over a lock, one is killed holding it", runDemo},
		{"run", "[-redis URL] [-lease D] [-wait D] [-grace D] NAME -- COMMAND [ARG ...]",
			"run a command under the lock NAME; status 124: not acquired, 123: lost, 125: Redis cannot be used", runRun},
		{"inspect", "[-redis URL] NAME", "print what Redis knows of the lock NAME", runInspect},
		{"worker", "", "", runWorker},
	}
}

func main() {
	os.Exit(run(stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Args[1:]))
}

// run hands the command line to its subcommand.
func run(std stdio, args []string) int {
	all := commands()
	if len(args) == 0 {
		return usage(std.err, all, "a subcommand is missing")
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		usage(std.out, all, "")
		return statusOK
	}
	for _, c := range all {
		if c.name == args[0] {
			return c.run(std, args[1:])
		}
	}
	return usage(std.err, all, fmt.Sprintf("there is no subcommand %q", args[0]))
}

func usage(w io.Writer, all []command, wrong string) int {
	if wrong != "" {
		fmt.Fprintf(w, "relock: %s\n\n", wrong)
	}
	fmt.Fprintln(w, "usage:")
	for _, c := range all {
		if c.about != "" {
			fmt.Fprintf(w, "  relock %s %s\n        %s\n", c.name, c.args, c.about)
		}
	}
	return statusUsage
}

// parse reads the flags of a subcommand. When ok is false the subcommand is over with status: the user asked for help,
// or was told what is wrong.
func parse(flags *flag.FlagSet, std stdio, args []string) (status int, ok bool) {
	flags.SetOutput(std.err)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return statusOK, false
	}
	return statusUsage, err == nil // the flag package has said what is wrong
}

// misused tells what is wrong with a command line.
func misused(std stdio, name string, err error) int {
	fmt.Fprintf(std.err, "%s: %v\nRun %s -h for its flags.\n", name, err, name)
	return statusUsage
}

// failed tells what went wrong.
func failed(std stdio, name string, err error) int {
	fmt.Fprintf(std.err, "%s: %v\n", name, err)
	return statusFailed
}
