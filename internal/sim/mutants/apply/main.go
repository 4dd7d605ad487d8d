// Command apply applies a mutant to a tree of the library:
//
//	go run ./mutants/apply MUTANT TREE
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/relock-go/relock/internal/sim/mutants"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: apply MUTANT TREE")
		os.Exit(2)
	}
	if err := apply(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func apply(mutant, tree string) error {
	text, err := os.ReadFile(mutant)
	if err != nil {
		return err
	}
	changed, err := mutants.Apply(os.DirFS(tree), string(text))
	for path, text := range changed {
		if err == nil {
			err = os.WriteFile(filepath.Join(tree, path), text, 0o600)
		}
	}
	return err
}
