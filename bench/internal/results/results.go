// Package results is what a run of the bench found, as it stands in the JSON file, in the terminal's tables and in
// comparisons of two runs.
package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Schema is the version of the JSON file. It rises when a field changes its meaning or goes.
const Schema = 1

// Run is a whole run.
type Run struct {
	Schema      int       `json:"schema"`
	Time        time.Time `json:"time"`
	Command     string    `json:"command"`
	Mode        string    `json:"mode"` // quick, full
	Interrupted bool      `json:"interrupted,omitempty"`
	Machine     Machine   `json:"machine"`
	Peers       []Peer    `json:"peers"`
	Notes       []string  `json:"notes,omitempty"` // what was left out and why
	Results     []Result  `json:"results"`
}

// Machine is where it ran.
type Machine struct {
	OS         string  `json:"os"`
	Arch       string  `json:"arch"`
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	MemoryMB   int64   `json:"memory_mb"`
	Go         string  `json:"go"`
	Redis      string  `json:"redis"`
	Etcd       string  `json:"etcd,omitempty"`
	Java       string  `json:"java,omitempty"`
	RTTMicros  float64 `json:"redis_rtt_us"` // median PING
	OverheadNS float64 `json:"overhead_ns"`  // of the bench per acquisition, measured with no lock
}

// Peer is a lock that took part.
type Peer struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Setup   string `json:"setup"`
}

// Params tell the cells of a scenario apart.
type Params struct {
	Goroutines int    `json:"goroutines,omitempty"` // in each process
	Processes  int    `json:"processes,omitempty"`
	CSMicros   *int64 `json:"cs_us,omitempty"`    // length of the critical section
	DelayUS    int64  `json:"delay_us,omitempty"` // added to each round trip to Redis
	Depth      int    `json:"depth,omitempty"`    // of re-entry
	Reads      int    `json:"reads,omitempty"`    // of a hundred acquisitions, those that read
	Permits    int    `json:"permits,omitempty"`  // of a semaphore; 0: a lock
	Weights    int    `json:"weights,omitempty"`  // the most permits that an acquisition takes
	Locks      int    `json:"locks,omitempty"`    // that an acquisition takes some of; 0: there is one
	Together   int    `json:"together,omitempty"` // how many of Locks at once; 0: any one
	Leases     int    `json:"leases,omitempty"`
	HoldMS     int64  `json:"hold_ms,omitempty"`
	LeaseMS    int64  `json:"lease_ms,omitempty"` // 0: each peer's default
	Crash      string `json:"crash,omitempty"`    // who is killed: holder, waiter, none
	Nodes      int    `json:"nodes,omitempty"`    // of a quorum
	Masters    int    `json:"masters,omitempty"`  // of a Cluster
	Hung       int    `json:"hung,omitempty"`     // of the nodes, while it counts
	Holder     string `json:"holder,omitempty"`   // what another process does that had the lock: idle, busy
}

// Quantiles of a latency in microseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	N    int64   `json:"n"`
}

// Span is the least and the greatest of the rounds.
type Span [2]float64

// Result is one peer in one cell. A pointer that is nil was not measured.
type Result struct {
	Scenario string `json:"scenario"`
	Params   Params `json:"params"`
	Peer     string `json:"peer"`
	Version  string `json:"version,omitempty"`
	Baseline bool   `json:"baseline,omitempty"` // no lock that anybody chooses

	Error  string `json:"error,omitempty"` // the peer hung or could not be run
	Rounds int    `json:"rounds,omitempty"`

	Seconds float64 `json:"seconds,omitempty"` // counted, in all rounds; 0 where there is no rate

	Acquisitions int64              `json:"acquisitions"`
	AcqPerS      *float64           `json:"acq_per_s,omitempty"`
	Wait         *Quantiles         `json:"wait_us,omitempty"`
	WaitCDF      [][2]float64       `json:"wait_cdf,omitempty"` // microseconds, share of acquisitions
	Handover     *Quantiles         `json:"handover_us,omitempty"`
	Pair         *Quantiles         `json:"lock_unlock_us,omitempty"` // Lock and Unlock together
	CmdsPerAcq   *float64           `json:"cmds_per_acq,omitempty"`
	Cmds         map[string]float64 `json:"cmds,omitempty"` // per acquisition, by name; in all where there is no rate
	CmdsPerNode  *float64           `json:"cmds_per_acq_and_node,omitempty"`
	CmdsTotal    *int64             `json:"cmds_total,omitempty"`
	CallsPerAcq  *float64           `json:"redis_calls_per_acq,omitempty"` // what Redis ran, calls inside scripts included
	Jain         *float64           `json:"jain,omitempty"`
	WorstBest    *float64           `json:"worst_best,omitempty"`
	ShareMin     *float64           `json:"share_min,omitempty"` // worst worker to the mean
	ShareMax     *float64           `json:"share_max,omitempty"` // best worker to the mean
	ClientCPU    *float64           `json:"client_cpu_pct,omitempty"`
	RedisCPU     *float64           `json:"redis_cpu_pct,omitempty"`
	AllocsPerAcq *float64           `json:"allocs_per_acq,omitempty"`
	BytesPerAcq  *float64           `json:"bytes_per_acq,omitempty"`
	PerWaiter    *float64           `json:"bytes_per_waiter,omitempty"`
	PubSubConns  *int64             `json:"pubsub_conns,omitempty"`
	CmdsPer100   *float64           `json:"cmds_per_100_renewals,omitempty"`
	CmdsPerS     *float64           `json:"cmds_per_s,omitempty"`    // while nothing happens
	Lost         *int64             `json:"lost,omitempty"`          // leases, or permits 1 s after their leases were over
	PassedMost   *int64             `json:"passed_most,omitempty"`   // how many later arrivals went before an earlier one
	PassedOver   *int64             `json:"passed_over,omitempty"`   // how often they were more than had been in line before it
	Recover      *Quantiles         `json:"recover_us,omitempty"`    // from the kill to the next grant
	OverLease    *Quantiles         `json:"over_lease_us,omitempty"` // the same, less the lease
	Failed       int64              `json:"failed"`
	Failure      string             `json:"failure,omitempty"` // the last one
	Overlaps     int64              `json:"overlaps"`
	Spread       map[string]Span    `json:"spread,omitempty"` // of the rounds
}

// Broken reports whether the peer failed at what a lock is for, or could not be measured.
func (r *Result) Broken() bool { return r.Error != "" || r.Overlaps > 0 }

// Cell names what peers are compared in: the scenario and its parameters.
func (r *Result) Cell() string { return strings.TrimSpace(r.Scenario + " " + r.Params.String()) }

// String is the parameters in words.
func (p Params) String() string {
	var s []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			s = append(s, fmt.Sprintf(format, args...))
		}
	}
	add(p.Nodes > 0, "%s", plural(p.Nodes, "node"))
	add(p.Hung > 0, "%d hung", p.Hung)
	add(p.Masters > 0, "%s", plural(p.Masters, "master"))
	add(p.Holder != "", "holder %s", p.Holder)
	add(p.Permits > 0, "%s", plural(p.Permits, "permit"))
	add(p.Weights > 1, "weights 1 to %d", p.Weights)
	add(p.Locks > 0 && p.Together > 0, "%d of %d locks", p.Together, p.Locks)
	add(p.Locks > 0 && p.Together == 0, "any of %d locks", p.Locks)
	add(p.Processes > 1, "%d processes", p.Processes)
	add(p.Goroutines > 0, "%s", plural(p.Goroutines, "goroutine"))
	add(p.Leases > 0, "%d leases", p.Leases)
	add(p.Reads > 0, "%d %% reads", p.Reads)
	add(p.Depth > 1, "%d deep", p.Depth)
	add(p.Crash != "", "%s killed", crashed(p.Crash))
	add(p.CSMicros != nil && *p.CSMicros > 0, "cs %v", micros(p.CSMicros))
	add(p.DelayUS > 0, "delay %v", micros(&p.DelayUS))
	add(p.HoldMS > 0, "held %v", time.Duration(p.HoldMS)*time.Millisecond)
	add(p.LeaseMS > 0, "lease %v", time.Duration(p.LeaseMS)*time.Millisecond)
	return strings.Join(s, ", ")
}

func crashed(who string) string {
	if who == "none" {
		return "nobody"
	}
	return who
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func micros(us *int64) time.Duration {
	if us == nil {
		return 0
	}
	return time.Duration(*us) * time.Microsecond
}

// Write puts the run into a file, whole or not at all. Each result is a line, so that a diff shows which cells changed.
func (r *Run) Write(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte(`{"scenario":`), []byte("\n{\"scenario\":"))
	f, err := os.CreateTemp(filepath.Dir(path), ".bench-*")
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// Read reads a file that Write made. It fails when the file is of another schema.
func Read(path string) (*Run, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	var r Run
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("results: %s is no result file of this bench: %w", path, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("results: %s has schema %d; this bench reads schema %d", path, r.Schema, Schema)
	}
	return &r, nil
}

// Scenarios groups the cells by scenario, in the order in which the run came to them.
func (r *Run) Scenarios() [][][]Result {
	var groups [][][]Result
	at := make(map[string]int)
	for _, cell := range r.Cells() {
		i, ok := at[cell[0].Scenario]
		if !ok {
			i = len(groups)
			at[cell[0].Scenario] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], cell)
	}
	return groups
}

// Cells groups results by cell, in the order of the run.
func (r *Run) Cells() [][]Result {
	var cells [][]Result
	at := make(map[string]int)
	for _, res := range r.Results {
		i, ok := at[res.Cell()]
		if !ok {
			i = len(cells)
			at[res.Cell()] = i
			cells = append(cells, nil)
		}
		cells[i] = append(cells[i], res)
	}
	return cells
}
