#!/bin/sh
# run.sh NAME... | all: takes one mend back in a copy of the tree, and runs fresh seeds until the simulation finds that.
#
# A mutant (mutants.go says how it is written) says at its head what it takes back, and where that is looked for:
#   # kind: restart           a class of faults, without it the seed's own
#   # topology: quorum of 3   without it the seed's own
#   # scene: closers          a scene, instead of both
# Of the environment: LASTING (240s) is how long each process looks for a mend, PROCS (2) how many there are, SHRINK (20s)
# how long the faults of what was found are shrunk, OUT where logs are kept. `none` runs the tree as it is. A mutant that does not
# apply or compile stops none of the others; at the end they are named, and it fails.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
out=${OUT:-$(mktemp -d)}
[ $# -gt 0 ] || { sed -n 2,11p "$0"; exit 2; }
[ "$1" != all ] || { cd "$here"; set -- $(ls ./*.mutant | sed 's|^\./||; s|\.mutant$||'); }
mkdir -p "$out"

# said prints what the head of a mutant says.
said() { [ "$1" = none ] || sed -n "s/^# $2: //p" "$here/$1.mutant"; }

# build returns false where the mutant does not apply, or what it makes does not compile.
build() {
	tree=$(mktemp -d) built=yes
	(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -c) | tar -x -C "$tree"
	{
		{ [ "$1" = none ] || (cd "$here" && go run ./apply "$1.mutant" "$tree"); } &&
			(cd "$tree/internal/sim" && go test $(go run ./overlay/write -o "$out/overlay") -trimpath -c -o "$out/$1.test" ./world)
	} || built=
	rm -rf "$tree"
	[ -n "$built" ]
}

# hunt replaces its shell by a process that runs seeds until a violation.
hunt() {
	scene=${SCENE:-$(said "$1" scene)} run='TestSimulation$'
	[ -z "$scene" ] || run="TestScenes/^$scene\$"
	export GOMAXPROCS=1
	exec "$out/$1.test" -test.run "$run" -test.v -test.timeout 0 -from "$3" -lasting "${LASTING:-240s}" -shrink "${SHRINK:-20s}" \
		-kind "${KIND:-$(said "$1" kind)}" -topology "${TOPOLOGY:-$(said "$1" topology)}" >"$out/$1.$2.log" 2>&1
}

# ended waits until a process of the mutant has found something, or none runs any more. It prints which.
ended() {
	while :; do
		alive= place=0
		for pid in $2; do
			if grep -qE 'again: make sim|gets nowhere|^panic:|^fatal error:' "$out/$1.$place.log" 2>/dev/null; then
				echo "$place $pid"
				return
			fi
			case $(ps -o stat= -p "$pid") in
			'' | Z*) ;;
			*) alive=yes ;;
			esac
			place=$((place + 1))
		done
		[ -n "$alive" ] || return 0
		sleep 0.2
	done
}

failed=
for name; do
	if ! build "$name"; then
		echo "$name | not built | | | |"
		failed="$failed $name"
		continue
	fi
	rm -f "$out/$name".*.log # of an earlier run
	pids= place=0 from=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
	began=$(date +%s.%N)
	while [ "$place" -lt "${PROCS:-2}" ]; do
		(hunt "$name" "$place" $((from + place * 1000000))) &
		pids="$pids $!" place=$((place + 1))
	done
	found=$(ended "$name" "$pids")
	took=$(echo "$began $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }')
	winner=${found#* }
	for pid in $pids; do [ "$pid" = "$winner" ] || kill "$pid" 2>/dev/null || true; done
	wait || true # the one that found it shrinks
	if [ -n "$found" ]; then
		place=${found% *}
		awk -v name="$name" -v from=$((from + place * 1000000)) -v procs="${PROCS:-2}" -v took="$took" -f "$here/row.awk" "$out/$name.$place.log"
	else
		echo "$name | not found | | $took | |"
	fi
	rm -f "$out/$name.test"
done
[ -z "$failed" ] || { echo "do not apply or compile:$failed" >&2; exit 1; }
