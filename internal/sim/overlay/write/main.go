// Command write makes the overlay of package overlay from the Go that runs it, and prints the flags that use it:
//
//	go test $(go run ./overlay/write -o DIR) ./...
//
// The first build with these flags compiles the standard library anew; the go command keeps what it made.
//
// The overlay also adds the kind of lock that two may hold, which stands in the library's tests, to the library: so the
// simulation can use it, and no program ships it.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	flags, err := write(*dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(flags, " "))
}

func write(dir string) ([]string, error) {
	root, version, err := patch.Installed()
	if err != nil {
		return nil, err
	}
	library, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/relock-go/relock").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	at := func(file string) string { return filepath.Join(strings.TrimSpace(string(library)), file) }
	return patch.Write(root, version, dir, map[string]string{at("pair.go"): at("pair_test.go")})
}
