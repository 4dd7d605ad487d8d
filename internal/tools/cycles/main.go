// Command cycles says how much of a package hangs together: it lists the types and the files in the
// largest cycle of uses, each of which uses all others, directly or not. Tests are not looked at.
//
//	go run ./internal/tools/cycles [-v] [-dir D]
//
// A type uses another when its declaration, or a method with its body, names that type, a field of
// it, or a method of it. What a plain function names belongs to no type, so a call of one ties
// nothing. A file uses another when it names what is declared there at the top, or a method. Fields
// alone tie no files.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	dir := flag.String("dir", ".", "the package's directory")
	verbose := flag.Bool("v", false, "print what ties the cycles together")
	flag.Parse()
	if err := run(os.Stdout, *dir, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "cycles:", err)
		os.Exit(1)
	}
}

// run writes what hangs together in the package in dir.
func run(out io.Writer, dir string, verbose bool) error {
	s, err := load(dir)
	if err != nil {
		return err
	}
	u := usesOf(s)
	report(out, "types", u.types, verbose)
	report(out, "files", u.files, verbose)
	return nil
}

// report writes the largest cycle of g and, where it is to be verbose, each edge in it with its
// first example.
func report(out io.Writer, what string, g graph, verbose bool) {
	ring := g.largest()
	fmt.Fprintf(out, "%s: %d of %d in the largest cycle: %s\n", what, len(ring), len(g), strings.Join(ring, " "))
	if !verbose {
		return
	}
	for _, from := range ring {
		for _, to := range ring {
			if example, used := g[from][to]; used {
				fmt.Fprintf(out, "\t%s -> %s (%s)\n", from, to, example)
			}
		}
	}
}
