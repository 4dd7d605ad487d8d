package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// requireReached runs relock inspect, which must come to a Redis.
func requireReached(t *testing.T, flags ...string) {
	t.Helper()
	got := relockRun(append([]string{"inspect", "orders"}, flags...)...)
	require.Equal(t, statusOK, got.status, got.err)
	require.Contains(t, got.out, "lock      orders\n")
}

func TestWaysToSayWhichRedis(t *testing.T) {
	srv := redistest.Start(t)
	addr := srv.Addr()
	for _, url := range []string{addr, "redis://" + addr, "redis://" + addr + "/3", addr + "/3", "valkey://" + addr} {
		requireReached(t, "-redis", url)
		requireReached(t, "--redis="+url)
		t.Setenv("RELOCK_REDIS", url)
		requireReached(t)
	}
	t.Setenv("RELOCK_REDIS", "nowhere:1")
	requireReached(t, "-redis", addr)

	dir, err := os.MkdirTemp("", "relock") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	redistest.Start(t, "--unixsocket", dir+"/s")
	requireReached(t, "-redis", dir+"/s")
	requireReached(t, "-redis", "unix://"+dir+"/s?db=2")
}

// What is said by a variable is blamed on it, and no password is repeated.
func TestVariablesAreBlamed(t *testing.T) {
	t.Setenv("RELOCK_REDIS", "redis://me:secret@h:port")
	got := relockRun("inspect", "orders")
	require.Equal(t, statusUsage, got.status)
	require.Contains(t, got.err, "RELOCK_REDIS: the Redis URL is not understood")
	require.NotContains(t, got.err, "secret")

	t.Setenv("RELOCK_REDIS", "")
	t.Setenv("RELOCK_TLS", "perhaps")
	got = relockRun("inspect", "orders")
	require.Equal(t, statusUsage, got.status)
	require.Contains(t, got.err, "RELOCK_TLS: must be true or false")
}

func TestPasswords(t *testing.T) {
	srv := redistest.Start(t)
	srv.AddUser("me", "p@ss/word", "+@all", "~*", "&*")
	srv.Do("ACL", "SETUSER", "default", "resetpass", ">other")
	addr := srv.Addr()
	fails := func(says string, flags ...string) {
		t.Helper()
		got := relockRun(append([]string{"inspect", "orders"}, flags...)...)
		require.Equal(t, statusBroken, got.status)
		require.Contains(t, got.err, says)
		require.NotContains(t, got.err, "p@ss")
	}
	fails("give a password, in REDISCLI_AUTH, by RELOCK_PASSWORD_FILE or in the URL", "-redis", addr)
	requireReached(t, "-redis", "redis://me:p%40ss%2Fword@"+addr)
	t.Setenv("REDISCLI_AUTH", "other")
	requireReached(t, "-redis", addr)
	fails("check the user's name", "-redis", addr, "-user", "me")
	t.Setenv("RELOCK_PASSWORD", "p@ss/word")
	requireReached(t, "-redis", addr, "-user", "me")
	t.Setenv("RELOCK_USER", "me")
	requireReached(t, "-redis", addr)
	requireReached(t, "-redis", "redis://default:other@"+addr)
}

// A file has the password, but for the end of its line. RELOCK_PASSWORD and a URL with a password come before it, and
// REDISCLI_AUTH behind it.
func TestPasswordFile(t *testing.T) {
	srv := redistest.Start(t)
	srv.AddUser("me", "p@ss word\r", "+@all", "~*", "&*")
	srv.Do("ACL", "SETUSER", "default", "resetpass", ">other")
	addr, dir := srv.Addr(), t.TempDir()
	write := func(text string) string {
		name := filepath.Join(dir, "password")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644), "one that others may read is taken: so are Kubernetes' secrets")
		return name
	}
	t.Setenv("REDISCLI_AUTH", "wrong")
	for _, text := range []string{"other", "other\n", "other\r\n"} {
		t.Setenv(passwordFile, write(text))
		requireReached(t, "-redis", addr)
		got := relockRun("run", "-redis", addr, "orders", "--", "echo", "ran") // which looks twice
		require.Equal(t, result{out: "ran\n"}, got)
	}
	t.Setenv(passwordFile, write("p@ss word\r")) // only the end of a line is taken away
	requireReached(t, "-redis", addr, "-user", "me")
	for _, text := range []string{"other\n\n", " other", "other\r"} {
		t.Setenv(passwordFile, write(text))
		got := relockRun("inspect", "-redis", addr, "orders")
		require.Equal(t, statusBroken, got.status)
		require.Contains(t, got.err, "RELOCK_PASSWORD_FILE")
		require.NotContains(t, got.err, "other")
	}
	requireReached(t, "-redis", "redis://default:other@"+addr)
	t.Setenv("RELOCK_PASSWORD", "other")
	requireReached(t, "-redis", addr)
	t.Setenv("RELOCK_PASSWORD", "")

	for text, says := range map[string]string{
		"":   "there is no password in " + dir,
		"\n": "there is no password in " + dir,
		strings.Repeat("x", longestPassword) + "y": "has more than 65536 bytes",
	} {
		t.Setenv(passwordFile, write(text))
		for _, args := range []string{"inspect orders", "ls", "top -once", "unlock -force orders", "run orders -- true", "run orders"} {
			got := relockRun(append(strings.Fields(args), "-redis", addr)...)
			if strings.Contains(args, "--") {
				t.Setenv("RELOCK_REDIS", addr)
				got = relockRun(strings.Fields(args)...)
			}
			require.Equal(t, statusUsage, got.status, args)
			require.Contains(t, got.err, ": RELOCK_PASSWORD_FILE: ")
			require.Contains(t, got.err, says)
		}
		requireReached(t, "-redis", "redis://default:other@"+addr)
	}
	for name, says := range map[string]string{filepath.Join(dir, "none"): "no such file", dir: "is a directory"} {
		t.Setenv(passwordFile, name)
		got := relockRun("inspect", "-redis", addr, "orders")
		require.Equal(t, statusUsage, got.status)
		require.Contains(t, got.err, "relock inspect: RELOCK_PASSWORD_FILE: ")
		require.Contains(t, got.err, says)
	}
}

func TestPrefix(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("HSET", "billing:orders", "someone", "1")
	got := relockRun("inspect", "-redis", srv.Addr(), "-prefix", "billing:", "orders")
	require.Contains(t, got.out, "lock      orders\nholder    someone\n", got.err)
	t.Setenv("RELOCK_PREFIX", "billing:")
	got = relockRun("run", "-redis", srv.Addr(), "-wait", "0", "orders", "--", "true")
	require.Equal(t, statusNotAcquired, got.status, got.err)
}

// A minority of a quorum may be down when relock comes.
func TestQuorumOfSeveral(t *testing.T) {
	var addrs []string
	var nodes []*redistest.Server
	for range 3 {
		srv := redistest.Start(t)
		nodes, addrs = append(nodes, srv), append(addrs, srv.Addr())
	}
	locked := func(flags ...string) {
		t.Helper()
		got := relockRun(append(append([]string{"run"}, flags...), "orders", "--", "echo", "ran")...)
		require.Equal(t, result{out: "ran\n"}, got)
	}
	locked("-redis", addrs[0], "-redis", addrs[1], "-redis", addrs[2])
	for _, srv := range nodes {
		require.NotEmpty(t, srv.Do("GET", "redisson_lock_token:{orders}"), "each node was asked")
	}
	nodes[2].Kill()
	t.Setenv("RELOCK_REDIS", strings.Join(addrs, " "))
	locked()
	nodes[1].Kill()
	got := relockRun("run", "orders", "--", "true")
	require.Equal(t, statusBroken, got.status)
	require.Contains(t, got.err, addrs[1])
	require.Contains(t, got.err, addrs[2])
}

func TestClusterAndSentinel(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	requireReached(t, "-redis", cluster.Nodes()[0].Addr())

	group := redistest.StartSentinel(t)
	sentinel := group.Option().InitAddress[0]
	requireReached(t, "-redis", sentinel+"?master_set="+group.Option().Sentinel.MasterSet)
	got := relockRun("inspect", "-redis", sentinel, "orders")
	require.Equal(t, statusBroken, got.status)
	require.Contains(t, got.err, "add ?master_set=NAME to its URL")
}

// certificates writes what the client of a TLS server needs into files. The server's own certificate is trusted, as an
// authority's would be.
func certificates(t *testing.T, srv *redistest.Server, cfg *tls.Config) (ca, cert, key string) {
	t.Helper()
	conn, err := tls.Dial("tcp", srv.Addr(), cfg)
	require.NoError(t, err)
	defer conn.Close()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	own := cfg.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	require.NoError(t, err)
	return write("ca.crt", "CERTIFICATE", conn.ConnectionState().PeerCertificates[0].Raw),
		write("client.crt", "CERTIFICATE", own.Certificate[0]), write("client.key", "PRIVATE KEY", der)
}

func TestTLS(t *testing.T) {
	srv, cfg := redistest.StartTLS(t)
	ca, cert, key := certificates(t, srv, cfg)
	addr, url := srv.Addr(), "rediss://"+srv.Addr()
	requireReached(t, "-redis", url, "-cacert", ca, "-cert", cert, "-key", key)
	requireReached(t, "-redis", addr, "-tls", "-cacert", ca, "-cert", cert, "-key", key)
	requireReached(t, "-redis", addr, "-tls", "-insecure", "-cert", cert, "-key", key)
	requireReached(t, "-redis", url, "-sni", "localhost", "-cacert", ca, "-cert", cert, "-key", key)
	plain := redistest.Start(t)
	patient := "?dial_timeout=30s" // a busy machine may take longer than relock's 2 seconds for a handshake
	for _, c := range []struct {
		status int
		says   string
		flags  []string
	}{
		{statusBroken, "-cacert", []string{"-redis", url + patient, "-cert", cert, "-key", key}},
		{statusBroken, "-sni", []string{"-redis", url + patient, "-sni", "elsewhere", "-cacert", ca, "-cert", cert, "-key", key}},
		{statusBroken, "-cert and -key", []string{"-redis", url + patient, "-cacert", ca}},
		{statusBroken, "rediss://", []string{"-redis", addr + patient}},
		{statusBroken, "use redis:// without -tls", []string{"-redis", "rediss://" + plain.Addr()}},
		{statusUsage, "go together", []string{"-redis", url, "-cert", cert}},
		{statusUsage, "-cacert is for TLS", []string{"-redis", addr, "-cacert", ca}},
		{statusUsage, "none in PEM", []string{"-redis", url, "-cacert", os.Args[0]}},
		{statusUsage, "no such file", []string{"-redis", url, "-cacert", "none.crt"}},
	} {
		got := relockRun(append([]string{"inspect", "orders"}, c.flags...)...)
		require.Equal(t, c.status, got.status, "%v: %s", c.flags, got.err)
		require.Contains(t, got.err, c.says)
	}
	for name, value := range map[string]string{"RELOCK_REDIS": addr, "RELOCK_TLS": "1", "RELOCK_CACERT": ca, "RELOCK_CERT": cert,
		"RELOCK_KEY": key} {
		t.Setenv(name, value)
	}
	requireReached(t)
	t.Setenv("RELOCK_SNI", "elsewhere")
	require.Equal(t, statusBroken, relockRun("inspect", "orders").status)
	t.Setenv("RELOCK_INSECURE", "true")
	requireReached(t)
}

// The demo stops processes, so it must not come to a Redis by chance.
func TestDemoTakesNoNotice(t *testing.T) {
	srv := redistest.Start(t)
	t.Setenv("RELOCK_REDIS", srv.Addr())
	t.Setenv("RELOCK_PREFIX", "billing:")
	srv.ResetCommandCounts()
	got := relockRun("demo", "-lock", "none", "-for", "1s", "-lease", "100ms")
	require.Contains(t, got.out, "increments expected", got.err)
	require.Empty(t, srv.CommandCounts())
}

// Each of these is a mistake that is made, and the error tells what to do.
func TestErrorsNameTheCure(t *testing.T) {
	srv := redistest.Start(t)
	for url, cure := range map[string]string{
		"http://" + srv.Addr():           "it looks like redis://",
		"redis://:p#ss@" + srv.Addr():    "belongs into REDISCLI_AUTH",
		"redis://" + srv.Addr() + "/x":   "it looks like redis://",
		"redis://" + srv.Addr() + "/999": "the number behind the last / of the URL",
		"127.0.0.1:1":                    "is it running",
	} {
		got := relockRun("inspect", "-redis", url, "orders")
		require.NotEqual(t, statusOK, got.status)
		require.Contains(t, got.err, cure, url)
		require.NotContains(t, got.err, "p#ss")
	}
}

func TestVersion(t *testing.T) {
	got := relockRun("version")
	require.Equal(t, statusOK, got.status)
	require.Regexp(t, `^relock   \S*\n(?s:.*)go       go1\.`, got.out)

	clone := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "abc"}}
	changed := append(slices.Clone(clone), debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for _, c := range []struct {
		version  string
		settings []debug.BuildSetting
		commit   string
	}{
		{"v1.2.3", nil, ""},
		{"v1.2.3", clone, "commit   abc\n"},
		{"(devel)", clone, "commit   abc\n"},
		{"(devel)", changed, "commit   abc, and changes to it\n"},
		{"(devel)", nil, "commit   unknown: it was built with -buildvcs=false, or outside of a clone\n"},
		{"v0.0.0-20261123032303-bbf2ea927691", nil, "commit   bbf2ea927691\n"},
		{"v1.2.4-0.20261123032303-bbf2ea927691+dirty", nil, "commit   bbf2ea927691\n"},
	} {
		var out safeBuffer
		printVersion(&out, &debug.BuildInfo{
			Main: debug.Module{Version: c.version}, Deps: []*debug.Module{{Path: libraryModule, Version: "v1.2.0"}},
			Settings: c.settings,
		})
		require.Contains(t, out.String(), "relock   "+c.version+"\nlibrary  v1.2.0\n"+c.commit+"go ")
	}
	var out safeBuffer
	printVersion(&out, nil)
	require.Contains(t, out.String(), "relock   unknown\ncommit   unknown\n")

	told := relockRun("version")
	require.Contains(t, told.out, runtime.Version())
	for _, flag := range []string{"--version", "-version"} {
		require.Equal(t, told, relockRun(flag))
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got := relockRun("completion", shell)
		require.Equal(t, statusOK, got.status)
		require.Contains(t, got.out, "__complete")
	}
	require.Contains(t, relockRun("__complete", "ins").out, "inspect\t")
	require.Contains(t, relockRun("__complete", "run", "-wait", "5s", "--le").out, "--lease\t")
}
