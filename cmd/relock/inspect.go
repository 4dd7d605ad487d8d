package main

import (
	"context"
	"fmt"
	"io"

	"github.com/relock-go/relock"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// inspection is relock inspect: it prints what Redis knows of a lock.
type inspection struct {
	std   stdio
	conn  connection
	flags *pflag.FlagSet
}

func (a *app) inspectCommand() *cobra.Command {
	i := inspection{std: a.std}
	cmd := &cobra.Command{
		Use:   "inspect [flags] NAME",
		Short: "Print what Redis knows of the lock NAME",
		Args:  oneName,
		Run:   func(_ *cobra.Command, args []string) { a.status = ended(a.std, "relock inspect", i.run(args[0])) },
	}
	i.flags = cmd.Flags()
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
	locks, err := redis.locks()
	if err != nil {
		return err
	}
	defer locks.Close()
	ctx, cancel := soon(context.Background())
	defer cancel()
	st, err := locks.Mutex(name).State(ctx)
	if err == nil {
		printState(i.std.out, name, st)
	}
	return err
}

func printState(w io.Writer, name string, st relock.State) {
	holder, ttl := "nobody", "-"
	if st.Held {
		holder, ttl = st.Holder, st.TTL.String()
		if st.TTL < 0 {
			ttl = "it never ends"
		}
	}
	token := "-"
	if st.HolderToken > 0 {
		token = fmt.Sprint(st.HolderToken)
	}
	fmt.Fprintf(w, "lock      %s\nholder    %s\ncount     %d\nTTL       %s\nwaiters   %d\ntoken     %s\nreserved  %d\n",
		name, holder, st.Count, ttl, st.Waiters, token, st.Token)
}
