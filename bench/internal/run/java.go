package run

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/relock-go/relock/bench/internal/peer"
)

// buildLimit bounds the Java worker's build, which may have to download.
const buildLimit = 5 * time.Minute

func needsJVM(s peer.Spec) bool { return s.JVM != "" }

// findJava prepares the Java worker. Its peers are left out without JDK and Maven, and of a quick run unless they were
// asked for: a JVM takes longer to warm up than a quick run takes.
func (r *runner) findJava(ctx context.Context) {
	wanted := false
	for _, s := range r.specs {
		wanted = wanted || s.JVM != ""
	}
	if !wanted {
		return
	}
	if r.cfg.Quick && len(r.cfg.Peers) == 0 {
		r.leaveOut("a JVM takes longer to warm up than a quick run takes; -peers redisson measures it", needsJVM)
		return
	}
	java, err := exec.LookPath("java")
	if err != nil {
		r.leaveOut("no java in PATH", needsJVM)
		return
	}
	jar := filepath.Join(r.cfg.Java, "target", "bench-redisson.jar")
	if _, err := os.Stat(jar); err != nil {
		if err := r.buildJava(ctx); err != nil {
			r.leaveOut(err.Error(), needsJVM)
			return
		}
	}
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		r.leaveOut("java -version: "+err.Error(), needsJVM)
		return
	}
	title, _, _ := strings.Cut(string(out), "\n")
	r.report.Machine.Java = strings.TrimSpace(title)
	r.java.command = []string{java, "-Xms64m", "-Xmx1g", "-XX:+UseSerialGC", "-jar", jar}
}

func (r *runner) buildJava(ctx context.Context) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("no mvn in PATH to build the Java worker with")
	}
	if _, err := os.Stat(filepath.Join(r.cfg.Java, "pom.xml")); err != nil {
		return fmt.Errorf("the Java worker's project is not in %s; run the bench from the repository's root", r.cfg.Java)
	}
	if r.cfg.Progress != nil {
		fmt.Fprintln(r.cfg.Progress, "building the Java worker (once)")
	}
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-Dstyle.color=never", "package")
	cmd.Dir = r.cfg.Java
	if out, err := cmd.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("the Java worker cannot be built: %w: %s", err, first)
	}
	return nil
}

// redissonVersion reads the version that the Java worker's project pins.
func redissonVersion(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "pom.xml"))
	if err != nil {
		return ""
	}
	var pom struct {
		Version string `xml:"properties>redisson.version"`
	}
	if xml.Unmarshal(text, &pom) != nil {
		return ""
	}
	return pom.Version
}
