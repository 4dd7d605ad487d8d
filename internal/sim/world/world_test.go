package world

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"flag"
	"fmt"
	"hash"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/sim/overlay"
	"github.com/stretchr/testify/require"
)

var (
	seeds    = flag.Int("seeds", 0, "how many seeds to run; 0 for the corpus and the few of every test run")
	from     = flag.Uint64("from", 1, "the first seed")
	fresh    = flag.Bool("fresh", false, "begin with a seed that nobody has run, instead of -from")
	lasting  = flag.Duration("lasting", 0, "run seeds for so long instead of a number")
	class    = flag.String("kind", "", "the class of faults, else the seed's own")
	topo     = flag.String("topology", "", "the topology, else the seed's own")
	lines    = flag.Int("lines", 400, "of a trace, the last ones")
	traced   = flag.Bool("show", false, "print the trace of each seed")
	keep     = flag.Bool("keep", false, "go on after a violation")
	digested = flag.Bool("digest", false, "print a hash of all traces, which another build has too if it simulates the same")
	patience = flag.Duration("shrink", 20*time.Second, "how long to look for the few faults that matter")
)

//go:embed corpus.txt
var corpus string

// few is how many seeds every test run has.
const few = 40

func TestSimulation(t *testing.T) {
	if *seeds == 0 && *lasting == 0 {
		t.Run("corpus", runCorpus)
		*seeds = few
	}
	first := *from
	if *fresh {
		first = uint64(time.Now().UnixMilli())
	}
	if *workers != 0 {
		runWorkers(t, first)
		return
	}
	defer overlay.Alone()()
	var sum tally
	if *digested {
		sum.digest = sha256.New()
	}
	began := time.Now()
	for i := 0; *lasting > 0 && time.Since(began) < *lasting || *lasting == 0 && i < *seeds; i++ {
		if !sum.run(t, first+uint64(i), Options{Class: *class, Topology: *topo, Lines: *lines, Trace: *traced}) && !*keep {
			break
		}
	}
	t.Logf("seeds %d to %d: %v", first, first+uint64(sum.seeds)-1, sum.rate(time.Since(began)))
}

// runCorpus runs what failed once.
func runCorpus(t *testing.T) {
	var sum tally
	for in := bufio.NewScanner(strings.NewReader(corpus)); in.Scan(); {
		if strings.HasPrefix(in.Text(), "#") {
			continue
		}
		fields := strings.Split(in.Text(), "\t")
		require.Len(t, fields, 4, "seed, class, topology, what it found")
		seed, err := strconv.ParseUint(fields[0], 10, 64)
		require.NoError(t, err)
		sum.run(t, seed, Options{Class: fields[1], Topology: fields[2]})
	}
}

// tally is what several seeds came to.
type tally struct {
	seeds, bad, grants, commands int
	simulated                    time.Duration
	digest                       hash.Hash // of all traces, nil for none
}

// run runs a seed, and tells what it found. It returns false where that is a violation.
func (s *tally) run(t *testing.T, seed uint64, o Options) bool {
	defer guard(seed, o)()
	res := s.play(t, seed, o)
	s.seeds, s.grants, s.commands, s.simulated = s.seeds+1, s.grants+res.Grants, s.commands+res.Commands, s.simulated+res.Simulated
	if res.Violation == "" {
		if o.Trace {
			t.Logf("%s", res.report())
		}
		return true
	}
	s.bad++
	t.Errorf("%s", res.report())
	if len(res.Fired) > 0 && *patience > 0 {
		small := Shrink(t, seed, o, res, *patience)
		t.Errorf("with %d of %d faults:\n%s", len(small.Fired), len(res.Fired), small.report())
	}
	return false
}

// play runs a seed, with the whole of its trace where that is wanted for the digest.
func (s *tally) play(t *testing.T, seed uint64, o Options) (res *Result) {
	if s.digest != nil {
		o.Trace, o.Lines = true, math.MaxInt
	}
	overlay.Run(seed, func() { res = Run(t, seed, o) })
	if s.digest != nil {
		_, err := io.WriteString(s.digest, res.Trace)
		require.NoError(t, err)
	}
	return res
}

func (s *tally) rate(took time.Duration) string {
	sec := took.Seconds()
	text := fmt.Sprintf("%d seeds, %d bad, in %v: %.1f seeds/s, %.0f grants/s, %.0f commands/s, %.0f simulated s per s",
		s.seeds, s.bad, took.Round(time.Millisecond), float64(s.seeds)/sec, float64(s.grants)/sec, float64(s.commands)/sec,
		s.simulated.Seconds()/sec)
	if s.digest != nil {
		text += fmt.Sprintf(", traces %x", s.digest.Sum(nil)[:8])
	}
	return text
}

// report is what a reader needs of a run that failed.
func (r *Result) report() string {
	return fmt.Sprintf("%v\n%s\n%s\nfaults: %q\n%s", r.Plan, r.Violation, r.Trace, r.Fired,
		again(r.Plan.Seed, r.Plan.Class, r.Plan.Topology.Name))
}
