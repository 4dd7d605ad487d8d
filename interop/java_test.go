package interop

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The Redisson versions that are tested: the current one, and the first that has RFencedLock.
const (
	current = "4.7.0"
	oldest  = "3.19.0"
)

// build runs Maven once for each version and test run. Maven itself skips what is up to date.
var build = map[string]func() (string, error){
	current: sync.OnceValues(func() (string, error) { return maven(current) }),
	oldest:  sync.OnceValues(func() (string, error) { return maven(oldest) }),
}

func maven(version string) (string, error) {
	cmd := exec.Command("mvn", "-q", "-B", "-Dredisson.version="+version, "package")
	cmd.Dir = "java"
	out, err := cmd.CombinedOutput()
	return string(bytes.TrimSpace(out)), err
}

// requireBuilt fails the test where Redisson cannot be run. A machine without Java is a failure: compatibility that was not
// tried is not compatibility.
func requireBuilt(t testing.TB, version string) {
	t.Helper()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is not installed; these tests need a JDK 17 and Maven: %v", tool, err)
		}
	}
	if out, err := build[version](); err != nil {
		t.Fatalf("mvn package in interop/java with Redisson %s: %v\n%s", version, err, out)
	}
}

// TestRedissonIsBuilt has Maven download and build all that the other tests need: `make redisson` does so ahead of them.
func TestRedissonIsBuilt(t *testing.T) {
	for version := range build {
		requireBuilt(t, version)
	}
}

// startJVM runs Redisson with the given configuration.
func startJVM(t testing.TB, version, yaml string, prefix ...string) *peer {
	t.Helper()
	requireBuilt(t, version)
	dir := filepath.Join("java", "target", version)
	classes := filepath.Join(dir, "driver.jar") + ":" + filepath.Join(dir, "lib", "*")
	args := append([]string{"-Xmx512m", "-cp", classes, "relock.interop.Driver", yaml}, prefix...)
	return startPeer(t, exec.Command("java", args...))
}
