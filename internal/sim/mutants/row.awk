# Of a log of a process that found something: name | plan | seeds of all processes, about | seconds | verdict | faults left of
# all, and lines of the trace of the shrunken run.
/_test\.go:[0-9]+: seed [0-9]+: / {
	if (!seed) {
		plan = $0; sub(/^.*: seed /, "", plan); seed = plan; sub(/:.*/, "", seed)
		sub(/^[0-9]+: /, "", plan); sub(/;.*/, "", plan)
		getline verdict; sub(/^ */, "", verdict)
	}
	lines = 0
}
/^ *seed [0-9]+: / { lines = 0 }
/^ +[0-9]+\.[0-9]+  / { lines++ }
/ with [0-9]+ of [0-9]+ faults, / { shrunk = $0; sub(/^.*: with /, "", shrunk); sub(/:.*/, "", shrunk) }
/^panic:|^fatal error:|gets nowhere/ && !verdict { verdict = $0 }
END { printf "%s | %s | %d | %s | %s | %s, %d lines\n", name, plan, seed ? (seed - from + 1) * procs : 0, took, verdict, shrunk ? shrunk : "0 faults", lines }
