package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/relock-go/relock/internal/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// listing is relock ls.
type listing struct {
	std   stdio
	conn  connection
	flags *pflag.FlagSet
	match string
	json  bool
}

func (a *app) lsCommand() *cobra.Command {
	l := listing{std: a.std}
	cmd := &cobra.Command{
		Use:   "ls [flags]",
		Short: "List the locks that are held",
		Long: "List the locks that are held: by whom, since when, for how long, how many processes wait,\n" +
			"and how long the first of them has waited.\n" +
			"It only reads, by short commands.",
		Example: "  relock ls -match 'order:*'\n  relock ls -json | jq -r 'select(.waiters > 10) | .name'",
		Args:    cobra.NoArgs,
		Run:     func(*cobra.Command, []string) { a.status = ended(a.std, "relock ls", l.run()) },
	}
	l.flags = cmd.Flags()
	l.flags.StringVar(&l.match, "match", "*", "only the names that match `PATTERN`, as Redis has them: * ? [a-z]")
	l.flags.BoolVar(&l.json, "json", false, "one JSON object a line")
	l.conn.add(l.flags)
	return cmd
}

func (l *listing) run() error {
	redis, err := l.conn.open(l.flags)
	if err != nil {
		return err
	}
	defer redis.close()
	locks, err := redis.reader().All(context.Background(), l.match)
	if err != nil {
		return err
	}
	if l.json {
		return l.printJSON(locks)
	}
	table := tabwriter.NewWriter(l.std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tKIND\tHOLDER\tCOUNT\tAGE\tTTL\tWAITERS\tLONGEST")
	for _, s := range locks {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%d\t%s\n",
			cut(operator.Plain(s.Names.Name), widest), s.Kind, cut(s.HolderText(), widest), s.Count, s.AgeText(), s.TTLText(), s.Waiters, s.WaitText())
	}
	return table.Flush()
}

func (l *listing) printJSON(locks []operator.Sighting) error {
	for _, s := range locks {
		if err := printJSON(l.std.out, seenOf(&s)); err != nil {
			return err
		}
	}
	return nil
}

// lockNames returns the completion of a lock's name, for the shell.
func lockNames(conn *connection) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		redis, err := conn.open(cmd.Flags())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer redis.close()
		ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
		defer cancel()
		locks, _ := redis.reader().All(ctx, operator.Literal(begun)+"*")
		var names []string
		for _, s := range locks {
			if name := s.Names.Name; operator.Plain(name) == name { // the shell shows it as it is, each on a line
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
