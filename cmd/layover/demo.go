package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"layover/internal/cli"
)

// The demo's world. The first actor is the one that is awake, the next two are
// at the head of the line, the last is asked for with too little time, and once
// more when all is quiet.
var demoActors = []string{"ams", "cdg", "dub", "fra", "hel", "ist", "lis", "mad", "osl", "prg", "vie", "zrh"}

const (
	demoWorkers = 3
	demoSpots   = 24
)

func demoCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: a dozen actors, three workers, one burst",
		Long: `Demo runs a proxy with twelve actors that are small processes of this program, sends them a burst of
requests, and checks what it prints from what it measured. It needs no file and no other software. It stays
up to be tried until Ctrl-C; with --once it ends at once, with 0 only if everything that it printed held.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runDemo(ctx, cmd.OutOrStdout(), once)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "end after the burst; exit with 0 only if every claim held")
	return cmd
}

// errClaim ends a demo that measured something else than it claims.
var errClaim = errors.New("demo: not everything held")

// demoFiles is how many open files a demo needs: three for each of its requests
// that wait or are refused at once, a few for each actor, and some in reserve.
const demoFiles = 256

func runDemo(ctx context.Context, out io.Writer, once bool) error {
	if limit := openFiles(); limit < demoFiles {
		return fmt.Errorf("demo: it needs %d open files and may have %d; allow more: ulimit -n %[1]d", demoFiles, limit)
	}
	d, err := newDemo(out)
	if err != nil {
		return err
	}
	failure := d.play(ctx)
	held := failure == nil && d.report()
	if failure == nil && !once {
		d.invite()
		<-ctx.Done()
		fmt.Fprintln(out)
	}
	held = d.end(failure == nil) && held
	switch {
	case ctx.Err() != nil && !once:
		return nil
	case failure != nil:
		return failure
	case !held:
		return errClaim
	}
	return nil
}

// demo is one run: the proxy, and what was measured.
type demo struct {
	out    io.Writer
	folder string // temporary: state, events, gate
	server *server
	client *demoClient
	watch  *watcher
	screen *screen
	facts  facts
}

func newDemo(out io.Writer) (_ *demo, err error) {
	d := &demo{out: out}
	if d.folder, err = os.MkdirTemp("", "layover-demo-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(d.folder)
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c, err := parseConfig("demo", []byte(demoConfig(self, d.folder)))
	if err != nil {
		return nil, err
	}
	level := new(slog.LevelVar)
	level.Set(slog.LevelError)
	if d.server, err = start(c, cli.NewLog(os.Stderr, level, c.LogFormat), level, d.facts.record); err != nil {
		return nil, err
	}
	d.client = newDemoClient(d.server.listeners[0].Addr().String(), &d.facts)
	d.watch = newWatcher(d.server.router)
	d.screen = newScreen(out, d.watch)
	return d, nil
}

// demoConfig is the configuration of the demo's proxy. A caller chooses its
// band by the name that it uses, which is why both names are on this machine
// only.
func demoConfig(self, folder string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `listen: 127.0.0.1:0
admin: 127.0.0.1:0
state: %q
lot: %d
linger: 0s
trusted_peers: [127.0.0.1]
defaults: {budget: 1m, max_budget: 1m, start_timeout: 1m, grace: 5s, idle: 20s}
pools: {gates: {workers: %d}}
routes:
  - {name: now, host: "{actor}.now.localhost", band: 0}
  - {name: later, host: "{actor}.later.localhost", band: 1}
actors:
`, filepath.Join(folder, "state"), demoSpots, demoWorkers)
	for i, name := range demoActors {
		env := fmt.Sprintf("%s: %s, %s: %q, %s: %v", demoName, name, demoEvents, filepath.Join(folder, "events"),
			demoDelay, time.Duration(150+20*(i%5))*time.Millisecond)
		if i == 1 || i == 2 {
			env += fmt.Sprintf(", %s: %q", demoGate, filepath.Join(folder, fmt.Sprintf("gate-%d", i)))
		}
		fmt.Fprintf(&b, "  %s: {command: [%q], env: {%s}}\n", name, self, env)
	}
	return b.String()
}

// openGates lets the two actors at the head of the line finish their start,
// one after the other, so that no two workers become free in the same moment.
func (d *demo) openGates(ctx context.Context) error {
	for i := 1; i <= 2; i++ {
		if err := os.WriteFile(filepath.Join(d.folder, fmt.Sprintf("gate-%d", i)), nil, 0o600); err != nil {
			return err
		}
		cli.Pause(ctx, 110*time.Millisecond)
	}
	return nil
}

func (d *demo) invite() {
	_, port, _ := strings.Cut(d.server.listeners[0].Addr().String(), ":")
	fmt.Fprintf(d.out, `
It stays up until Ctrl-C. Try:
  curl http://fra.now.localhost:%[1]s/                                 wakes fra, or finds it awake
  curl -i -H 'Operation-Timeout: 50ms' http://cdg.now.localhost:%[1]s/  refused in 50 ms, and says when to come again
  for a in %[2]s; do curl http://$a.later.localhost:%[1]s/ & done
  %[3]s
`, port, strings.Join(demoActors[3:10], " "), "http://"+d.server.adminAddr.String()+"/statusz?refresh=1")
}

// end stops everything, and reports whether nothing of it is left. say also
// prints that.
func (d *demo) end(say bool) bool {
	d.screen.stop()
	d.watch.stop()
	err := d.server.stop(nil)
	left := d.processesLeft()
	held := err == nil && len(left) == 0
	if say {
		text := fmt.Sprintf("no process is left of the %d that ran", len(d.pids()))
		if !held {
			text += fmt.Sprintf(": %v left, %v", left, err)
		}
		d.claim(held, text)
	}
	os.RemoveAll(d.folder)
	return held
}

// pids returns every process that ever was an actor.
func (d *demo) pids() []int {
	var all []int
	for _, e := range d.events() {
		if !slices.Contains(all, e.pid) {
			all = append(all, e.pid)
		}
	}
	return all
}

// processesLeft returns those that still are one of this run's actors.
func (d *demo) processesLeft() []int {
	return slices.DeleteFunc(d.pids(), func(pid int) bool {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return true
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return err == nil && len(env) > 0 && !strings.Contains(string(env), d.folder) // the number was given to another
	})
}

// event is a line of the events file.
type event struct {
	what, name string
	pid        int
}

func (d *demo) events() []event {
	text, err := os.ReadFile(filepath.Join(d.folder, "events"))
	if err != nil {
		return nil
	}
	var all []event
	for line := range strings.Lines(string(text)) {
		var e event
		if _, err := fmt.Sscan(line, &e.what, &e.name, &e.pid); err == nil {
			all = append(all, e)
		}
	}
	return all
}
