package main

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// startPostgres runs a PostgreSQL of the test's own, on a socket in a directory of its own, and returns its URL.
func startPostgres(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short does without PostgreSQL")
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	require.NoError(t, err)
	require.NotEmpty(t, found, "no PostgreSQL: make postgres installs it on Debian and Ubuntu; -short does without")
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "pg") // not below t.TempDir, which another user cannot enter
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		account, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, err := strconv.ParseUint(account.Uid, 10, 32)
		require.NoError(t, err)
		gid, err := strconv.ParseUint(account.Gid, 10, 32)
		require.NoError(t, err)
		require.NoError(t, os.Chown(dir, int(uid), int(gid)))
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	run := func(name string, args ...string) error {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		log, err := os.Create(filepath.Join(dir, name+".out")) // no pipe: the server keeps it open after pg_ctl
		require.NoError(t, err)
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s: %v\n%s", name, err, text)
			return err
		}
		return nil
	}
	data := filepath.Join(dir, "data")
	require.NoError(t, run("initdb", "-D", data, "-U", "relock", "-A", "trust", "--no-sync"))
	require.NoError(t, run("pg_ctl", "-D", data, "-w", "-t", "300", "-l", filepath.Join(dir, "log"),
		"-o", "-c listen_addresses='' -c fsync=off -k "+dir, "start"))
	t.Cleanup(func() { require.NoError(t, run("pg_ctl", "-D", data, "-w", "-t", "300", "-m", "immediate", "stop")) })
	return "postgres://relock@/postgres?host=" + dir
}
