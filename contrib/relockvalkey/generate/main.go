// Command generate writes the driver over valkey-go from the driver over rueidis. valkey-go is a
// fork of rueidis: they differ by names. It runs in the directory of package relockvalkey.
package main

import (
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
)

const (
	from = "../../internal/driver/overrueidis"
	to   = "overvalkey"
	head = "// Code generated from internal/driver/overrueidis by go generate. DO NOT EDIT.\n\n"
)

// names has rueidis's names and their equivalents, the longer ones first.
var names = strings.NewReplacer(
	"github.com/redis/rueidis", "github.com/valkey-io/valkey-go",
	"package overrueidis", "package overvalkey",
	"Package overrueidis", "Package overvalkey",
	"rueidis.IsRedisNil", "valkey.IsValkeyNil",
	"rueidis.Redis", "valkey.Valkey",
	"NonRedisError", "NonValkeyError",
	"library rueidis", "library valkey-go",
	"client of rueidis", "client of valkey-go",
	"rueidis.", "valkey.",
)

func main() {
	files, err := generate()
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate returns the texts of the driver's files.
func generate() (map[string][]byte, error) {
	sources, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, source := range sources {
		name := filepath.Base(source)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		if files[name], err = format.Source([]byte(head + names.Replace(string(text)))); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no driver in %s", from)
	}
	return files, nil
}
