// Command twin makes an overlay that runs tests over another client library: those of package
// relock, and others that open clients of rueidis by package redistest. It prints the flags that
// use it:
//
//	go test $(go run ./internal/tools/twin -o DIR contrib/relockgoredis/like.go.txt) .
//
// The overlay gives the driver over rueidis another New, which opens an equivalent of the client
// that it is given. So no test names a client library, and the library's module needs none of the
// others. The named file has the function like, which makes the equivalent, and may name tests to
// leave out: "// skip: NAME NAME".
package main

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed twin.go.txt
var twin string

// left finds the tests that a file leaves out.
var left = regexp.MustCompile(`(?m)^// skip: (.+)$`)

const (
	driver  = "internal/driver/overrueidis"
	madeBy  = "func New(rdb rueidis.Client) *Redis {"
	renamed = "func newOfRueidis(rdb rueidis.Client) *Redis {"
)

func main() {
	dir := flag.String("o", "", "the `directory` to write to")
	flag.Parse()
	if *dir == "" || flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	like, err := os.ReadFile(flag.Arg(0))
	if err == nil {
		err = write(*dir, string(like))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print("-overlay=", filepath.Join(*dir, "overlay.json"))
	if skip := left.FindSubmatch(like); skip != nil {
		fmt.Printf(" -skip=^(%s)$", strings.ReplaceAll(string(skip[1]), " ", "|"))
	}
	fmt.Println()
}

// write writes the overlay to dir.
func write(dir, like string) error {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/relock-go/relock/"+driver).Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	at := strings.TrimSpace(string(out))
	text, err := os.ReadFile(filepath.Join(at, "redis.go"))
	if err != nil {
		return err
	}
	if strings.Count(string(text), madeBy) != 1 {
		return fmt.Errorf("%s/redis.go does not have %q", driver, madeBy)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	replace := map[string]string{}
	for name, text := range map[string]string{
		"redis.go": strings.Replace(string(text), madeBy, renamed, 1),
		"twin.go":  twin,
		"like.go":  like,
	} {
		replace[filepath.Join(at, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644)
}
