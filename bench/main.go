// Bench shows how distributed locks behave under contention: relock and its peers, on your Redis or on one of its own.
//
//	go run ./bench -quick
//
// See docs/benchmarks.md for what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/relock-go/relock/bench/internal/chart"
	"github.com/relock-go/relock/bench/internal/fleet"
	"github.com/relock-go/relock/bench/internal/peer"
	"github.com/relock-go/relock/bench/internal/results"
	"github.com/relock-go/relock/bench/internal/run"
	"github.com/relock-go/relock/bench/internal/worker"
)

// Exit codes.
const (
	failed      = 1 // a peer broke mutual exclusion or hung
	misused     = 2
	interrupted = 130
)

// errBroken is the failure of a run in which some peer failed at what a lock is for.
var errBroken = errors.New("some peer broke mutual exclusion or could not be measured; see the lines under its tables")

func main() {
	if os.Getenv(worker.Env) != "" {
		if err := worker.Serve(os.Stdin, os.Stdout, peer.All()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(failed)
		}
		return
	}
	if task := os.Getenv(fleet.Env); task != "" {
		if err := fleet.Serve(task, os.Stdin, os.Stdout); err != nil {
			os.Exit(failed)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	err := command(ctx, os.Args[1:])
	switch {
	case err == nil && ctx.Err() != nil:
		os.Exit(interrupted)
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errBroken):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(failed)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(misused)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "compare":
			return compare(args[1:])
		case "report":
			return report(args[1:])
		case "election":
			return elect(ctx, args[1:])
		case "schedule":
			return schedule(ctx, args[1:])
		}
	}
	return measure(ctx, args)
}

// output is where results go besides the terminal.
type output struct {
	json, html, svg string
}

func (o *output) flags(f *flag.FlagSet) {
	f.StringVar(&o.html, "html", "", "write a self-contained page with charts to `FILE`")
	f.StringVar(&o.svg, "svg", "", "write the charts as SVG files into `DIR`")
}

func (o *output) write(r *results.Run) error {
	var errs []error
	if o.json != "" {
		errs = append(errs, r.Write(o.json))
	}
	if o.html != "" {
		errs = append(errs, chart.WritePage(o.html, r))
	}
	if o.svg != "" {
		errs = append(errs, chart.WriteSVGs(o.svg, r))
	}
	return errors.Join(errs...)
}

func measure(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.Usage = func() { usage(f) }
	var out output
	cfg := run.Config{Specs: peer.All(), Progress: os.Stderr, Live: isTerminal(os.Stderr)}
	f.BoolVar(&cfg.Quick, "quick", false, "the short run, a minute and a half, to get an impression")
	scenarios := f.String("scenario", "", "only these `NAMES`, with commas between: "+strings.Join(run.Scenarios(), " "))
	peers := f.String("peers", "", "only these `NAMES`, with commas between: "+strings.Join(peerNames(), " "))
	f.StringVar(&cfg.Match, "match", "", "only cells whose title holds `TEXT`, as \"64 goroutines\"")
	f.DurationVar(&cfg.For, "for", 0, "how long the run may take (default 9m30s, with -quick 52s)")
	f.DurationVar(&cfg.Hold, "hold", 0, "how long idle-waiters and watchdog hold (default 2s to 11s, by the cell)")
	f.IntVar(&cfg.Rounds, "rounds", 0, "turns of each peer in each cell (default 3, or 2 where those would be too short)")
	f.StringVar(&cfg.Redis, "redis", "", "the Redis to measure on, as `redis://host:port`; one of its own by default")
	earlier := f.String("peer-at", "", "measure relock as it was at these git `REFS`, too: each becomes a peer relock@REF")
	f.StringVar(&cfg.Etcd, "etcd", os.Getenv("RELOCK_ETCD"),
		"`host:port` of an etcd; by default the one in PATH is started")
	f.StringVar(&out.json, "json", "", "write the results to `FILE`")
	out.flags(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("what is %q? The bench takes flags, or the commands compare, report, election and schedule; see -help", f.Arg(0))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Worker, cfg.Java = []string{self}, javaDir()
	cfg.Scenarios, cfg.Peers, cfg.Earlier = list(*scenarios), list(*peers), list(*earlier)
	cfg.Command = strings.Join(append([]string{"go run ./bench"}, args...), " ")
	r, err := run.Run(ctx, cfg)
	if err != nil {
		return err
	}
	r.Table(os.Stdout)
	if err := out.write(r); err != nil {
		return err
	}
	for i := range r.Results {
		if r.Results[i].Broken() {
			return errBroken
		}
	}
	return nil
}

func usage(f *flag.FlagSet) {
	fmt.Fprint(f.Output(), "How locks behave under contention.\n\n"+
		"  go run ./bench [flags]                        measure\n"+
		"  go run ./bench compare OLD.json NEW.json      how two runs differ\n"+
		"  go run ./bench report [flags] RESULTS.json    table, page and charts of an earlier run\n"+
		"  go run ./bench election [flags]               elections beside etcd's\n"+
		"  go run ./bench schedule [flags]               jobs of gocron's beside its own lock\n\nFlags:\n")
	f.PrintDefaults()
}

func compare(args []string) error {
	if len(args) != 2 {
		return errors.New("compare takes two result files: compare OLD.json NEW.json")
	}
	before, err := results.Read(args[0])
	if err != nil {
		return err
	}
	after, err := results.Read(args[1])
	if err != nil {
		return err
	}
	if results.Compare(os.Stdout, before, after) == 0 {
		return errors.New("the two runs have no peer and cell in common")
	}
	return nil
}

func report(args []string) error {
	f := flag.NewFlagSet("report", flag.ContinueOnError)
	var out output
	out.flags(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return errors.New("report takes one result file: report [-html FILE] [-svg DIR] RESULTS.json")
	}
	r, err := results.Read(f.Arg(0))
	if err != nil {
		return err
	}
	r.Table(os.Stdout)
	return out.write(r)
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' })
}

func peerNames() []string {
	var names []string
	for _, s := range peer.All() {
		if !s.Baseline {
			names = append(names, s.Name)
		}
	}
	return names
}

// javaDir is where the Java worker's project lies, seen from the repository's root or from bench.
func javaDir() string {
	if _, err := os.Stat(filepath.Join("redisson", "pom.xml")); err == nil {
		return "redisson"
	}
	return filepath.Join("bench", "redisson")
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
