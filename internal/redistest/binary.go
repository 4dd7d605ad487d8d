package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// ServerEnv names the environment variable that holds the path of the
// redis-server or valkey-server binary to use instead of the PATH's
// redis-server.
const ServerEnv = "RELOCK_REDIS_SERVER"

// binary is a server program and what it says about itself.
type binary struct {
	path         string
	major, minor int
	valkey       bool
}

// binaries holds one binary per path, so that each is asked its version once.
var binaries sync.Map

var versionPattern = regexp.MustCompile(`\bv=(\d+)\.(\d+)`)

// findBinary returns the server program to use. It fails when there is none or
// when it does not tell its version.
func findBinary() (binary, error) {
	name := os.Getenv(ServerEnv)
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return binary{}, fmt.Errorf("%w\ninstall it (apt-get install redis-server redis-tools) or set %s", err, ServerEnv)
	}
	if known, ok := binaries.Load(path); ok {
		return known.(binary), nil
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return binary{}, fmt.Errorf("%s --version: %w", path, err)
	}
	bin, err := parseVersion(path, string(out))
	if err == nil {
		binaries.Store(path, bin)
	}
	return bin, err
}

// parseVersion reads the line that `redis-server --version` prints.
func parseVersion(path, line string) (binary, error) {
	found := versionPattern.FindStringSubmatch(line)
	if found == nil {
		return binary{}, fmt.Errorf("%s --version: no version in %q", path, line)
	}
	bin := binary{path: path, valkey: strings.Contains(strings.ToLower(line), "valkey")}
	bin.major, _ = strconv.Atoi(found[1])
	bin.minor, _ = strconv.Atoi(found[2])
	return bin, nil
}

// flags are the options every server of this program starts with. Later
// arguments override them.
func (b binary) flags() []string {
	flags := []string{
		"--save", "",
		"--appendonly", "no",
		"--repl-diskless-sync-delay", "0",
	}
	if b.major >= 7 {
		// Older servers allow DEBUG anyway and refuse to start with a flag they do not know.
		flags = append(flags, "--enable-debug-command", "yes")
	}
	return flags
}
