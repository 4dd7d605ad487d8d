package world

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"flag"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/sim/overlay"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

var (
	seeds    = flag.Int("seeds", 0, "how many seeds to run; 0 for the corpus and the few of every test run")
	from     = flag.Uint64("from", 1, "the first seed")
	word     = flag.String("seed", "", "one seed, as a failure tells it, instead of -from, -kind, -topology and -seeds")
	only     = flag.String("faults", "", "the only faults there are, with ; between them, or none")
	played   = flag.String("rounds", "", "the only rounds there are")
	names    = flag.String("names", "", "the only locks there are")
	fresh    = flag.Bool("fresh", false, "begin with a seed that nobody has run, instead of -from")
	lasting  = flag.Duration("lasting", 0, "run seeds for so long instead of a number")
	class    = flag.String("kind", "", "the class of faults, else the seed's own")
	topo     = flag.String("topology", "", "the topology, else the seed's own")
	redis    = flag.String("redis", "", "which server is simulated: 6, 8 or valkey; Redis 7.0 where it is empty")
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
	chooses(t)
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
		if !sum.runs(t, first+uint64(i), options()) && !*keep {
			break
		}
	}
	t.Logf("seeds %d to %d: %v", first, first+uint64(sum.seeds)-1, sum.rate(time.Since(began)))
}

// chooses takes the word for a seed apart.
func chooses(t *testing.T) {
	_, is := Redises[*redis]
	require.True(t, is, "no server is called %q", *redis)
	if *word == "" {
		return
	}
	seed, kind, topology, err := ParseWord(*word)
	require.NoError(t, err)
	if kind != "" && !slices.Contains(Classes, kind) && sceneOf(kind) == nil {
		t.Fatalf("no class of faults and no scene is called %q", kind)
	}
	*from, *seeds, *class, *topo, *word = seed, 1, cmp.Or(kind, *class), cmp.Or(topology, *topo), ""
}

// otherKinds are scenes with each kind of lock that no other plan has.
var otherKinds = []string{"readers", "languages", "semaphores", "tongues"}

// otherScenes are those of which some fresh seeds are: no other plan has several locks at once, or functions that run once.
var otherScenes = append([]string{"all", "any", "flight"}, otherKinds...)

// TestFreshSeedsPlayEachKind demands that make sim, which chooses no scene, plays each kind that the library has.
func TestFreshSeedsPlayEachKind(t *testing.T) {
	forms := []Form{Mutexes{}.Form()}
	for _, name := range otherKinds {
		forms = append(forms, sceneOf(name).Kind().Form())
	}
	played := map[string]bool{}
	for _, form := range forms {
		played[form.Name] = true
		if form.RW {
			played[wire.Read.Name], played[wire.Write.Name] = true, true
		}
	}
	require.Len(t, played, int(wire.Kinds()), "each kind has a scene among otherKinds")
}

// runs runs a seed. Of those that are chosen neither by their faults nor by their topology, a quarter are of otherScenes.
func (s *tally) runs(t *testing.T, seed uint64, o Options) bool {
	if d := throw(seed, "read-write"); *lasting > 0 && o.Class == "" && o.Topology == "" && d.of(4) == 0 {
		o.Class = otherScenes[d.of(len(otherScenes))]
	}
	return s.run(t, seed, o)
}

// options are those of the flags.
func options() Options {
	return Options{
		Class: *class, Topology: *topo, Redis: *redis, Lines: *lines, Trace: *traced,
		Only: ParseList(*only, ";"), Rounds: ParseList(*played, " "), Names: ParseList(*names, " "),
	}
}

// runCorpus runs what failed once.
func runCorpus(t *testing.T) {
	var sum tally
	for in := bufio.NewScanner(strings.NewReader(corpus)); in.Scan(); {
		if strings.HasPrefix(in.Text(), "#") {
			continue
		}
		fields := strings.Split(in.Text(), "\t")
		require.Len(t, fields, 4, "seed, class or scene, topology, what it found")
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
	tell(t, res, o, func(o Options) *Result { return s.play(t, seed, o) })
	return false
}

// tell prints what failed, and the same as small as it is found to fail.
func tell(t *testing.T, failed *Result, o Options, play func(Options) *Result) {
	t.Errorf("%s", failed.report())
	if *patience > 0 {
		small := Shrink(play, o, failed, *patience)
		t.Errorf("with %d of %d faults, %d of %d rounds, %d of %d names:\n%s", len(small.Fired), len(failed.Fired),
			len(small.Rounds), len(failed.Rounds), len(small.Names), len(failed.Names), small.report())
	}
}

// play runs a seed, with the whole of its trace where that is wanted for the digest.
func (s *tally) play(t *testing.T, seed uint64, o Options) (res *Result) {
	if s.digest != nil {
		o.Trace, o.Lines = true, math.MaxInt
	}
	if scene := sceneOf(o.Class); scene != nil {
		res = scene.Play(t, seed, o)
	} else {
		res = Run(t, seed, o)
	}
	if s.digest != nil {
		_, err := io.WriteString(s.digest, res.Trace)
		require.NoError(t, err)
		t.Logf("seed %d has the trace %x", seed, sha256.Sum256([]byte(res.Trace)))
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
	return fmt.Sprintf("%v\n%s\n%s\nfaults: %s\n%s", r.Plan, r.Violation, r.Trace, spellFaults(r.Fired), r.Again())
}

// spellFaults is the faults, unless they are too many to read.
func spellFaults(fired []string) string {
	if len(fired) > 40 {
		return strconv.Itoa(len(fired))
	}
	return strings.Join(fired, "; ")
}
