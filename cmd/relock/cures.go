package main

import (
	"fmt"
	"strings"
)

// wantsTLS is the cure for a connection that Redis cut. A TLS alert with the cause may have been lost with
// the connection.
const wantsTLS = "does it want TLS (rediss:// or -tls), or a client's certificate with it (-cert and -key)?"

const noTLS = "does it speak TLS there? else use redis:// without -tls"

// cures are hints for errors that a wrong URL or flag causes, each with a part of such an error's text.
var cures = []struct{ says, cure string }{
	{"NOAUTH", "give a password, in REDISCLI_AUTH, by RELOCK_PASSWORD_FILE or in the URL"},
	{"WRONGPASS", "check the user's name (-user, or in the URL) and the password (REDISCLI_AUTH, RELOCK_PASSWORD_FILE, or in the URL)"},
	{"first record does not look like a TLS handshake", noTLS},
	{errMute.Error(), noTLS},
	{"unknown authority", "give the authority's certificate with -cacert"},
	{"certificate required", "this Redis wants a client's certificate: give -cert and -key"},
	{"doesn't contain any IP SANs", "give the name in the server's certificate with -sni"},
	{"certificate is valid for", "give the name in the server's certificate with -sni"},
	{"DB index is out of range", "use a database that this Redis has: the number behind the last / of the URL"},
	{"unknown command", "a Sentinel answers so: add ?master_set=NAME to its URL"},
	{"no such host", "check the host's name"},
	{"connection refused", "is it running, and is that its port?"},
	{"EOF", wantsTLS},
	{"connection reset by peer", wantsTLS},
	{"broken pipe", wantsTLS},
	{"context deadline exceeded", "Redis does not answer"},
}

// cured adds its cure to an error, if one is known.
func cured(err error) error {
	for _, c := range cures {
		if strings.Contains(err.Error(), c.says) {
			return fmt.Errorf("%w (%s)", err, c.cure)
		}
	}
	return err
}
