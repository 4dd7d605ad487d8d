// Command relock shows what the locks of package relock do, and uses them from a shell.
//
//	relock run [flags] NAME ... [-- COMMAND [ARG ...]]
//	relock ls [flags]
//	relock top [flags]
//	relock ui [flags]
//	relock inspect [flags] NAME
//	relock unlock --force [flags] NAME
//	relock demo [flags]
//	relock version, relock --version
//	relock completion bash|zsh|fish
//
// run runs a command under the lock NAME, with the fencing token in the environment as
// RELOCK_TOKEN, and ends with the command's exit status. It also takes several locks, with -any one of
// several, and with -n a permit of a semaphore.
// ls, top and inspect show locks, unlock frees one that another owner holds. demo lets processes fight
// over one lock, kills one that holds it, and checks that nothing was lost.
//
// docs/cli.md in the repository has all flags, environment variables and exit statuses.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses. Only relock run uses 123 to 128, with the meanings that timeout(1) and env(1) give
// them.
const (
	statusOK          = 0
	statusFailed      = 1   // the work was tried and went wrong
	statusUsage       = 2   // the command line was wrong, nothing was tried
	statusLost        = 123 // the lock was lost while the command ran
	statusNotAcquired = 124 // somebody else holds the lock
	statusBroken      = 125 // Redis cannot be used
	statusNoExec      = 126 // the command cannot be started
	statusNotFound    = 127 // there is no such command
	statusSignal      = 128 // plus the number of the signal that ended the command, or the wait for the lock
)

// stdio is what a subcommand reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
	sole     bool // nothing but relock runs in this process: it is no test
}

func main() {
	os.Exit(run(stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, sole: true}, os.Args[1:]))
}

// run hands the command line to its subcommand and returns the exit status.
func run(std stdio, args []string) int {
	a := &app{std: std, dashed: slices.Contains(args, "--")}
	root := a.commands()
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetArgs(longDashes(root, args))
	cmd, err := root.ExecuteC()
	if err != nil {
		return misused(std, cmd.CommandPath(), err)
	}
	return a.status
}

// app holds the streams that subcommands share, and the exit status, which a subcommand sets.
type app struct {
	std    stdio
	dashed bool // the command line has a --
	status int
}

// commands returns the root command with relock's subcommands. The library is cobra: it completes in
// shells, and adds a quarter of kong's size to the binary. It lacks little: flags from variables, and
// flags with one dash.
func (a *app) commands() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "relock",
		Short:         "Distributed locks on Redis, from a shell",
		Long:          "relock shows the locks that services hold on Redis, and runs commands under them.",
		Example:       "  relock demo\n  relock run nightly -- backup\n  relock top",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("there is no subcommand %q; relock help lists them", args[0])
			}
			return nil
		},
		Run: func(root *cobra.Command, _ []string) {
			if version {
				a.printVersion()
				return
			}
			root.SetOut(a.std.err) // no subcommand: a script must not take the help for output
			a.status = statusUsage
			_ = root.Help()
		},
	}
	root.AddCommand(a.runCommand(), a.lsCommand(), a.topCommand(), a.uiCommand(), a.inspectCommand(), a.unlockCommand(),
		a.demoCommand(), a.versionCommand(), a.workerCommand())
	root.AddCommand(a.witnessCommand()...)
	for _, c := range root.Commands() {
		c.DisableFlagsInUseLine = true
		c.Flags().SortFlags = false
	}
	root.DisableFlagsInUseLine = true
	root.Flags().BoolVar(&version, "version", false, "print what relock version prints")
	root.SetUsageFunc(plainUsage(root.UsageFunc()))
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	return root
}

// plainUsage wraps cobra's usage function. It leaves out that a switch may have a value, and that relock can be
// run without a subcommand.
func plainUsage(usage func(*cobra.Command) error) func(*cobra.Command) error {
	const value = "[=true|false]"
	plain := strings.NewReplacer(value, strings.Repeat(" ", len(value)), "  relock\n", "")
	return func(c *cobra.Command) error {
		out := c.OutOrStderr()
		var text strings.Builder
		c.SetOut(&text)
		err := usage(c)
		c.SetOut(out)
		_, failed := plain.WriteString(out, text.String())
		return errors.Join(err, failed)
	}
}

// misused prints what is wrong with the command line, and returns statusUsage.
func misused(std stdio, name string, err error) int {
	fmt.Fprintf(std.err, "%s: %s\nRun %s -h for its flags.\n", name, harmless(err.Error()), name)
	return statusUsage
}

// failed prints err and returns status.
func failed(std stdio, status int, name string, err error) int {
	fmt.Fprintf(std.err, "%s: %s\n", name, harmless(err.Error()))
	return status
}
