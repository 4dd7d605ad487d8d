package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/relock-go/relock/bench/internal/fleet"
	"github.com/relock-go/relock/bench/internal/run"
)

// elect measures elections, one peer after the other.
func elect(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("bench election", flag.ContinueOnError)
	rounds := f.Int("rounds", 20, "how often the leader is upset in each way")
	if err := parse(f, args); err != nil {
		return err
	}
	for _, peer := range fleet.ElectionPeers() {
		store := run.OwnRedis
		if peer == "etcd" {
			store = func() (string, func(), error) { return run.OwnEtcd(ctx) }
		}
		addr, closes, err := store()
		if err != nil {
			return err
		}
		err = fleet.Elect(ctx, os.Stdout, peer, addr, *rounds)
		closes()
		if err != nil {
			return err
		}
	}
	return nil
}

// schedule measures schedulers, all peers at once: they mostly wait.
func schedule(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("bench schedule", flag.ContinueOnError)
	ticks := f.Int("ticks", 200, "how many seconds are played")
	job := f.Duration("job", 10*time.Millisecond, "how long the job takes")
	if err := parse(f, args); err != nil {
		return err
	}
	peers := fleet.SchedulerPeers()
	runs, errs := make([]fleet.Runs, len(peers)), make([]error, len(peers))
	var all sync.WaitGroup
	for i, peer := range peers {
		addr, closes, err := run.OwnRedis()
		if err != nil {
			return err
		}
		defer closes()
		all.Go(func() { runs[i], errs[i] = fleet.Schedule(ctx, peer, addr, *job, *ticks) })
	}
	all.Wait()
	for i, peer := range peers {
		if errs[i] == nil {
			fmt.Printf("%s, job of %v: %v\n", peer, *job, runs[i])
		}
	}
	return errors.Join(errs...)
}

// parse reads flags, and refuses what is none.
func parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("what is %q? %s takes flags only", f.Arg(0), f.Name())
	}
	return nil
}
