package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"layover/internal/cli"
	"layover/internal/jobs/tools"
)

// serving is the settings of serve.
type serving struct {
	reading
	http    string
	names   string
	options tools.Options
	front   tools.HTTPOptions
}

func serveCommand() *cobra.Command {
	var s serving
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve assistants: over stdin and stdout, or over HTTP",
		Long: `Serve is the MCP server: over stdin and stdout for the one client that started it, or with --http over Streamable
HTTP, at /mcp, for any number; /healthz answers 200. It logs to stderr. Over HTTP only requests that name this machine
are served, and no web page of another one may call, unless --allow-host and --allow-origin say more. There is no login:
an address that others can reach needs something in front that has one.

A call may take --timeout unless it says how long, and at most --max-timeout. Over HTTP the headers Operation-Timeout,
Operation-Deadline, grpc-timeout and x-envoy-upstream-rq-timeout-ms count too; the earliest end is the call's.

SIGTERM, or the end of stdin, has the calls in progress answered: those that take longer than --drain with what there is.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	s.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&s.http, "http", "", "serve HTTP on this `address`, such as 127.0.0.1:8090")
	f.StringVar(&s.names, "names", "dots", "dots announces jobs.list and jobs.get, underscores jobs_list and jobs_get; both are understood always")
	f.DurationVar(&s.options.Default, "timeout", 45*time.Second, "how long a call may take that does not say so")
	f.DurationVar(&s.options.Longest, "max-timeout", 210*time.Second, "how long any call may take")
	f.DurationVar(&s.options.Drain, "drain", 5*time.Second, "how long calls go on after the end of stdin, or SIGTERM")
	f.DurationVar(&s.options.Heartbeat, "heartbeat", 10*time.Second, "the longest silence towards clients that asked for progress; at most 15s")
	f.IntVar(&s.options.MaxCalls, "max-calls", 64, "how many calls may be in progress; one more is refused at once")
	f.IntVar(&s.options.TextBytes, "text-bytes", 40_000, "the most bytes of an answer's text")
	f.StringSliceVar(&s.front.Hosts, "allow-host", nil, "serve requests for this `name` too (Host header)")
	f.StringSliceVar(&s.front.Origins, "allow-origin", nil, "let pages of this `origin` call, such as https://tools.example")
	return cmd
}

func (s *serving) check() error {
	if s.names != "dots" && s.names != "underscores" {
		return fmt.Errorf("--names: %q: write dots or underscores", s.names)
	}
	for name, d := range map[string]time.Duration{
		"--timeout": s.options.Default, "--max-timeout": s.options.Longest, "--drain": s.options.Drain, "--heartbeat": s.options.Heartbeat,
	} {
		if d <= 0 {
			return fmt.Errorf("%s: %v: write a time above 0, such as 10s", name, d)
		}
	}
	if s.options.Heartbeat > 15*time.Second {
		return fmt.Errorf("--heartbeat: %v: write at most 15s: clients and what is between give up on silence", s.options.Heartbeat)
	}
	if s.options.Default > s.options.Longest {
		return fmt.Errorf("--timeout: %v is more than --max-timeout, %v", s.options.Default, s.options.Longest)
	}
	if s.options.MaxCalls < 1 {
		return fmt.Errorf("--max-calls: %d: write 1 or more", s.options.MaxCalls)
	}
	if s.options.TextBytes < 4000 || s.options.TextBytes > 1_000_000 {
		return fmt.Errorf("--text-bytes: %d: write 4000 to 1000000", s.options.TextBytes)
	}
	return nil
}

func (s *serving) run(ctx context.Context) (err error) {
	out := os.Stdout
	os.Stdout = os.Stderr // nothing but the protocol is ever written to the client
	if err := s.check(); err != nil {
		return err
	}
	log, err := s.log(os.Stderr)
	if err != nil {
		return err
	}
	r, err := s.open(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	s.options.Version, s.options.Underscores, s.options.Log = version(), s.names == "underscores", log
	server := tools.New(r.engine, r.boards, s.options)
	if s.http == "" {
		return server.ServeStdio(ctx, os.Stdin, out)
	}
	l, err := net.Listen("tcp", s.http)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	log.Info("listening", "url", "http://"+l.Addr().String()+"/mcp", "pid", os.Getpid())
	return serveHTTP(ctx, l, server, s.front, log)
}

// serveHTTP serves l until ctx ends, and then what is in progress.
func serveHTTP(ctx context.Context, l net.Listener, server *tools.Server, front tools.HTTPOptions, log *slog.Logger) error {
	h := &http.Server{
		Handler: server.HTTP(front), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }() // ends with h
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.Info("stopping", "drain", server.Drain())
	late := time.AfterFunc(server.Drain(), server.Stop)
	defer late.Stop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), server.Drain()+2*time.Second)
	defer cancel()
	if err := h.Shutdown(drain); err != nil {
		h.Close()
		return fmt.Errorf("stop: calls were cut off: %w", err)
	}
	return nil
}
