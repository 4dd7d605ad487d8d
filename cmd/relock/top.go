package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/relock-go/relock/internal/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// topping is relock top.
type topping struct {
	std   stdio
	conn  connection
	flags *pflag.FlagSet
	once  bool
	rows  int
	sort  string
	match string
	every time.Duration
}

func (a *app) topCommand() *cobra.Command {
	t := topping{std: a.std}
	cmd := &cobra.Command{
		Use:   "top [flags]",
		Short: "Watch the locks, those first that most wait for",
		Long: "Watch the locks, those first that most wait for, and free one after a question. With -once they are printed once.\n" +
			"What it shows it reads by short commands, and takes a tenth of the time for it at most.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := t.check(); err != nil {
				return err
			}
			a.status = ended(a.std, "relock top", t.run())
			return nil
		},
	}
	t.flags = cmd.Flags()
	t.flags.BoolVar(&t.once, "once", false, "print what there is and end")
	t.flags.IntVar(&t.rows, "rows", 20, "how many locks -once prints, 0 for all")
	t.flags.StringVar(&t.sort, "sort", string(operator.ByWaiters), "what stands first, by `waiters|age|name`")
	t.flags.StringVar(&t.match, "match", "*", "only the names that match `PATTERN`, as Redis has them: * ? [a-z]")
	t.flags.DurationVar(&t.every, "every", time.Second, "how often it looks")
	t.conn.add(t.flags)
	return cmd
}

// check returns what is wrong with the flags.
func (t *topping) check() error {
	switch {
	case !operator.Order(t.sort).Valid():
		return fmt.Errorf("-sort %s: it is %s, %s or %s", t.sort, operator.ByWaiters, operator.ByAge, operator.ByName)
	case t.every < 100*time.Millisecond:
		return fmt.Errorf("-every %v: the shortest is 100ms", t.every)
	case t.rows < 0:
		return fmt.Errorf("-rows %d: it is not negative", t.rows)
	case !t.once && !isTerminal(t.std.out):
		return errors.New("the output is no terminal to watch locks on: say -once")
	}
	return nil
}

func (t *topping) run() error {
	redis, err := t.conn.open(t.flags)
	if err != nil {
		return err
	}
	defer redis.close()
	l := live{redis: redis, reader: redis.reader(), match: t.match, every: t.every}
	l.board = board{where: redis.where, order: operator.Order(t.sort), height: 1, rates: make(map[string]float64)}
	if t.once {
		return t.printOnce(&l)
	}
	if l.screen, err = tcell.NewScreen(); err != nil {
		return usageError{fmt.Errorf("this terminal is not understood: %w; say -once", err)}
	}
	return l.run()
}

func (t *topping) printOnce(l *live) error {
	began := time.Now()
	seen, err := l.reader.All(context.Background(), l.match)
	if err != nil {
		return err
	}
	l.board.see(seen, true, began, time.Since(began))
	return l.board.print(t.std.out, t.rows)
}

// print writes the first rows, or all if rows is 0, without the rates, which a single look does not
// have.
func (b *board) print(w io.Writer, rows int) error {
	fmt.Fprintln(w, b.title())
	if rows == 0 || rows > len(b.shown) {
		rows = len(b.shown)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(c []string) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", c[0], c[1], c[2], c[3], cut(c[5], widest), cut(c[6], widest))
	}
	line(b.columns(nil))
	for i := range rows {
		line(b.columns(&b.shown[i]))
	}
	return table.Flush()
}
