// Package run carries out a bench: it starts the servers and the client processes, lets the peers take turns, and adds
// up what they did.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/bench/internal/board"
	"github.com/relock-go/relock/bench/internal/peer"
	"github.com/relock-go/relock/bench/internal/results"
	"github.com/relock-go/relock/bench/internal/wire"
	"github.com/relock-go/relock/bench/internal/worker"
)

// boardSlots is how many locks can be watched at once.
const boardSlots = 1 << 17

// Config says what to run.
type Config struct {
	Quick     bool
	Scenarios []string      // all if empty
	Peers     []string      // all that are there if empty
	Match     string        // only cells whose description holds this
	For       time.Duration // 0: as long as the plan takes
	Hold      time.Duration // of idle-waiters and watchdog; 0: as the mode has it
	Rounds    int           // 0: as the mode has it
	Redis     string        // URL; "": one of our own
	Etcd      string        // address; "": one of our own if the program is there
	Command   string        // as it was given, for the report
	Earlier   []string      // git refs at which relock takes part too

	Worker   []string // command line of a worker
	Java     string   // directory of the Java worker's project
	Specs    []peer.Spec
	Progress io.Writer
	Live     bool // Progress is a terminal
}

// runner is a run under way.
type runner struct {
	cfg     Config
	specs   []peer.Spec // that take part
	plan    plan
	server  *server
	nodes   *nodes // of quorums; nil where no cell needs them
	masters *nodes // of a Cluster; nil where no cell needs them
	etcd    *etcd
	dir     string
	board   *board.Board
	pool    pool // Go workers
	java    pool
	earlier map[string]*pool // by peer
	delays  map[delay]*wire.DelayProxy
	keys    int // how many were made up
	report  results.Run
	done    progress
}

// Run measures. When ctx ends it returns what was measured until then, marked as interrupted. It fails when nothing can
// be measured at all.
func Run(ctx context.Context, cfg Config) (*results.Run, error) {
	r := &runner{cfg: cfg, delays: make(map[delay]*wire.DelayProxy), earlier: make(map[string]*pool)}
	r.pool.command = cfg.Worker
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	r.overhead(ctx)
	for _, c := range r.plan.cells {
		if ctx.Err() != nil {
			break
		}
		r.cell(ctx, c)
	}
	r.report.Interrupted = ctx.Err() != nil
	r.done.end()
	return &r.report, nil
}

func (r *runner) prepare(ctx context.Context) (err error) {
	scenarios, err := pick("scenario", Scenarios(), r.cfg.Scenarios)
	if err != nil {
		return err
	}
	if err := r.choosePeers(); err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp("", "relock-bench-"); err != nil {
		return err
	}
	if err := r.buildEarlier(ctx); err != nil {
		return err
	}
	if r.server, err = openServer(ctx, r.cfg.Redis); err != nil {
		return err
	}
	r.findEtcd(ctx)
	r.findJava(ctx)
	if len(r.specs) == 0 {
		return fmt.Errorf("no peer is left to measure: %s", strings.Join(r.report.Notes, "; "))
	}
	if r.board, err = board.Create(r.boardPath(), boardSlots); err != nil {
		return fmt.Errorf("shared memory for the overlap check: %w", err)
	}
	if err := r.planCells(ctx, scenarios); err != nil {
		return err
	}
	return r.describe(ctx)
}

func (r *runner) boardPath() string { return filepath.Join(r.dir, "board") }

// choosePeers keeps the peers asked for. Baselines take part only where they are asked for, or belong to a cell.
func (r *runner) choosePeers() error {
	var names []string
	for _, s := range r.cfg.Specs {
		if !s.Baseline || slices.Contains(r.cfg.Peers, s.Name) {
			names = append(names, s.Name)
		}
	}
	chosen, err := pick("peer", names, r.cfg.Peers)
	for _, s := range r.cfg.Specs {
		if slices.Contains(chosen, s.Name) {
			r.specs = append(r.specs, s)
		}
	}
	return err
}

// leaveOut drops peers and says why.
func (r *runner) leaveOut(why string, which func(peer.Spec) bool) {
	var names []string
	r.specs = slices.DeleteFunc(r.specs, func(s peer.Spec) bool {
		if which(s) {
			names = append(names, s.Name)
		}
		return which(s)
	})
	if len(names) > 0 {
		r.note("%s left out: %s", strings.Join(names, ", "), why)
	}
}

func (r *runner) note(format string, args ...any) {
	r.report.Notes = append(r.report.Notes, fmt.Sprintf(format, args...))
}

func (r *runner) planCells(ctx context.Context, scenarios []string) error {
	cells, budget := fullCells(r.cfg.Hold), 9*time.Minute+30*time.Second
	r.plan.rounds, r.plan.warm = 3, 150*time.Millisecond
	if r.cfg.Quick {
		cells, budget = quickCells(r.cfg.Hold), 52*time.Second
		r.plan.rounds, r.plan.warm = 2, 60*time.Millisecond
	}
	if r.cfg.Rounds > 0 {
		r.plan.rounds = r.cfg.Rounds
	}
	for _, c := range cells {
		if slices.Contains(scenarios, c.scenario) && strings.Contains(c.title(), r.cfg.Match) {
			r.plan.cells = append(r.plan.cells, c)
		}
	}
	if len(r.plan.cells) == 0 && r.cfg.Match != "" {
		return fmt.Errorf("no cell of %s is described by %q; there are: %s", strings.Join(scenarios, ", "), r.cfg.Match,
			strings.Join(titles(cells), " | "))
	}
	r.findNodes(ctx)
	r.findMasters(ctx)
	if r.cfg.For > 0 {
		budget = r.cfg.For
	}
	r.plan.fit(r.specs, r.cfg.Specs, budget)
	if r.cfg.Rounds == 0 && r.plan.rounds > 2 && r.plan.slice < goodSlice {
		r.plan.rounds = 2
		r.plan.fit(r.specs, r.cfg.Specs, budget)
	}
	total := r.plan.total(r.specs, r.cfg.Specs)
	if total > budget+budget/10 {
		r.note("the time asked for, %v, is too short; the run takes about %v", budget, total.Round(time.Second))
	}
	r.done = progress{w: r.cfg.Progress, live: r.cfg.Live, left: total}
	return nil
}

func (c cell) title() string {
	res := results.Result{Scenario: c.scenario, Params: c.params}
	return res.Cell()
}

func titles(cells []cell) []string {
	var s []string
	for _, c := range cells {
		s = append(s, c.title())
	}
	return s
}

// cell lets the peers take turns, round by round, and keeps what came out.
func (r *runner) cell(ctx context.Context, c cell) {
	specs := c.peersOf(r.specs, r.cfg.Specs)
	tallies := make([]measured, len(specs))
	rounds := r.plan.roundsOf(c)
	for n := range rounds {
		for k := range specs {
			i := (k + n) % len(specs) // nobody is always the first
			if ctx.Err() != nil || tallies[i].err != nil {
				r.done.spent(r.plan.cost(c, specs[i]))
				continue
			}
			r.done.show("%s, round %d of %d: %s", c.title(), n+1, rounds, specs[i].Name)
			err := r.turn(ctx, c, specs[i], n, &tallies[i])
			if err != nil && ctx.Err() == nil {
				tallies[i].err = err
			}
			r.done.spent(r.plan.cost(c, specs[i]))
		}
	}
	for i, s := range specs {
		switch t := &tallies[i]; {
		case errors.Is(t.err, errUnknown):
			r.note("%s left out of %s: %v", s.Name, c.title(), t.err)
		case t.rounds > 0 || t.err != nil:
			r.keep(c, s, t)
		}
	}
}

// turn is one round of one peer.
func (r *runner) turn(ctx context.Context, c cell, s peer.Spec, n int, t *measured) error {
	switch c.kind {
	case idling:
		return r.idle(ctx, c, s, t)
	case keeping:
		return r.leases(ctx, c, s, t)
	case crashing:
		return r.crash(ctx, c, s, n, t)
	case visiting:
		return r.visits(ctx, c, s, t)
	}
	return r.loops(ctx, c, s, n, t)
}

func (r *runner) keep(c cell, s peer.Spec, t *measured) {
	res := t.result()
	res.Scenario, res.Params, res.Peer, res.Baseline = c.scenario, c.params, s.Name, s.Baseline
	res.Version = r.version(s)
	if res.CmdsPerAcq != nil && c.params.Nodes > 0 {
		res.CmdsPerNode = perNode(*res.CmdsPerAcq, c, s)
	}
	if strings.HasPrefix(c.scenario, "hot-") || c.params.Permits > 0 || c.scenario == "several" && c.params.Together < c.params.Locks {
		res.Pair = nil // with the critical section and others' turns in it, it tells nothing
	}
	if c.params.Hung > 0 && res.Pair != nil && res.Pair.N < fewPairs {
		res.Pair = nil // begun before the nodes hung, or too few for a median
	}
	r.report.Results = append(r.report.Results, res)
}

// perNode is what a node of the cell gets of n commands. A peer without a quorum uses one.
func perNode(n float64, c cell, s peer.Spec) *float64 {
	if s.Quorum {
		n /= float64(c.params.Nodes)
	}
	return ptr(n)
}

func (r *runner) version(s peer.Spec) string {
	for _, p := range r.report.Peers {
		if p.Name == s.Name {
			return p.Version
		}
	}
	return ""
}

// fewPairs are too few to tell a median from.
const fewPairs = 20

// key makes up a lock's name that was never used before.
func (r *runner) key(s peer.Spec) string {
	r.keys++
	return keyPrefix + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(r.keys) + "-" + s.Name
}

// open is the request that connects a worker to the peer.
func (r *runner) open(c cell, s peer.Spec) (worker.Request, error) {
	req := worker.Request{
		Do: worker.Open, Peer: s.Name, Redis: r.server.url, Embedded: r.server.embedded, LeaseMS: c.params.LeaseMS,
		Keep: c.kind == keeping, Board: r.boardPath(), Permits: c.params.Permits,
	}
	switch {
	case s.JVM != "":
		req.Peer = s.JVM
	case s.Known != "":
		req.Peer = s.Known
	}
	if r.etcd != nil {
		req.Etcd = r.etcd.addr
	}
	if !c.keyEach && c.kind != keeping {
		req.Waiters = max(1, c.params.Goroutines)
	}
	if c.params.Masters > 0 && s.Cluster {
		req.Redis, req.Cluster = r.masters.urls()[0], true
	}
	if c.params.Nodes > 0 {
		urls := r.nodes.urls()
		req.Redis = urls[0]
		if s.Quorum {
			req.Nodes = urls
		}
	}
	if c.params.DelayUS > 0 && s.Name != "none" {
		return r.delayed(c.params.DelayUS, req)
	}
	return req, nil
}

func (r *runner) poolOf(s peer.Spec) *pool {
	switch {
	case s.JVM != "":
		return &r.java
	case s.Worker != nil:
		return r.earlier[s.Name]
	}
	return &r.pool
}

func (r *runner) close() {
	r.pool.close()
	r.java.close()
	for _, p := range r.earlier {
		p.close()
	}
	for _, p := range r.delays {
		p.Close()
	}
	if r.etcd != nil {
		r.etcd.close()
	}
	for _, q := range []*nodes{r.nodes, r.masters} {
		if q != nil {
			q.close()
		}
	}
	if r.server != nil {
		r.server.disconnect()
	}
	if r.board != nil {
		_ = r.board.Close()
	}
	if r.dir != "" {
		_ = os.RemoveAll(r.dir)
	}
}

// errNoTLS is why a delay cannot be put before a server that speaks TLS: its certificate names another address.
var errNoTLS = errors.New("no delay can be put before a Redis that speaks TLS")
