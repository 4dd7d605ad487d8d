package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A finding is what one issue is about. Two findings with one title are the same.
type finding struct{ title, text string }

// longest is the length of a title, and widest that of a line, in bytes. GitHub takes titles of 256 characters, and issues of 65,536.
const (
	longest = 200
	widest  = 10_000
)

var (
	failed = regexp.MustCompile(`_test\.go:\d+: seed (\d+: .+)`)
	hung   = regexp.MustCompile(`^seed \d+ (gets nowhere): `)
	broke  = regexp.MustCompile(`^(?:panic|fatal error): .+`)
	worker = regexp.MustCompile(`_test\.go:\d+: seeds from (\d+) on: `)
	number = regexp.MustCompile(`\d[\w.µ]*`) // and what is written with it: a process, an instant, a duration
)

// seeds reads what the simulator found. It prints a seed that fails twice: the whole run, and one with the few faults that matter.
func seeds(log string) (found []finding) {
	var f failure
	var first string // seed of the process
	end := func() {
		if f.verdict != "" {
			found = append(found, f.finding(first))
		}
		f = failure{}
	}
	lines := strings.Split(log, "\n")
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if is := worker.FindStringSubmatch(line); is != nil {
			end()
			first = is[1]
		} else if is := failed.FindStringSubmatch(line); is != nil && i+1 < len(lines) {
			end()
			f.plan, f.verdict = is[1], strings.TrimSpace(lines[i+1])
		} else if is := hung.FindStringSubmatch(line); is != nil {
			end()
			f.verdict = is[1]
		} else if is := broke.FindString(line); is != "" {
			end()
			f.verdict, f.stack = is, lines[i+1:min(i+16, len(lines))]
		} else if command, is := strings.CutPrefix(line, "again: "); is && len(command) < widest {
			f.again = append(f.again, strings.TrimSuffix(command, "."))
		}
	}
	end()
	return found
}

// A failure is what the simulator prints of one seed. A panic ends its process before it names the seed.
type failure struct {
	plan, verdict string
	again, stack  []string
}

// finding tells how to repeat the seed, or the process, whose first seed it is given.
func (f *failure) finding(first string) finding {
	text := "    " + f.verdict + "\n\n"
	if f.plan != "" {
		text += "in the simulation\n\n    " + f.plan + "\n\n"
	}
	for _, line := range f.stack {
		if line = strings.TrimPrefix(line, "        "); line != "" { // as a worker's log is indented
			text += "    " + line + "\n"
		}
	}
	switch {
	case len(f.again) > 1:
		text += "Repeat it, with its trace and only the faults that matter:\n\n    " + f.again[1] +
			"\n\nor the whole of it:\n\n    " + f.again[0]
	case len(f.again) == 1:
		text += "Repeat it, with its trace:\n\n    " + f.again[0]
	default:
		text += "\nRepeat the process, which ended before it named its seed:\n\n    cd internal/sim && go test " +
			"$(go run ./overlay/write -o /tmp/relock-sim-overlay) ./world -count=1 -timeout 0 -v -run 'TestSimulation$' -lasting=1h -from=" + first
	}
	return finding{title: cut("Simulation: " + number.ReplaceAllString(f.verdict, "N")), text: text}
}

var (
	module     = regexp.MustCompile(`(?m)^== (\S+)$`)
	vulnerable = regexp.MustCompile(`(?m)^Vulnerability #\d+: (\S+)\n +(.+)\n((?:  .+\n)*)`)
	detail     = regexp.MustCompile(`(?m)^ +((?:More info|Found in|Fixed in): .+)$`)
)

// vulnerabilities reads what govulncheck says of each module, below a line with its folder. Ways through the code are left out: they
// change with each commit.
func vulnerabilities(log string) (found []finding) {
	type told struct{ title, details string }
	var order []told
	in := make(map[told][]string) // folders
	folders := module.FindAllStringSubmatchIndex(log, -1)
	for i, at := range folders {
		end := len(log)
		if i+1 < len(folders) {
			end = folders[i+1][0]
		}
		for _, is := range vulnerable.FindAllStringSubmatch(log[at[1]:end], -1) {
			t := told{title: cut("Vulnerability: " + is[1] + ", " + is[2])}
			for _, d := range detail.FindAllStringSubmatch(is[3], -1) {
				t.details += "\n    " + d[1]
			}
			if in[t] == nil {
				order = append(order, t)
			}
			in[t] = append(in[t], "`"+log[at[2]:at[3]]+"`")
		}
	}
	for _, t := range order {
		text := "What is vulnerable is called in " + strings.Join(in[t], ", ") + ". `make vuln` shows the ways to it.\n" + t.details
		found = append(found, finding{title: t.title, text: text})
	}
	return found
}

// merged joins the texts of findings with one title, in the order of the first of each.
func merged(all []finding) (found []finding) {
	at := make(map[string]int)
	for _, f := range all {
		i, is := at[f.title]
		if !is {
			at[f.title] = len(found)
			found = append(found, f)
		} else if !strings.Contains(found[i].text, f.text) {
			found[i].text = fmt.Sprintf("%s\n\n%s", found[i].text, f.text)
		}
	}
	return found
}

func cut(title string) string {
	if len(title) <= longest {
		return title
	}
	end := longest
	for !utf8.RuneStart(title[end]) {
		end--
	}
	return title[:end] + "…"
}
