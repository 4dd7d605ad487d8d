package wire

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

func TestTransient(t *testing.T) {
	require.True(t, Transient(context.DeadlineExceeded))
	require.True(t, Transient(errors.New("connection reset")))
	for _, final := range finalErrors {
		require.False(t, Transient(&NodeError{Op: driver.Recount, Err: final}), final)
		saying := func(n int) error {
			q := &QuorumError{Need: 3, Of: 5}
			for i := range n {
				q.Nodes = append(q.Nodes, &NodeError{Node: i + 1, Err: final})
			}
			return q
		}
		require.True(t, Transient(saying(2)), "the others are a quorum")
		require.False(t, Transient(saying(3)), final)
	}
}

// A login that is refused may be let in again, but not one that never was.
func TestAStrangersLoginIsFinal(t *testing.T) {
	for _, text := range []string{"WRONGPASS invalid username-password pair", "NOAUTH Authentication required."} {
		require.True(t, Transient(&driver.ReplyError{Text: text}), text)
		require.False(t, Transient(&driver.ReplyError{Text: text, Stranger: true}), text)
		require.True(t, RefusesLogin(&NodeError{Err: &driver.ReplyError{Text: text}}), text)
	}
	require.False(t, RefusesLogin(&driver.ReplyError{Text: "NOPERM no"}))
}

// A client of one server that a Cluster's server sends elsewhere is sent there again whenever it asks.
func TestAstrayIsFinal(t *testing.T) {
	for _, text := range []string{"MOVED 866 127.0.0.1:7001", "ASK 866 127.0.0.1:7001"} {
		require.True(t, Transient(&driver.ReplyError{Text: text}), text)
		require.False(t, Transient(&driver.ReplyError{Text: text, Astray: true}), text)
	}
}

// What servers answer, as each of them spells it, taken from Redis 6.2.14, 7.0.15 and 8.2.3 and from Valkey 8.1.8. A client
// library may leave out a plain ERR, which rueidis and valkey-go do.
func TestReplyCode(t *testing.T) {
	const (
		before7 = "ERR Error running script (call to f_08be99c76f7a10d96dc9ea23ee73a858e02d5ce8): @user_script:1: "
		since7  = " script: 08be99c76f7a10d96dc9ea23ee73a858e02d5ce8, on @user_script:1."

		wrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
		oom        = "OOM command not allowed when used memory > 'maxmemory'."
		readOnly   = "READONLY You can't write against a read only replica."
		noReplicas = "NOREPLICAS Not enough good replicas to write."
		misConf    = "MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk."
	)
	for want, replies := range map[string][]string{
		"": {
			"", "ERR value is not an integer or out of range", "ERR index out of RANGE", "ERR DB index is out of range",
			"ERR SELECT is not allowed in cluster mode", "ERR AUTH <password> called without any password configured for the default user.",
			"ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB HELP.",
			before7 + "Script killed by user with SCRIPT KILL...",
			"ERR user_script:1: attempt to index local 'a' (a nil value)" + since7,
			"ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'",
			"ERR Protocol error: unauthenticated multibulk length",
		},
		"NOCOMMAND": {
			"ERR unknown command `SSUBSCRIBE`, with args beginning with: `a`, ", "ERR unknown command 'NONSENSE', with args beginning with: 'a' ",
			before7 + "@user_script: 1: Unknown Redis command called from Lua script",
			"ERR Unknown Redis command called from script" + since7, "ERR Unknown command called from script" + since7,
			"ERR Invalid command passed to redis.acl_check_cmd()" + since7, "ERR Invalid command passed to server.acl_check_cmd()" + since7,
		},
		"LOADING":     {"LOADING Redis is loading the dataset in memory"},
		"MASTERDOWN":  {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."},
		"MOVED":       {"MOVED 866 127.0.0.1:7001"},
		"ASK":         {"ASK 866 127.0.0.1:7001"},
		"CROSSSLOT":   {"CROSSSLOT Keys in request don't hash to the same slot"},
		"CLUSTERDOWN": {"CLUSTERDOWN Hash slot not served", "ERR Script attempted to access a slot not served" + since7},
		"TRYAGAIN": {
			"TRYAGAIN Multiple keys request during rehashing of slot",
			before7 + "@user_script: 1: Lua script attempted to access a non local key in a cluster node",
			"ERR Script attempted to access a non local key in a cluster node" + since7,
		},
		"NOSCRIPT":  {"NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT No matching script."},
		"WRONGPASS": {"WRONGPASS invalid username-password pair or user is disabled."},
		"NOAUTH": {
			"NOAUTH Authentication required.",
			"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used",
		},
		"MAXCLIENTS": {"ERR max number of clients reached"},
		"BUSY": {
			"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
			"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		},
		// Raised in a script by redis.call; by error, of what redis.pcall returned; and returned as redis.pcall has it.
		"WRONGTYPE":  {wrongType, before7 + wrongType, wrongType + since7, "ERR " + wrongType + since7, "ERR user_script:9: " + wrongType},
		"OOM":        {oom, before7 + "@user_script: 12: -" + oom, "@user_script: 1: -" + oom, oom + since7, "ERR " + oom + since7},
		"READONLY":   {readOnly, before7 + "@user_script: 1: -" + readOnly, readOnly + since7, "ERR " + readOnly + since7},
		"NOREPLICAS": {noReplicas, before7 + "@user_script: 1: -" + noReplicas, noReplicas + since7, "ERR " + noReplicas + since7},
		"MISCONF":    {misConf, before7 + "@user_script: 1: -" + misConf, misConf + since7, "ERR " + misConf + since7},
		"NOPERM": {
			"NOPERM this user has no permissions to run the 'del' command or its subcommand",
			"NOPERM this user has no permissions to run the 'pubsub|shardnumsub' command",
			"NOPERM this user has no permissions to access one of the keys used as arguments",
			"NOPERM this user has no permissions to access one of the channels used as arguments",
			"NOPERM User u has no permissions to run the 'evalsha' command",
			"NOPERM No permissions to access a key",
			"NOPERM No permissions to access a channel",
			before7 + "@user_script: 1: The user executing the script can't run this command or subcommand",
			before7 + "@user_script: 1: The user executing the script can't publish to the channel mentioned in the command",
			"@user_script: 1: The user executing the script can't access at least one of the keys mentioned in the command arguments",
			"ERR The user executing the script can't run this command or subcommand" + since7,
			"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" + since7,
			"ERR ERR The user executing the script can't run this command or subcommand" + since7,
			"ERR ACL failure in script: No permissions to access a key" + since7,
			"ERR ACL failure in script: User u has no permissions to run the 'set' command" + since7,
			"ERR ACL failure in script: User u has no permissions to run the 'del' command",
			"ERR ERR ACL failure in script: No permissions to access a channel" + since7,
		},
		"WRONGKIND":   {before7 + "relock: WRONGKIND a read-write lock is held", "ERR relock: WRONGKIND a read-write lock is held" + since7},
		"QUARANTINED": {"QUARANTINED 1700000000000 30000"},
		"UNSEEDED":    {"UNSEEDED 1700000000000 17"},
	} {
		for _, reply := range replies {
			require.Equal(t, want, ReplyCode(reply), reply)
			require.Equal(t, want, ReplyCode("-"+reply), reply)
			if text := InWords(errors.New(reply)); want == "" {
				require.Equal(t, reply, text)
			} else {
				require.NotRegexp(t, "user_script|f_0|08be", text)
				require.Equal(t, want, ReplyCode(text), text)
			}
			require.Equal(t, want, ReplyCode(strings.TrimPrefix(reply, "ERR ")), "without ERR: %s", reply)
		}
	}
}

// A reply without a code is told from one that has a code, in the words of the server and of client libraries.
func TestPlainError(t *testing.T) {
	for reply, want := range map[string]bool{
		"":                                   false,
		"ERR unknown command 'PUBSUB'":       true,
		"unknown command 'PUBSUB'":           true,
		"Unknown PUBSUB subcommand":          true,
		"Unknown subcommand or wrong number": true,
		"LOADING Redis is loading":           false,
		"NOPERM User app has no permissions": false,
		"CLUSTERDOWN The cluster is down":    false,
	} {
		require.Equal(t, want, PlainError(reply), reply)
	}
}

// What may be about one key of several is asked again for each; what is about all of them is not.
func TestOfOneKey(t *testing.T) {
	for text, want := range map[string]bool{
		"NOPERM this user has no permissions to access one of the keys used as arguments": true,
		"NOPERM this user has no permissions to run the 'evalsha' command":                false,
		"ACL failure in script: User u has no permissions to run the 'set' command":       false,
		"ACL failure in script: No permissions to access a key":                           true,
		"TRYAGAIN Multiple keys request during rehashing of slot":                         true,
		"CROSSSLOT Keys in request don't hash to the same slot":                           true,
		"LOADING Redis is loading the dataset in memory":                                  false,
		"READONLY You can't write against a read only replica.":                           false,
		"OOM command not allowed when used memory > 'maxmemory'.":                         false,
	} {
		require.Equal(t, want, OfOneKey(&driver.ReplyError{Text: text}), text)
	}
	require.False(t, OfOneKey(context.DeadlineExceeded))
}
