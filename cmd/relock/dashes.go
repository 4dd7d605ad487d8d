package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// longDashes gives flags that begin with one dash, as Go's own commands take them, a second one.
// What stands behind a flag as its value stays as it is, and so does all behind --, which is a
// command's.
func longDashes(root *cobra.Command, args []string) []string {
	args = append([]string(nil), args...)
	from, to := 0, len(args)
	if len(args) > 1 && strings.HasPrefix(args[0], "__complete") {
		from, to = 1, len(args)-1 // the last is being typed
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

// subcommand returns root where there is no such subcommand.
func subcommand(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return root
}

// takesNext reports whether the value of a flag is the next argument.
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
