package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

// redisFlag adds the flag -redis of subcommands that work on a Redis that runs already.
func redisFlag(flags *flag.FlagSet) *string {
	return flags.String("redis", "redis://localhost:6379", "the Redis at `URL`, redis://[user:password@]host:port[/db]")
}

// openLocks connects to the Redis at url. The caller calls done at the end. isUsage tells its failures for
// which another URL or option is the cure.
func openLocks(url string, opts ...relock.Option) (locks *relock.Client, done func(), err error) {
	t := target{URL: url}
	if _, err := t.options(); err != nil {
		return nil, nil, usageError{err}
	}
	var rdb rueidis.Client
	if rdb, err = t.open(); err != nil {
		return nil, nil, err
	}
	if locks, err = relock.New(rdb, opts...); err != nil {
		rdb.Close()
		return nil, nil, err
	}
	return locks, func() { locks.Close(); rdb.Close() }, nil
}

// usageError is an error of the command line.
type usageError struct{ error }

// isUsage reports whether err can be mended by another command line.
func isUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage) || errors.Is(err, relock.ErrInvalidName) || errors.Is(err, relock.ErrInvalidOption)
}

// runInspect is relock inspect: it prints what Redis knows of a lock.
func runInspect(std stdio, args []string) int {
	flags := flag.NewFlagSet("relock inspect", flag.ContinueOnError)
	url := redisFlag(flags)
	if status, ok := parse(flags, std, args); !ok {
		return status
	}
	if flags.NArg() != 1 {
		return misused(std, flags.Name(), fmt.Errorf("it takes the name of one lock, not %d", flags.NArg()))
	}
	name := flags.Arg(0)
	st, err := inspect(*url, name)
	switch {
	case isUsage(err):
		return misused(std, flags.Name(), err)
	case err != nil:
		return failed(std, flags.Name(), err)
	}
	printState(std.out, name, st)
	return statusOK
}

func inspect(url, name string) (relock.State, error) {
	locks, done, err := openLocks(url)
	if err != nil {
		return relock.State{}, err
	}
	defer done()
	return locks.Mutex(name).State(context.Background())
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
