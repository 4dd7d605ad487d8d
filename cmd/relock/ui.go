package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockui"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// serving is relock ui.
type serving struct {
	std    stdio
	conn   connection
	flags  *pflag.FlagSet
	listen string
	hosts  []string
	force  bool
}

func (a *app) uiCommand() *cobra.Command {
	s := serving{std: a.std}
	cmd := &cobra.Command{
		Use:   "ui [flags]",
		Short: "Serve a page that shows the locks",
		Long: "Serve a page that shows the locks, who holds them and who waits, until a signal comes. It only reads,\n" +
			"unless -force is given. It asks nobody for a password: where others can reach the address, put it behind\n" +
			"what does.",
		Example: "  relock ui\n  relock ui -listen :8080 -host locks.example.com -redis redis://redis:6379",
		Args:    cobra.NoArgs,
		Run:     func(*cobra.Command, []string) { a.status = ended(a.std, "relock ui", s.run()) },
	}
	s.flags = cmd.Flags()
	s.flags.StringVar(&s.listen, "listen", "localhost:8080", "serve at `[host]:port`")
	s.flags.StringSliceVar(&s.hosts, "host", nil, "answer to this `name` too: by itself it answers to localhost, to addresses, "+
		"and to the host of -listen")
	s.flags.BoolVar(&s.force, "force", false, "let whoever sees the page free locks, after a question")
	s.conn.add(s.flags)
	return cmd
}

func (s *serving) run() error {
	if _, _, err := net.SplitHostPort(s.listen); err != nil {
		return usageError{fmt.Errorf("-listen %s: it looks like :8080", s.listen)}
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	redis, err := s.conn.open(s.flags)
	if err != nil {
		return err
	}
	defer redis.close()
	locks, err := redis.locks()
	if err != nil {
		return err
	}
	defer locks.Close()
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	fmt.Fprintf(s.std.out, "http://%s/ shows the locks of %s\n", listener.Addr(), redis.where)
	page := s.handler(ctx, locks, redis.where, listener.Addr())
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(late); errors.Is(err, context.DeadlineExceeded) {
		_ = server.Close()
	}
	return nil
}

// handler returns the page. It refuses requests whose Host is not a known name: otherwise another site
// could let its own name resolve to this server, and would be of the same origin (DNS rebinding). An
// address as Host is safe, but if only this machine can reach the page, it must be a loopback address.
func (s *serving) handler(ctx context.Context, locks *relock.Client, where string, addr net.Addr) http.Handler {
	opts := []relockui.Option{
		relockui.WithContext(ctx), relockui.WithLabel(where),
		relockui.WithLogger(slog.New(slog.NewTextHandler(s.std.err, nil))),
	}
	if s.force {
		opts = append(opts, relockui.WithForce())
	}
	page := relockui.Handler(locks, opts...)
	tcp, ok := addr.(*net.TCPAddr)
	here := ok && tcp.IP.IsLoopback()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.known(r.Host, here) {
			http.Error(w, "relock ui does not answer to this name: ask for localhost or an address, or start it with -host and the name",
				http.StatusMisdirectedRequest)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// known reports whether the page answers to a request's Host. here says that only this machine can reach
// the page.
func (s *serving) known(host string, here bool) bool {
	host = bare(host)
	if ip, err := netip.ParseAddr(host); err == nil {
		return !here || ip.Unmap().IsLoopback()
	}
	return slices.ContainsFunc(append([]string{"localhost", s.listen}, s.hosts...), func(known string) bool {
		return host != "" && strings.EqualFold(host, bare(known))
	})
}

// bare returns host without its port, the brackets of an address, and the dot that ends a full name.
func bare(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}
