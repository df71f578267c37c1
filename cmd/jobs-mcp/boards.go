package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"layover/internal/cli"
	"layover/internal/jobs/board"
	"layover/internal/jobs/fakeboards"
)

// playing is the settings of boards.
type playing struct {
	listen string
	script string
	limits bool
	plan   fakeboards.Plan
}

func boardsCommand() *cobra.Command {
	var p playing
	cmd := &cobra.Command{
		Use:   "boards",
		Short: "Serve all boards from a made-up world, with faults after a script",
		Long: `Boards is every board at once, each in its own shape with its own paging, limits and oddities, from a made-up world
that is the same for the same --seed. Point any other command at it with --boards-at. A script is a YAML list of faults:

  - board: workday        # which requests: board, host, path, query, body, method; * stands for any text
    path: "*/jobs"
    from: 3               # beginning with the third of them, every, times
    times: 2
    status: 429           # what happens: status, text, challenge, redirect, reset, bomb, repeat;
    headers: {Retry-After: "120"} # delay, headers, type, truncate, bom; cut, stall, drip, pace; shift`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&p.listen, "listen", "127.0.0.1:8091", "serve on this `address` of this machine")
	f.StringVar(&p.script, "script", "", "a `file` with faults")
	f.BoolVar(&p.limits, "limits", false, "refuse what is over the boards' known limits")
	f.Uint64Var(&p.plan.Seed, "seed", 1, "which world")
	f.IntVar(&p.plan.Companies, "companies", 3, "companies of each board")
	f.IntVar(&p.plan.Jobs, "jobs", 20, "jobs of each company")
	f.IntVar(&p.plan.Odd, "odd", 0, "unreadable rows of each company")
	return cmd
}

func (p *playing) run(ctx context.Context, out io.Writer) error {
	script, err := p.readScript()
	if err != nil {
		return err
	}
	if p.plan.Companies < 1 || p.plan.Companies > 1000 || p.plan.Jobs < 1 || p.plan.Jobs > 9000 || p.plan.Odd < 0 {
		return errors.New("--companies: 1 to 1000; --jobs: 1 to 9000; --odd: not below 0")
	}
	world := fakeboards.Generate(p.plan)
	server := fakeboards.New(world)
	server.Play(script)
	server.SetLimits(p.limits)
	played, err := play(p.listen, server)
	if err != nil {
		return err
	}
	defer played.close()
	fmt.Fprintf(out, "boards on %s, pid %d; %d faults\n", played.address, os.Getpid(), len(script))
	for _, b := range board.All {
		if b.Parse == nil {
			fmt.Fprintf(out, "  %s\n", b.Name)
			continue
		}
		var slugs []string
		for _, c := range world.Boards[b.Name] {
			slugs = append(slugs, b.Name+":"+c.Slug)
		}
		if len(slugs) > 4 {
			slugs = append(slugs[:4], fmt.Sprintf("and %d more", len(slugs)-4))
		}
		fmt.Fprintf(out, "  %s\n", strings.Join(slugs, ", "))
	}
	fmt.Fprintf(out, "try:\n  jobs-mcp list  --boards-at %s --board remotive\n  jobs-mcp serve --boards-at %[1]s\n", played.address)
	select {
	case <-ctx.Done():
		return nil
	case err := <-played.failed:
		return err
	}
}

func (p *playing) readScript() (fakeboards.Script, error) {
	if p.script == "" {
		return nil, nil
	}
	f, err := os.Open(p.script)
	if err != nil {
		return nil, fmt.Errorf("--script: %w", err)
	}
	defer f.Close()
	return fakeboards.ReadScript(f)
}

// played is boards that are served on an address of this machine.
type played struct {
	address string
	server  *http.Server
	failed  chan error
}

func play(address string, boards http.Handler) (*played, error) {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("--listen: %q: made-up boards are served on this machine only: write an address like 127.0.0.1:8091", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	p := &played{address: l.Addr().String(), failed: make(chan error, 1)}
	p.server = &http.Server{Handler: boards, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { p.failed <- p.server.Serve(l) }() // ends with close
	return p, nil
}

func (p *played) close() {
	p.server.Close()
	<-p.failed
}
