package wire

import (
	"context"
	"errors"
	"testing"

	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

func TestTransient(t *testing.T) {
	require.True(t, Transient(context.DeadlineExceeded))
	require.True(t, Transient(errors.New("connection reset")))
	for _, final := range finalErrors {
		require.False(t, Transient(&NodeError{Op: "recount", Err: final}), final)
		saying := func(n int) error {
			q := &QuorumError{Need: 3, Of: 5}
			for i := range n {
				q.Nodes = append(q.Nodes, &MemberError{Node: i + 1, Err: final})
			}
			return q
		}
		require.True(t, Transient(saying(2)), "the others are a quorum")
		require.False(t, Transient(saying(3)), final)
	}
}

// What servers answer, as each of them spells it.
func TestReplyCode(t *testing.T) {
	const before7 = "ERR Error running script (call to f_08be99c76f7a10d96dc9ea23ee73a858e02d5ce8): @user_script:1: "
	const since7 = " script: 08be99c76f7a10d96dc9ea23ee73a858e02d5ce8, on @user_script:1."
	for reply, want := range map[string]string{
		"LOADING Redis is loading the dataset in memory":         "LOADING",
		"-MOVED 866 127.0.0.1:7001":                              "MOVED",
		"MOVED 866 127.0.0.1:7001":                               "MOVED",
		"NOPERM User nobody has no permissions":                  "NOPERM",
		"OOM command not allowed when used memory > 'maxmemory'": "OOM",
		"ERR value is not an integer or out of range":            "",
		"ERR user_script:9: WRONGTYPE Operation against a key":   "WRONGTYPE",
		"ERR index out of RANGE":                                 "",
		"ERR max number of clients reached":                      "MAXCLIENTS",
		"":                                                       "",
		before7 + "WRONGTYPE Operation against a key holding the wrong kind of value":            "WRONGTYPE",
		before7 + "@user_script: 1: -READONLY You can't write against a read only replica.":      "READONLY",
		before7 + "@user_script: 1: -NOREPLICAS Not enough good replicas to write.":              "NOREPLICAS",
		before7 + "@user_script: 12: -OOM command not allowed when used memory > 'maxmemory'.":   "OOM",
		before7 + "@user_script: 1: -MISCONF Redis is configured to save RDB snapshots":          "MISCONF",
		before7 + "@user_script: 1: The user executing the script can't run this command":        "NOPERM",
		before7 + "@user_script: 1: The user executing the script can't publish to the channel":  "NOPERM",
		"ERR The user executing the script can't access at least one of the keys" + since7:       "NOPERM",
		"ERR ACL failure in script: No permissions to access a key" + since7:                     "NOPERM",
		"ERR ACL failure in script: User u has no permissions to run the 'set' command" + since7: "NOPERM",
		"READONLY You can't write against a read only replica." + since7:                         "READONLY",
		"NOREPLICAS Not enough good replicas to write." + since7:                                 "NOREPLICAS",
	} {
		require.Equal(t, want, ReplyCode(reply), reply)
	}
}

// A reply without a code is told from one that has a code, in the words of the server and of client libraries.
func TestPlainError(t *testing.T) {
	for reply, want := range map[string]bool{
		"":                                   false,
		"ERR unknown command 'PUBSUB'":       true,
		"unknown command 'PUBSUB'":           true,
		"Unknown PUBSUB subcommand":          true,
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
