// Command write makes the overlay of package overlay from the Go that runs it, and prints the flags that use it:
//
//	go test $(go run ./overlay/write -o DIR) ./...
//
// The first build with these flags compiles the standard library anew; the go command keeps what it made.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/relock-go/relock/internal/sim/overlay/patch"
)

func main() {
	dir := flag.String("o", "", "the `directory` to write to")
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	var flags []string
	root, version, err := patch.Installed()
	if err == nil {
		flags, err = patch.Write(root, version, *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(flags, " "))
}
