#!/bin/bash
# What it costs to run true under a lock: flock(1), relock run, and etcdctl lock where etcd and etcdctl are installed, each
# beside a server of its own on this machine. They take turns, so that what disturbs the machine disturbs all: run-cost.sh N
set -euo pipefail

runs=${1:-100}
root=$(git rev-parse --show-toplevel)
tmp=$(mktemp -d)
servers=()
cleanup() {
	for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

port() { echo $((20000 + RANDOM % 10000)); }

await() { # await COMMAND...
	for _ in $(seq 100); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	echo "run-cost.sh: no answer to $*" >&2
	exit 1
}

(cd "$root/cmd/relock" && go build -o "$tmp/relock" .)
redis=$(port)
"${RELOCK_REDIS_SERVER:-redis-server}" --port "$redis" --bind 127.0.0.1 --save '' --appendonly no >"$tmp/redis.log" &
servers+=($!)
await redis-cli -p "$redis" ping
export RELOCK_REDIS=127.0.0.1:$redis
ways=("flock" "relock run")
if command -v etcd >/dev/null && command -v etcdctl >/dev/null; then
	etcd=$(port)
	etcd --data-dir "$tmp/etcd" --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls \
		"http://127.0.0.1:$etcd" --listen-peer-urls "http://127.0.0.1:$((etcd + 1))" >"$tmp/etcd.log" 2>&1 &
	servers+=($!)
	export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=127.0.0.1:$etcd
	await etcdctl endpoint health
	ways+=("etcdctl lock")
fi

once() {
	case $1 in
	flock) flock "$tmp/lock" true ;;
	"relock run") "$tmp/relock" run cost -- true ;;
	"etcdctl lock") etcdctl lock cost true >/dev/null ;;
	esac
}

for i in $(seq 0 "$runs"); do
	for way in "${ways[@]}"; do
		began=$EPOCHREALTIME
		once "$way"
		ended=$EPOCHREALTIME
		# The first of each is not counted. The digits of a time are microseconds, whatever stands between.
		[ "$i" = 0 ] || echo "$((${ended//[!0-9]/} - ${began//[!0-9]/}))" >>"$tmp/${way// /-}"
	done
done

printf '%-14s %10s %10s %10s\n' "of $runs runs" 'least, ms' 'median, ms' 'to flock'
base=
for way in "${ways[@]}"; do
	sort -n "$tmp/${way// /-}" >"$tmp/sorted"
	median=$(sed -n "$(((runs + 1) / 2))p" "$tmp/sorted")
	: "${base:=$median}"
	awk -v way="$way" -v least="$(head -n 1 "$tmp/sorted")" -v median="$median" -v base="$base" \
		'BEGIN { printf "%-14s %10.1f %10.1f %10.1f\n", way, least / 1000, median / 1000, median / base }'
done
