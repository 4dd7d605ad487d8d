package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	mit = "Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software and associated files"
	bsd = "Redistribution and use in source and binary forms, with or without\nmodification, are permitted"
	gpl = "GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007"
)

func TestLicencesOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		mit: "MIT",
		bsd: "BSD-2-Clause",
		bsd + " ... may be used to\n  endorse or promote products": "BSD-3-Clause",
		"Apache License\n   Version 2.0, January 2004\n" + mit:     "Apache-2.0 MIT",
		"Boost Software License - Version 1.0 - August 2003":       "BSL-1.0",
	} {
		got, err := licencesOf(text)
		require.NoError(t, err, text)
		require.Equal(t, want, strings.Join(got, " "))
	}
	for text, says := range map[string]string{
		gpl: "general public license", mit + gpl: "general public license", "GNU Affero General Public License": "general public license",
		mit + "\nCommons Clause": "commons clause", "Mozilla Public License Version 2.0": "mozilla public license",
		"All rights reserved.": "none of those", "": "none of those", "SPDX: LGPL-3.0-only": "gpl",
	} {
		_, err := licencesOf(text)
		require.ErrorContains(t, err, says, text)
	}
}

// write makes files below a new directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return dir
}

// repository is a module, with a command below it that uses one module on Windows only, and another in its tests only.
func repository() map[string]string {
	files := map[string]string{
		"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./cmd/tool\n)\n\nreplace (\n\texample.org/a v1.0.0 => ./away/a\n" +
			"\texample.org/b v1.0.0 => ./away/b\n\texample.org/c v1.0.0 => ./away/c\n)\n",
		"go.mod": "module example.org/x/own\n\ngo 1.26.0\n\nrequire example.org/a v1.0.0\n",
		"own.go": "package own\n\nimport _ \"example.org/a\"\n",
		"cmd/tool/go.mod": "module example.org/x/own/cmd/tool\n\ngo 1.26.0\n\nrequire (\n\texample.org/b v1.0.0\n" +
			"\texample.org/c v1.0.0\n)\n",
		"cmd/tool/main.go":         "package main\n\nimport _ \"fmt\"\n\nfunc main() {}\n",
		"cmd/tool/main_windows.go": "package main\n\nimport _ \"example.org/b/deep\"\n",
		"cmd/tool/main_test.go":    "package main\n\nimport _ \"example.org/c\"\n",
		"away/b/deep/deep.go":      "package deep\n",
		"away/b/deep/LICENSE.txt":  bsd,
		"away/b/NOTICE":            "b is by B",
	}
	for _, m := range []string{"a", "b", "c"} {
		files["away/"+m+"/go.mod"] = "module example.org/" + m + "\n\ngo 1.26.0\n"
		files["away/"+m+"/"+m+".go"] = "package " + m + "\n"
		files["away/"+m+"/LICENSE"] = mit + " by " + m
	}
	return files
}

func TestReport(t *testing.T) {
	got, err := report(write(t, repository()), []string{".", "cmd/tool"})
	require.NoError(t, err)
	text := string(got)
	for _, row := range []string{
		"| Go's standard library | BSD-3-Clause | command |", "| example.org/a | MIT | library |",
		"| example.org/b | BSD-2-Clause, MIT | command |", "| example.org/c | MIT | tests |",
	} {
		require.Contains(t, text, row+"\n")
	}
	for _, handed := range []string{mit + " by a", mit + " by b", "b is by B", bsd} {
		require.Contains(t, text, "\n```text\n"+handed+"\n```\n")
	}
	require.NotContains(t, text, "by c", "a user does not compile it")
}

// A licence that binds is refused, of whichever module, and one that is missing too.
func TestRefused(t *testing.T) {
	for file, says := range map[string]string{
		"away/a/LICENSE": "example.org/a: the licence in", "away/b/deep/LICENSE.txt": "example.org/b: the licence in",
		"away/c/LICENSE": "example.org/c: the licence in", "away/a/COPYING": "example.org/a: the licence in",
	} {
		files := repository()
		files[file] = gpl
		_, err := report(write(t, files), []string{".", "cmd/tool"})
		require.ErrorContains(t, err, says)
	}
	files := repository()
	delete(files, "away/a/LICENSE")
	_, err := report(write(t, files), []string{".", "cmd/tool"})
	require.ErrorContains(t, err, "example.org/a: no licence in")
}

// The document of a binary has each of its modules with a licence and a checksum.
func TestBill(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("a"))
	info := func() *debug.BuildInfo {
		return &debug.BuildInfo{
			GoVersion: "go1.26.1",
			Main:      debug.Module{Path: "example.org/x/own/cmd/tool", Version: "v1.2.2"},
			Deps: []*debug.Module{
				{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:" + base64.StdEncoding.EncodeToString(sum[:])},
				{Path: "example.org/x/own", Version: "v1.2.1", Replace: &debug.Module{Path: "../..", Version: "(devel)"}},
			},
		}
	}
	licences := map[string][]string{standard: {"BSD-3-Clause"}, "example.org/a": {"ISC", "MIT"}}
	doc, err := describe(info(), sum, licences, "v1.2.3")
	require.NoError(t, err)
	require.Equal(t, "pkg:golang/example.org/x/own/cmd/tool@v1.2.3", doc.Metadata.Component.PURL)
	require.Regexp(t, `^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$`, doc.Serial)
	var said []string
	for _, c := range doc.Components {
		said = append(said, fmt.Sprint(c.PURL, " ", c.Licences))
	}
	on := []string{"pkg:golang/std@1.26.1", "pkg:golang/example.org/a@v1.0.0", "pkg:golang/example.org/x/own@v1.2.3"}
	require.Equal(t, []string{on[0] + " [{{BSD-3-Clause}}]", on[1] + " [{{ISC}} {{MIT}}]", on[2] + " [{{MIT}}]"}, said)
	require.Equal(t, hex.EncodeToString(sum[:]), doc.Components[1].Hashes[0].Content)
	require.Len(t, doc.Dependencies, 4)
	require.Equal(t, on, doc.Dependencies[0].On)

	delete(licences, "example.org/a")
	_, err = describe(info(), sum, licences, "")
	require.ErrorContains(t, err, "example.org/a has no licence")
	unsummed := info()
	unsummed.Deps[0].Sum = ""
	_, err = describe(unsummed, sum, licences, "")
	require.ErrorContains(t, err, "example.org/a has no checksum")
}

// What the list says of a module is what a document takes from it.
func TestListed(t *testing.T) {
	t.Parallel()
	got, err := listed(filepath.Join("..", "..", "..", "docs", "THIRD_PARTY.md"))
	require.NoError(t, err)
	require.Equal(t, []string{"BSD-3-Clause"}, got[standard])
	require.Equal(t, []string{"Apache-2.0"}, got["github.com/redis/rueidis"])
	require.Greater(t, len(got), 30)
	_, err = listed(filepath.Join(write(t, map[string]string{"empty": ""}), "empty"))
	require.ErrorContains(t, err, "no table")
}
