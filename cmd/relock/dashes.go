package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// longDashes lets flags begin with one dash, as with Go's own commands: it adds the second one that
// cobra wants. It leaves the values of flags as they are, and all arguments after --, which belong to
// the command to run.
func longDashes(root *cobra.Command, args []string) []string {
	args = append([]string(nil), args...)
	from, to := 0, len(args)
	if len(args) > 1 && strings.HasPrefix(args[0], "__complete") {
		from, to = 1, len(args)-1 // the user is still typing the last argument
	}
	cmd := root
	for i := from; i < to; i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return args
		case len(arg) < 2 || arg[0] != '-':
			if cmd == root {
				cmd = subcommand(root, arg)
			}
		default:
			if arg[1] != '-' && len(strings.SplitN(arg[1:], "=", 2)[0]) > 1 {
				args[i] = "-" + arg
			}
			if takesNext(cmd, args[i]) {
				i++
			}
		}
	}
	return args
}

// subcommand returns root's subcommand of that name, or root if there is none.
func subcommand(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return root
}

// takesNext reports whether arg is a flag whose value is the next argument.
func takesNext(cmd *cobra.Command, arg string) bool {
	if strings.Contains(arg, "=") {
		return false
	}
	flag := cmd.Flags().Lookup(strings.TrimLeft(arg, "-"))
	if flag == nil && len(arg) == 2 {
		flag = cmd.Flags().ShorthandLookup(arg[1:])
	}
	return flag != nil && flag.NoOptDefVal == ""
}
