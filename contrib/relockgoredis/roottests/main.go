// Command roottests makes an overlay by which the tests of package relock, and others that open
// clients of rueidis by package redistest, run over go-redis. It prints the flags that use it:
//
//	go test $(go run ./contrib/relockgoredis/roottests -o DIR) .
//
// The overlay gives the driver over rueidis another New, which opens a client of go-redis for what
// the client of rueidis was made for. So no test names a client library, and the library's module
// does not need go-redis.
package main

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed twin.go.txt
var twin string

// skip are tests of rueidis alone: what its own functions know of an error and that its client can be
// closed, of which package relockgoredis has the like, and that its pool of blocking connections is used
// up, beside which go-redis has its subscriptions.
const skip = "^(TestErrorsHoldTheClientsOwn|TestClosedRedisClient|TestMissingConnectionIsLogged)$"

const (
	driver  = "internal/driver/overrueidis"
	madeBy  = "func New(rdb rueidis.Client) *Redis {"
	renamed = "func newOfRueidis(rdb rueidis.Client) *Redis {"
)

func main() {
	dir := flag.String("o", "", "the `directory` to write to")
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("-overlay="+filepath.Join(*dir, "overlay.json"), "-skip="+skip)
}

func write(dir string) error {
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
