#!/bin/sh
# Makes what goreleaser needs beside the source, in target/dist-inputs: a go.mod, completions, manual pages, and the program that
# describes binaries.
set -eu
cd "$(dirname "$0")/../../.."
to=$PWD/target/dist-inputs
rm -rf "$to"
mkdir -p "$to/completions" "$to/man"
export GOWORK=off GOFLAGS=-trimpath CGO_ENABLED=0

# The binaries have the dependencies that `go install` would choose, which a workspace need not. Only the modules of this
# repository are those of the tree: on a release's commit, they are what its tags name.
cp cmd/relock/go.mod cmd/relock/go.sum "$to"
for dir in . contrib/* internal/sim; do
	module=$(cd "$dir" && go list -m)
	go mod edit -replace "$module=../../$dir" "$to/go.mod"
done

cd cmd/relock
go build -modfile "$to/go.mod" -o "$to/relock" .
for shell in bash zsh fish powershell; do "$to/relock" completion $shell >"$to/completions/$shell"; done
rm "$to/relock"
RELOCK_MAN=$to/man SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) go test -modfile "$to/go.mod" -count=1 -run '^TestManPages$' . >&2
chmod 644 "$to"/man/*
mkdir "$to/man.gz"
for page in "$to"/man/*; do gzip -9nc "$page" >"$to/man.gz/${page##*/}.gz"; done
cd ../..
go build -o "$to/licences" ./internal/tools/licences
