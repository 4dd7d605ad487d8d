#!/bin/bash
# Builds the snapshot of the last commit in two clones, and one binary with an empty cache too, and compares the bytes. Then
# it looks into what was built, installs the deb below a directory, and runs docs/cli.md's lines of a crontab from it.
set -euo pipefail
cd "$(dirname "$0")/../../.."
goreleaser=$1
limit=25000000 # bytes of the stripped command
work=$(mktemp -d)
redis=
finish() {
	[ -z "$redis" ] || { kill "$redis" && wait "$redis" || true; } # it deletes its socket as it ends
	rm -rf "$work"
}
trap finish EXIT
fail() { echo "dist-test: $*" >&2; exit 1; }
# needs FILE TEXT fails unless a line of the file is the text.
needs() { grep -qxF -- "$2" "$1" || fail "$1 lacks $2:" "$(cat "$1")"; }

build() { # DIRECTORY ARGUMENT...
	(cd "$1" && "$work/goreleaser" "${@:2}" --snapshot --clean) >"$work/log" 2>&1 ||
		{ cat "$work/log" >&2; fail "no snapshot in $1"; }
}
offered() { # DIRECTORY lists the files of a release.
	(cd "$1" && find . -maxdepth 1 \( -name 'relock_*' -o -name SHA256SUMS \) -type f | sort)
}
GOBIN=$work go install "$goreleaser"
second=$work/of-another-length/second
for clone in "$work/first" "$second"; do
	git clone -q . "$clone"
	for tag in v1.999.0 cmd/relock/v1.999.0; do git -C "$clone" tag "$tag" HEAD~1; done # a snapshot after a release
	build "$clone" release
	(cd "$clone/target/dist" && offered . | xargs sha256sum) >"$clone.sums"
done
diff "$work/first.sums" "$second.sums" || fail "two builds of one commit differ"
dist=$work/first/target/dist

echo "== the same bytes twice"
(cd "$dist" && offered . | xargs ls -l) | awk '{ printf "%10d  %s\n", $5, $9 }'
(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
cut -d' ' -f3- "$dist/SHA256SUMS" >"$work/listed"
version=$(sed -n 's/^relock_\(.*\)_linux_amd64\.tar\.gz$/\1/p' "$work/listed")
for on in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64 windows_arm64; do
	case $on in windows*) end=zip ;; *) end=tar.gz ;; esac
	needs "$work/listed" "relock_${version}_$on.$end"
	needs "$work/listed" "relock_${version}_$on.cdx.json"
done
for on in linux_amd64 linux_arm64; do for end in deb rpm; do needs "$work/listed" "relock_${version}_$on.$end"; done; done

echo "== an archive"
tar -tvzf "$dist/relock_${version}_linux_amd64.tar.gz" | tee "$work/tar"
awk '{ print $NF }' "$work/tar" >"$work/names"
for file in relock LICENSE THIRD_PARTY.md completions/bash completions/zsh completions/fish completions/powershell \
	man/relock.1 man/relock-run.1; do
	needs "$work/names" "relock_${version}_linux_amd64/$file"
done
tar -xzf "$dist/relock_${version}_linux_amd64.tar.gz" -C "$work"
size=$(stat -c %s "$work/relock_${version}_linux_amd64/relock")
[ "$size" -le $limit ] || fail "the command has $size bytes: go build -ldflags=-dumpdep says whether text/template is back"
bash -n "$work/relock_${version}_linux_amd64/completions/bash"

echo "== the deb"
dpkg-deb --info "$dist/relock_${version}_linux_amd64.deb" | sed -n '/Package/,$p'
root=$work/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
: >"$root/var/lib/dpkg/status"
: >"$root/var/lib/dpkg/available"
dpkg --root="$root" --log=/dev/null --force-not-root --install "$dist/relock_${version}_linux_amd64.deb"
dpkg --root="$root" --listfiles relock >"$work/files"
for file in /usr/bin/relock /usr/share/man/man1/relock-run.1.gz /usr/share/bash-completion/completions/relock \
	/usr/share/zsh/vendor-completions/_relock /usr/share/fish/vendor_completions.d/relock.fish \
	/usr/share/doc/relock/copyright /usr/share/doc/relock/THIRD_PARTY.md; do
	needs "$work/files" "$file"
done
"$root/usr/bin/relock" --version | tee "$work/version"
grep -q "^commit   $(git -C "$work/first" rev-parse HEAD)$" "$work/version" || fail "the command does not name its commit"

echo "== docs/cli.md's crontab, from the deb"
redis-server --port 0 --unixsocket "$work/redis" --save '' >/dev/null &
redis=$!
until redis-cli -s "$work/redis" ping >/dev/null 2>&1; do kill -0 "$redis" || fail "redis-server has ended"; done
grep -E '^[0-9*]+ [0-9*]+ \* \* \* +relock run ' docs/cli.md >"$work/crontab"
[ "$(wc -l <"$work/crontab")" = 2 ] || fail "docs/cli.md has other lines: $(cat "$work/crontab")"
while read -r _ _ _ _ _ line; do
	line="${line%% -- *} -- echo ran"
	echo "$line"
	host() { env -i PATH="$root/usr/bin:/usr/bin:/bin" RELOCK_REDIS="$work/redis" /bin/sh -c "$line" </dev/null 2>&1; }
	[ "$(host)" = ran ] || fail "the first host did not run: $line"
	[ "$(host)" = "" ] || fail "the second host ran too, or cron would mail: $line"
done <"$work/crontab"

echo "== the rpm"
rpm -qip "$dist/relock_${version}_linux_amd64.rpm"
rpm -qpl "$dist/relock_${version}_linux_amd64.rpm" | tee "$work/files"
rpm -K --nosignature "$dist/relock_${version}_linux_amd64.rpm"
for file in /usr/bin/relock /usr/share/man/man1/relock-run.1.gz /usr/share/bash-completion/completions/relock \
	/usr/share/zsh/site-functions/_relock /usr/share/fish/vendor_completions.d/relock.fish \
	/usr/share/licenses/relock/LICENSE /usr/share/doc/relock/THIRD_PARTY.md; do
	needs "$work/files" "$file"
done

echo "== the same binary with an empty cache"
GOCACHE=$work/cache build "$second" build --single-target
here=$(go env GOOS)_$(go env GOARCH)
cmp "$work/first"/target/dist/relock_"$here"*/relock "$second"/target/dist/relock_"$here"*/relock ||
	fail "the cache makes a difference"
echo "== ok: the Linux command has $size bytes"
