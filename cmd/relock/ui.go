package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

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
		Example: "  relock ui\n  relock ui -listen :8080 -redis redis://redis:6379",
		Args:    cobra.NoArgs,
		Run:     func(*cobra.Command, []string) { a.status = ended(a.std, "relock ui", s.run()) },
	}
	s.flags = cmd.Flags()
	s.flags.StringVar(&s.listen, "listen", "localhost:8080", "serve at `[host]:port`")
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
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	fmt.Fprintf(s.std.out, "http://%s/ shows the locks of %s\n", listener.Addr(), redis.where)
	page := s.handler(ctx, redis, listener.Addr())
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

// handler is the page. On an address that only this machine can reach it answers to no other name:
// a page of another site could have its own name lead here, and be of one origin with this one.
func (s *serving) handler(ctx context.Context, redis *access, addr net.Addr) http.Handler {
	opts := []relockui.Option{
		relockui.WithContext(ctx), relockui.WithNamePrefix(redis.prefix), relockui.WithLabel(redis.where),
		relockui.WithLogger(slog.New(slog.NewTextHandler(s.std.err, nil))),
	}
	if s.force {
		opts = append(opts, relockui.WithForce())
	}
	page := relockui.RedlockHandler(redis.rdbs, opts...)
	if tcp, ok := addr.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return page
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			http.Error(w, "this address is for this machine alone, as localhost", http.StatusMisdirectedRequest)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// isLocal reports whether the Host of a request means this machine.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
