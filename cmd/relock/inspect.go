package main

import (
	"context"
	"fmt"
	"io"

	"github.com/relock-go/relock/internal/operator"
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
	s, err := look.One(ctx, name)
	if err != nil {
		return err
	}
	places, reserved, err := look.Line(ctx, s.Names)
	if err != nil {
		return err
	}
	if !i.json {
		printState(i.std.out, &s, reserved)
		return nil
	}
	l := seenOf(&s)
	l.Last = reserved
	for _, p := range places {
		l.Queue = append(l.Queue, seenPlace{p.Client, p.Owner, clientOf(p.By), p.Side, p.Wants, p.Waited.Milliseconds()})
	}
	for _, h := range s.Holders {
		hold := seenHold{h.Owner, clientOf(h.By)}
		if s.Semaphore() {
			l.Holders = append(l.Holders, seenPart{hold, h.Count, ttlOf(h.TTL)})
		} else {
			l.Readers = append(l.Readers, hold)
		}
	}
	return printJSON(i.std.out, l)
}

func printState(w io.Writer, s *operator.Sighting, reserved int64) {
	if s.Semaphore() {
		printPermits(w, s)
		return
	}
	ttl, token, kind := "-", "-", "-"
	if s.Held {
		ttl = s.TTL.String()
		if s.TTL < 0 {
			ttl = "it never ends"
		}
	}
	if s.Token > 0 {
		token = fmt.Sprint(s.Token)
	}
	if s.Kind != "" {
		kind = s.Kind
	}
	fmt.Fprintf(w, "lock      %s\nholder    %s\ncount     %d\nTTL       %s\nwaiters   %d\ntoken     %s\nreserved  %d\n",
		operator.Plain(s.Names.Name), s.HolderText(), s.Count, ttl, s.Waiters, token, reserved)
	fmt.Fprintf(w, "kind      %s\nage       %s\nlongest   %s\n", kind, s.AgeText(), s.WaitText())
	if s.Nodes > 0 {
		fmt.Fprintf(w, "nodes     %d\n", s.Nodes)
	}
	if len(s.Holders) > 1 {
		for _, r := range s.Holders {
			fmt.Fprintf(w, "reader    %s\n", operator.Owner(r.Owner, r.By))
		}
		return
	}
	if by := s.By.String(); by != "" {
		fmt.Fprintf(w, "owner     %s\n", operator.Plain(s.Holder))
	}
}

// printPermits prints what Redis knows of a semaphore.
func printPermits(w io.Writer, s *operator.Sighting) {
	size, free := "-", "-"
	if s.Permits >= 0 {
		size, free = fmt.Sprint(s.Permits), fmt.Sprint(s.Free)
	}
	fmt.Fprintf(w, "lock      %s\nkind      %s\npermits   %s\nfree      %s\nheld      %d\nwaiters   %d\nlongest   %s\n",
		operator.Plain(s.Names.Name), s.Kind, size, free, s.Count, s.Waiters, s.WaitText())
	for _, h := range s.Holders {
		fmt.Fprintf(w, "holder    %s: permits %d, TTL %s\n", operator.Owner(h.Owner, h.By), h.Count, h.TTLText())
	}
	if !s.Whole() {
		fmt.Fprintf(w, "holder    and others\n")
	}
}
