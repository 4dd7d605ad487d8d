#!/bin/sh
# Compares the Go benchmarks of the work tree with those of a git ref, by benchstat: compare.sh REF COUNT [REGEXP]
# Both are built first and then take turns, COUNT times, so that what disturbs the machine disturbs both.
set -eu

benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

[ $# -ge 2 ] || { echo "usage: compare.sh REF COUNT [REGEXP]" >&2; exit 2; }
ref=$1 count=$2 regexp=${3:-.}
root=$(git rev-parse --show-toplevel)
commit=$(git -C "$root" rev-parse --verify --quiet "$ref^{commit}") ||
	{ echo "compare.sh: there is no commit $ref" >&2; exit 2; }

tmp=$(mktemp -d)
trap 'git -C "$root" worktree remove --force "$tmp/tree" 2>/dev/null || true; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
git -C "$root" worktree add --quiet --detach "$tmp/tree" "$commit"

# benchmarked lists the packages with benchmarks of the module it is called in. Each side has its own: some may have
# moved in between.
benchmarked() {
	go list -f '{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{println .}}{{end}}
		{{- range .XTestGoFiles}}{{$dir}}/{{println .}}{{end}}' ./... |
		grep . | xargs grep -l '^func Benchmark' | xargs -n1 dirname | sort -u
}

build() { # build SIDE DIR
	packages=$(cd "$2" && benchmarked)
	[ -n "$packages" ] || { echo "compare.sh: no benchmarks in $2" >&2; exit 1; }
	n=0
	for p in $packages; do
		n=$((n + 1))
		(cd "$2" && go test -c -o "$tmp/$1-$n.test" "$p")
	done
}
build base "$tmp/tree"
build work "$root"

for turn in $(seq "$count"); do
	echo "round $turn of $count" >&2
	for side in base work; do
		for test in "$tmp/$side"-*.test; do
			(cd "$tmp" && "$test" -test.run '^$' -test.bench "$regexp") >>"$tmp/$side.txt"
		done
	done
done
cd "$tmp"
# A benchmark is known by its name, wherever it stands.
go run "$benchstat" -ignore pkg base="$tmp/base.txt" work="$tmp/work.txt"
