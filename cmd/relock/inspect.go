package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// inspection is relock inspect: it prints what Redis knows of a lock.
type inspection struct {
	std   stdio
	conn  connection
	flags *pflag.FlagSet
	json  bool
}

func (a *app) inspectCommand() *cobra.Command {
	i := inspection{std: a.std}
	cmd := &cobra.Command{
		Use:   "inspect [flags] NAME",
		Short: "Print what Redis knows of the lock NAME",
		Args:  oneName,

		ValidArgsFunction: lockNames(&i.conn),
		Run:               func(_ *cobra.Command, args []string) { a.status = ended(a.std, "relock inspect", i.run(args[0])) },
	}
	i.flags = cmd.Flags()
	i.flags.BoolVar(&i.json, "json", false, "one JSON object, with the queue of waiters")
	i.conn.add(i.flags)
	return cmd
}

func oneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("it takes the name of one lock, not %d", len(args))
	}
	return nil
}

func (i *inspection) run(name string) error {
	redis, err := i.conn.open(i.flags)
	if err != nil {
		return err
	}
	defer redis.close()
	ctx, look := context.Background(), redis.reader()
	s, err := look.one(ctx, name)
	if err != nil {
		return err
	}
	places, reserved, err := look.line(ctx, s.names)
	if err != nil {
		return err
	}
	if !i.json {
		printState(i.std.out, &s, reserved)
		return nil
	}
	l := s.seen()
	l.Last = reserved
	for _, p := range places {
		l.Queue = append(l.Queue, seenPlace{p.client, p.owner, p.waited.Milliseconds()})
	}
	return json.NewEncoder(i.std.out).Encode(l)
}

func printState(w io.Writer, s *sighting, reserved int64) {
	ttl, token, kind := "-", "-", "-"
	if s.held {
		ttl = s.ttl.String()
		if s.ttl < 0 {
			ttl = "it never ends"
		}
	}
	if s.token > 0 {
		token = fmt.Sprint(s.token)
	}
	if s.kind != "" {
		kind = s.kind
	}
	fmt.Fprintf(w, "lock      %s\nholder    %s\ncount     %d\nTTL       %s\nwaiters   %d\ntoken     %s\nreserved  %d\n",
		plain(s.names.Name), s.holderText(), s.count, ttl, s.waiters, token, reserved)
	fmt.Fprintf(w, "kind      %s\nage       %s\nlongest   %s\n", kind, s.ageText(), s.waitText())
	if s.nodes > 0 {
		fmt.Fprintf(w, "nodes     %d\n", s.nodes)
	}
}
