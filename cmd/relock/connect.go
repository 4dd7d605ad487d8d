package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/operator"
	"github.com/spf13/pflag"
)

// connection has the flags that say which Redis to use.
type connection struct {
	redis  []string
	prefix string
	secret secrets
}

// secrets are the user, the password and the TLS settings for each Redis of a connection. The demo sends
// them to its workers through a pipe.
type secrets struct {
	User     string `json:"user"`
	Password string `json:"password"`
	TLS      bool   `json:"tls"`
	CACert   string `json:"cacert"` // CACert, Cert and Key are names of files
	Cert     string `json:"cert"`
	Key      string `json:"key"`
	SNI      string `json:"sni"`
	Insecure bool   `json:"insecure"`

	unread error // why the file of the password cannot be used
}

const defaultRedis = "redis://localhost:6379"

// variables are the environment variables for flags that were not given, by the flag's name.
var variables = map[string]string{
	"redis": "RELOCK_REDIS", "prefix": "RELOCK_PREFIX", "user": "RELOCK_USER", "tls": "RELOCK_TLS",
	"cacert": "RELOCK_CACERT", "cert": "RELOCK_CERT", "key": "RELOCK_KEY", "sni": "RELOCK_SNI", "insecure": "RELOCK_INSECURE",
}

// passwordFile is the environment variable with the name of a file that has the password.
const passwordFile = "RELOCK_PASSWORD_FILE"

// passwords are the environment variables for a password that the URL does not have, the first first.
var passwords = []string{"RELOCK_PASSWORD", passwordFile, "REDISCLI_AUTH"}

// add adds the flags to those of a subcommand.
func (c *connection) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&c.redis, "redis", nil, "the Redis at `URL`, redis://[user:password@]host:port[/db] or host:port; "+
		"several times for a quorum; a password in it stands in the list of processes (default "+defaultRedis+") [$RELOCK_REDIS]")
	flags.StringVar(&c.prefix, "prefix", "", "what the names of all locks start with in Redis [$RELOCK_PREFIX]")
	c.secret.add(flags)
}

func (s *secrets) add(flags *pflag.FlagSet) {
	flags.StringVar(&s.User, "user", "", "the `name` to log in with where the URL has none; the password is in "+
		"$RELOCK_PASSWORD, the file $RELOCK_PASSWORD_FILE or $REDISCLI_AUTH [$RELOCK_USER]")
	flags.BoolVar(&s.TLS, "tls", false, "speak TLS, as rediss:// does [$RELOCK_TLS]")
	flags.StringVar(&s.CACert, "cacert", "", "trust the authorities in this `file` alone [$RELOCK_CACERT]")
	flags.StringVar(&s.Cert, "cert", "", "the client's certificate, a `file` [$RELOCK_CERT]")
	flags.StringVar(&s.Key, "key", "", "the client certificate's key, a `file` [$RELOCK_KEY]")
	flags.StringVar(&s.SNI, "sni", "", "the `name` that the server's certificate has [$RELOCK_SNI]")
	flags.BoolVar(&s.Insecure, "insecure", false, "take any certificate of the server's [$RELOCK_INSECURE]")
}

// fill sets the flags that were not given, and the password, from environment variables.
func (s *secrets) fill(flags *pflag.FlagSet) (err error) {
	for name, variable := range variables {
		value, flag := os.Getenv(variable), flags.Lookup(name)
		if value == "" || flag == nil || flag.Changed || name == "redis" {
			continue
		}
		if bad := flag.Value.Set(value); bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", variable, bad))
		}
	}
	for _, variable := range passwords {
		switch value := os.Getenv(variable); {
		case value == "" || s.Password != "" || s.unread != nil:
		case variable == passwordFile:
			s.Password, s.unread = readPassword(value)
		default:
			s.Password = value
		}
	}
	if s.TLS {
		return err
	}
	for _, name := range []string{"cacert", "cert", "key", "sni", "insecure"} {
		if flags.Changed(name) && !s.secured(flags) {
			return errors.Join(err, fmt.Errorf("-%s is for TLS: use rediss:// or -tls", name))
		}
	}
	return err
}

// longestPassword bounds what is read of a file.
const longestPassword = 64 << 10

// readPassword reads a password from a file, which may be a pipe, without the end of its last line.
func readPassword(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", passwordFile, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, longestPassword+1))
	password, ended := strings.CutSuffix(string(text), "\n")
	if ended {
		password = strings.TrimSuffix(password, "\r")
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", passwordFile, err)
	case len(text) > longestPassword:
		return "", fmt.Errorf("%s: %s has more than %d bytes: it is no password", passwordFile, name, longestPassword)
	case password == "":
		return "", fmt.Errorf("%s: there is no password in %s", passwordFile, name)
	}
	return password, nil
}

// secured reports whether some URL asks for TLS by itself.
func (s *secrets) secured(flags *pflag.FlagSet) bool {
	urls, _ := flags.GetStringArray("redis")
	all := strings.Join(urls, " ") + " " + os.Getenv(variables["redis"])
	return strings.Contains(all, "rediss://") || strings.Contains(all, "valkeys://")
}

// targets returns the Redis servers that the flags and variables name. It fails with a usageError.
func (c *connection) targets(flags *pflag.FlagSet) ([]target, error) {
	if err := c.secret.fill(flags); err != nil {
		return nil, usageError{err}
	}
	urls, from := c.redis, "-redis"
	if len(urls) == 0 {
		urls, from = []string{os.Getenv(variables["redis"])}, variables["redis"]
	}
	var all []target
	for _, url := range strings.Fields(strings.Join(urls, " ")) {
		all = append(all, target{URL: url, Secrets: c.secret})
	}
	if len(all) == 0 {
		all = []target{{URL: defaultRedis, Secrets: c.secret}}
	}
	for i := range all {
		all[i].Alone, all[i].Small = len(all) > 1, true
		if _, err := all[i].options(); err != nil && err == c.secret.unread {
			return nil, usageError{err}
		} else if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", from, err)}
		}
	}
	return all, nil
}

// access has the clients of the Redis that a connection names: one, or the nodes of a quorum.
type access struct {
	where  string
	prefix string
	rdbs   []rueidis.Client
}

// open connects. A minority of a quorum may be down. isUsage reports whether another command line would
// mend the error.
func (c *connection) open(flags *pflag.FlagSet) (*access, error) {
	targets, err := c.targets(flags)
	if err != nil {
		return nil, err
	}
	a := &access{prefix: c.prefix}
	var down []error
	for _, t := range targets {
		rdb, err := t.open()
		if rdb != nil {
			a.rdbs = append(a.rdbs, rdb)
		}
		if err != nil {
			down = append(down, err)
		}
		a.where = strings.TrimPrefix(a.where+", "+t.String(), ", ")
	}
	if len(targets)-len(down) < len(targets)/2+1 || len(a.rdbs) < len(targets) {
		a.close()
		return nil, errors.Join(down...)
	}
	return a, nil
}

func (a *access) close() {
	for _, rdb := range a.rdbs {
		rdb.Close()
	}
}

// locks returns a client of locks, which the caller closes before a.
func (a *access) locks(opts ...relock.ClientOption) (*relock.Client, error) {
	opts = append([]relock.ClientOption{relock.WithNamePrefix(a.prefix)}, opts...)
	if len(a.rdbs) > 1 {
		return relock.NewRedlock(a.rdbs, opts...)
	}
	return relock.New(a.rdbs[0], opts...)
}

// reader returns a Reader that inspects the locks, without the connections of a client of locks.
func (a *access) reader() *operator.Reader {
	nodes := make([]driver.Reader, len(a.rdbs))
	for i, rdb := range a.rdbs {
		nodes[i] = overrueidis.New(rdb)
	}
	return operator.NewReader(nodes, a.prefix)
}

// usageError is an error of the command line.
type usageError struct{ error }

// isUsage reports whether err can be mended by another command line.
func isUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage) || errors.Is(err, relock.ErrMisuse)
}

// ended prints err, if it is not nil, and returns the exit status for it.
func ended(std stdio, name string, err error) int {
	switch {
	case err == nil:
		return statusOK
	case isUsage(err):
		return misused(std, name, err)
	default:
		return failed(std, statusBroken, name, cured(err))
	}
}
