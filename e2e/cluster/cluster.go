// Package cluster has what stands around an atenet-router, on one machine: a
// control plane whose workers are servers on loopback addresses of their own,
// the router as a process, and a real Envoy.
//
//	c, err := cluster.Start(ctx, cluster.Options{Envoy: path, Router: binary, Workers: 2})
//	defer c.Stop()
//	c.Plane.AddActor(controlplane.Actor{Name: "demo/a", Resume: time.Second})
//	resp, err := http.DefaultClient.Do(c.Request("GET", "demo/a", "/", nil))
package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"layover/e2e/actor"
	"layover/e2e/envoy"
	"layover/internal/substrate/controlplane"
)

// Options say what to start.
type Options struct {
	Envoy   string   // path of an Envoy
	Router  string   // path of an atenet-router
	Workers int      // how many
	Args    []string // further flags of the router
}

// Cluster is what Start started. Its fields are read-only.
type Cluster struct {
	Plane *controlplane.Server
	Envoy *envoy.Envoy
	Addr  string // where Envoy listens

	options  Options
	flags    []string // of the router
	planFlag []string // those of them that bootstrap has, too
	ateapi   string   // address of the control plane
	status   string   // of the router's status page
	metrics  string
	admin    string // of Envoy's admin interface
	workers  []*http.Server
	router   *process
}

// process is a router that runs.
type process struct {
	cmd   *exec.Cmd
	log   *buffer
	ended chan struct{} // closed at its end
	err   error         // after ended
}

// IP is the address of worker i, which is also the name that it answers with.
func IP(i int) string { return "127.0.1." + strconv.Itoa(i+1) }

// Start starts all of it and returns when Envoy takes requests. ctx bounds the
// start only.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	c := &Cluster{Plane: controlplane.New(), options: o}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	port, err := c.startWorkers()
	if err != nil {
		return nil, err
	}
	if c.ateapi, err = c.Plane.Start("127.0.0.1:0"); err != nil {
		return nil, err
	}
	free, err := freeAddrs(6)
	if err != nil {
		return nil, err
	}
	c.Addr, c.admin, c.status, c.metrics = free[0], free[1], free[4], free[5]
	c.planFlag = []string{"--http-address=" + c.Addr, "--envoy-admin=" + c.admin, "--extproc-address=" + free[2], "--xds-address=" + free[3]}
	c.flags = append([]string{"--ateapi-address=" + c.ateapi, "--ateapi-insecure", "--actor-port=" + port,
		"--status-address=" + c.status, "--metrics-address=" + c.metrics}, append(o.Args, c.planFlag...)...)
	if err := c.StartRouter(ctx); err != nil {
		return nil, err
	}
	return c, c.StartEnvoy(ctx)
}

// startWorkers starts the workers at one port, each at an address of its own.
func (c *Cluster) startWorkers() (port string, err error) {
	pool := controlplane.Pool{Name: "default"}
	for i := range c.options.Workers {
		l, err := net.Listen("tcp", net.JoinHostPort(IP(i), port))
		if err != nil {
			return "", err
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		w := &http.Server{Handler: actor.Handler(IP(i)), Protocols: &protocols}
		c.workers = append(c.workers, w)
		pool.IPs = append(pool.IPs, IP(i))
		go w.Serve(l) // ends with Stop
	}
	c.Plane.AddPool(pool)
	return port, nil
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

// StartRouter starts the router, again if it was stopped, and returns when it is
// ready.
func (c *Cluster) StartRouter(ctx context.Context) error {
	p := &process{cmd: exec.Command(c.options.Router, c.flags...), log: new(buffer), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	c.router = p
	go func() { // ends with the process
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	for {
		if code, _ := c.Ready(ctx); code == http.StatusOK {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("the router ended: %v\n%s", p.err, p.log)
		case <-ctx.Done():
			return fmt.Errorf("the router is not ready: %w\n%s", context.Cause(ctx), p.log)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Signal sends a signal to the router.
func (c *Cluster) Signal(s syscall.Signal) error { return c.router.cmd.Process.Signal(s) }

// Ended is closed when the router has ended.
func (c *Cluster) Ended() <-chan struct{} { return c.router.ended }

// ExitCode is the router's, once it has ended.
func (c *Cluster) ExitCode() int { return c.router.cmd.ProcessState.ExitCode() }

// RouterLog is what the router has printed and logged.
func (c *Cluster) RouterLog() string { return c.router.log.String() }

// RouterPid is the router's process id.
func (c *Cluster) RouterPid() int { return c.router.cmd.Process.Pid }

// StartEnvoy starts the Envoy with what the router's bootstrap command prints,
// again if it was stopped.
func (c *Cluster) StartEnvoy(ctx context.Context) error {
	args := []string{"bootstrap"}
	for _, flag := range append(c.options.Args, c.planFlag...) {
		if planned(flag) {
			args = append(args, flag)
		}
	}
	cmd := exec.CommandContext(ctx, c.options.Router, args...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	bootstrap, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("atenet-router bootstrap: %w\n%s", err, complaint.Bytes())
	}
	c.Envoy, err = envoy.Start(ctx, c.options.Envoy, string(bootstrap), c.admin)
	return err
}

// planned reports whether bootstrap has the flag, too.
func planned(flag string) bool {
	for _, ours := range []string{"parked-request-retry-", "resume-", "drain-delay", "ateapi-", "host-suffix", "actor-port", "status-", "metrics-", "log-"} {
		if strings.HasPrefix(flag, "--"+ours) {
			return false
		}
	}
	return true
}

// Request returns a request for an actor, atespace/name, to be sent to Envoy.
func (c *Cluster) Request(method, actorName, path string, body io.Reader) *http.Request {
	req, err := http.NewRequest(method, "http://"+c.Addr+path, body)
	if err != nil {
		panic(err)
	}
	atespace, name, _ := strings.Cut(actorName, "/")
	req.Host = name + "." + atespace + ".actors.resources.substrate.ate.dev"
	return req
}

// Ready returns the status of the router's /readyz.
func (c *Cluster) Ready(ctx context.Context) (int, error) {
	resp, err := get(ctx, "http://"+c.status+"/readyz")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

// Parked returns how many requests are parked.
func (c *Cluster) Parked(ctx context.Context) (int, error) {
	resp, err := get(ctx, "http://"+c.status+"/statusz.json")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var status struct{ Lot struct{ Active int } }
	err = json.NewDecoder(resp.Body).Decode(&status)
	return status.Lot.Active, err
}

// Metrics returns what the router's /metrics says.
func (c *Cluster) Metrics(ctx context.Context) (string, error) {
	resp, err := get(ctx, "http://"+c.metrics+"/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return string(text), err
}

func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

// RestartPlane starts the control plane again after its Stop, at the same
// address.
func (c *Cluster) RestartPlane() error {
	_, err := c.Plane.Start(c.ateapi)
	return err
}

// Stop ends all of it.
func (c *Cluster) Stop() error {
	var errs []error
	if c.Envoy != nil {
		errs = append(errs, c.Envoy.Stop())
	}
	if c.router != nil {
		c.router.cmd.Process.Kill()
		<-c.router.ended
	}
	c.Plane.Stop()
	for _, w := range c.workers {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

// buffer is a bytes.Buffer for a writer and a reader at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
