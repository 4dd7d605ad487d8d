package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/relock-go/relock/internal/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// forcing is relock unlock -force.
type forcing struct {
	std   stdio
	conn  connection
	flags *pflag.FlagSet
	force bool
	yes   bool
}

func (a *app) unlockCommand() *cobra.Command {
	f := forcing{std: a.std}
	cmd := &cobra.Command{
		Use:   "unlock --force [flags] NAME",
		Short: "Free the lock NAME whoever holds it, and hand it to the next waiter",
		Long: "Free the lock NAME whoever holds it, and hand it to the next waiter. The holder is told, but may still act for a\n" +
			"moment: only fencing tokens keep it out then. Of a semaphore all permits are freed. Status 1: the answer was\n" +
			"not yes.",
		Args:              oneName,
		ValidArgsFunction: lockNames(&f.conn),
		RunE: func(_ *cobra.Command, args []string) error {
			if !f.force {
				return errors.New("it is somebody else's lock: say --force")
			}
			a.status = f.run(args[0])
			return nil
		},
	}
	f.flags = cmd.Flags()
	f.flags.BoolVar(&f.force, "force", false, "free it though somebody else holds it; there is no other way here")
	f.flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	f.conn.add(f.flags)
	return cmd
}

func (f *forcing) run(name string) int {
	redis, err := f.conn.open(f.flags)
	if err != nil {
		return ended(f.std, "relock unlock", err)
	}
	defer redis.close()
	if !f.yes {
		s, err := redis.reader().One(context.Background(), name)
		switch {
		case err != nil:
			return ended(f.std, "relock unlock", err)
		case !s.Held && s.Nodes == 0:
			fmt.Fprintf(f.std.out, "nobody holds %q\n", name)
			return statusOK
		case !f.agreed(question(&s)):
			fmt.Fprintf(f.std.err, "relock unlock: %q was left as it is\n", name)
			return statusFailed
		}
	}
	freed, err := force(redis, name)
	if err != nil {
		return ended(f.std, "relock unlock", err)
	}
	if freed {
		fmt.Fprintf(f.std.out, "freed %q\n", name)
	} else {
		fmt.Fprintf(f.std.out, "nobody holds %q\n", name)
	}
	return statusOK
}

// question returns the question to ask before a lock is freed by force.
func question(s *operator.Sighting) string {
	text := fmt.Sprintf("Free %q, held by %s", s.Names.Name, s.WhoText())
	if s.Semaphore() {
		text = fmt.Sprintf("Free all %d permits of %q that are held, by %s", s.Count, s.Names.Name, s.WhoText())
	}
	if s.Held && s.Age >= 0 {
		text += " for " + operator.Short(s.Age)
	}
	if s.Waiters > 0 {
		text += fmt.Sprintf(", %d waiting", s.Waiters)
	}
	return text + "? [y/N] "
}

func (f *forcing) agreed(question string) bool {
	fmt.Fprint(f.std.err, question)
	answer, _ := bufio.NewReader(f.std.in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// force frees a lock, whichever owner holds it. It returns false if no owner held it.
func force(redis *access, name string) (bool, error) {
	locks, err := redis.locks()
	if err != nil {
		return false, err
	}
	defer locks.Close()
	return operator.Force(context.Background(), locks, name)
}
