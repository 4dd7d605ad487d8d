package main

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// goodReport is of six sections; worker 2 is killed in the third, whose SET ran.
func goodReport() *report {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	const wait = 10 * time.Millisecond
	pass := func(worker, n, token, ms int) section {
		return section{worker: worker, read: int64(n), token: int64(token), begun: at(ms), wait: wait, done: true}
	}
	r := &report{
		o:     &demoOptions{lock: lockRelock, lease: time.Second, nodes: 1},
		began: began,
		sections: []section{
			pass(0, 0, 1, 10), pass(0, 1, 2, 20), pass(1, 2, 257, 30),
			pass(2, 3, 513, 1020), pass(2, 4, 514, 1030), pass(0, 5, 769, 1040),
		},
		found:    6,
		commands: 15,
		client:   "c1",
		crash: &crash{
			worker: 1, token: 257, asked: at(30), killed: at(31), recovered: at(1020),
			before: relock.State{Held: true, Holder: "c1:7", Count: 2, TTL: 985 * time.Millisecond},
			after:  relock.State{Held: true, Holder: "c1:7", Count: 2},
		},
	}
	r.sections[2].done = false
	return r
}

func TestReportOfAGoodRun(t *testing.T) {
	r := goodReport()
	var out bytes.Buffer
	require.True(t, r.print(&out), out.String())
	require.Regexp(t, `increments expected +6 +5 reported; the one in flight ran`, out.String())
	require.Regexp(t, `hand-overs local / remote +2 / 3 +by worker: 3 1 2`, out.String())
	require.Regexp(t, `commands per acquisition +2.50`, out.String())
	require.Regexp(t, `killed while holding +worker 2 +hold count 2`, out.String())
	require.Regexp(t, `lock back after the kill +989 ms`, out.String())
	require.Regexp(t, `wait p50 / p99 +10 ms / 10 ms`, out.String())
}

// The killed worker's SET may as well not have run: the next holder's reading tells.
func TestReportInFlightNotRun(t *testing.T) {
	r := goodReport()
	for i := 3; i < len(r.sections); i++ {
		r.sections[i].read--
	}
	r.found = 5
	var out bytes.Buffer
	require.True(t, r.print(&out), out.String())
	require.Regexp(t, `increments expected +5 +all reported; the one in flight did not`, out.String())
}

func TestReportFindsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		says string
		harm func(*report)
	}{
		{"6 increments expected, 5 found, -1", func(r *report) { r.found-- }},
		{"6 increments expected, 7 found, +1", func(r *report) { r.found++ }},
		{"did not read what the holder before it wrote", func(r *report) { r.sections[4].read-- }},
		{"had no greater token", func(r *report) { r.sections[1].token = r.sections[0].token }},
		{"had no greater token", func(r *report) { r.sections[4].token = 600; r.sections[5].token = 550 }},
		{"2 sections were begun and never done, 1 may be", func(r *report) { r.sections[0].done = false }},
		{"no worker was killed", func(r *report) { r.crash = nil }},
		{"1 sections were begun and never done, 0 may be", func(r *report) { r.crash = nil }},
		{`the holder was "c9:7"`, func(r *report) { r.crash.before.Holder = "c9:7" }},
		{`"c2:1" after`, func(r *report) { r.crash.after.Holder = "c2:1" }},
		{"with count 1 before", func(r *report) { r.crash.before.Count = 1 }},
		{"nobody got the lock after the kill", func(r *report) { r.crash.recovered = time.Time{} }},
		{"the lease is 1s", func(r *report) { r.crash.recovered = r.crash.killed.Add(time.Second + recoverySlack + 1) }},
		{"had a lease for another 985ms", func(r *report) { r.crash.recovered = r.crash.asked.Add(984 * time.Millisecond) }},
		{"worker 3 never had the lock", func(r *report) { r.sections = slices.Delete(r.sections, 3, 5) }},
		{"passed between processes 1 times only", func(r *report) { r.sections = r.sections[:3] }},
		{"not free in the end", func(r *report) { r.left.Held = true }},
		{"not free in the end", func(r *report) { r.left.Waiters = 1 }},
		{"nothing was done", func(r *report) { r.sections, r.found = nil, 0 }},
	} {
		t.Run(c.says, func(t *testing.T) {
			r := goodReport()
			c.harm(r)
			var out bytes.Buffer
			require.False(t, r.print(&out))
			require.Regexp(t, "(?m)^WRONG: .*"+regexp.QuoteMeta(c.says), out.String())
		})
	}
}

// quorumReport is of the same sections, and of nodes that were out during the last two.
func quorumReport() *report {
	r := goodReport()
	r.o.nodes = 5
	at := func(ms int) time.Time { return r.began.Add(time.Duration(ms) * time.Millisecond) }
	r.faults = &faults{ns: make(nodes, 5), out: at(1025), empty: at(1035), back: at(2040)}
	return r
}

func TestReportOfAQuorum(t *testing.T) {
	var out bytes.Buffer
	require.True(t, quorumReport().print(&out), out.String())
	require.Regexp(t, `commands per acquisition +2.50 +on all nodes; 0.50 a node`, out.String())
	require.Regexp(t, `acquisitions with 3 of 5 nodes +1 +in 10ms`, out.String())
	require.Regexp(t, `restarted node kept out +1,005 ms`, out.String())

	for _, c := range []struct {
		says string
		harm func(*faults)
	}{
		{"did not grant the lock again", func(f *faults) { f.back = time.Time{} }},
		{"nobody got the lock while nodes were out", func(f *faults) { f.out = f.empty.Add(-time.Millisecond) }},
		{"granted it after 999ms, the lease is 1s", func(f *faults) { f.back = f.empty.Add(999 * time.Millisecond) }},
	} {
		r := quorumReport()
		c.harm(r.faults)
		out.Reset()
		require.False(t, r.print(&out))
		require.Regexp(t, "(?m)^WRONG: .*"+regexp.QuoteMeta(c.says), out.String())
	}
}

// Where INFO is forbidden one figure is missing; nothing is wrong with the lock.
func TestReportWithoutCommandCount(t *testing.T) {
	r := goodReport()
	r.commandsErr = errors.New("NOPERM")
	var out bytes.Buffer
	require.True(t, r.print(&out))
	require.Regexp(t, `commands per acquisition +unknown +NOPERM`, out.String())
}

func TestSumCalls(t *testing.T) {
	n, err := sumCalls("# Commandstats\r\ncmdstat_evalsha:calls=7,usec=1\r\ncmdstat_get:calls=100,usec=1\r\n" +
		"cmdstat_subscribe:calls=2,usec=1,usec_per_call=1.0\r\n")
	require.NoError(t, err)
	require.EqualValues(t, 9, n)
	_, err = sumCalls("cmdstat_eval:calls=x,usec=1\r\n")
	require.Error(t, err)
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, thousands(n))
	}
}
