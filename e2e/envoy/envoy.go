// Package envoy finds a real Envoy and runs it for as long as a program needs
// one.
//
//	path, err := envoy.Find(ctx)
//	if err != nil {
//		return err // errors.Is(err, envoy.ErrNone): there is none on this machine
//	}
//	e, err := envoy.Start(ctx, path, bootstrap, "127.0.0.1:9901")
//	defer e.Stop()
//
// On Linux it also ends when the program is killed or panics.
package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Envoy is a running Envoy. Start makes one.
type Envoy struct {
	Admin string // address of its admin interface
	dir   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
	err   error         // how; after ended
}

const (
	graceful   = 5 * time.Second
	readyProbe = 20 * time.Millisecond
)

// Start starts the Envoy at path with that bootstrap configuration, whose admin
// address is admin, and returns when it is live: it has all of its configuration
// and listens. ctx bounds the start only.
func Start(ctx context.Context, path, bootstrap, admin string) (_ *Envoy, err error) {
	dir, err := os.MkdirTemp("", "layover-envoy-")
	if err != nil {
		return nil, fmt.Errorf("envoy: %w", err)
	}
	e := &Envoy{Admin: admin, dir: dir, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			e.Stop()
		}
	}()
	config := filepath.Join(dir, "bootstrap.yaml")
	if err := os.WriteFile(config, []byte(bootstrap), 0o600); err != nil {
		return nil, fmt.Errorf("envoy: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, fmt.Errorf("envoy: %w", err)
	}
	defer log.Close() // it has its own
	// No hot restart: its shared memory is the machine's, and names collide.
	cmd := exec.Command(path, "-c", config, "--disable-hot-restart", "--concurrency", "2", "--log-level", "warning", "--drain-time-s", "1")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("envoy: %w", err)
	}
	e.cmd = cmd
	go func() { // ends with the process
		e.err = cmd.Wait()
		close(e.ended)
	}()
	for {
		if text, err := e.Get(ctx, "/ready"); err == nil && strings.TrimSpace(text) == "LIVE" {
			return e, nil
		}
		select {
		case <-e.ended:
			return nil, fmt.Errorf("envoy: it ended: %v\n%s", e.err, e.Log())
		case <-ctx.Done():
			return nil, fmt.Errorf("envoy: it is not ready: %w\n%s", context.Cause(ctx), e.Log())
		case <-time.After(readyProbe):
		}
	}
}

// Get returns what the admin interface says at path.
func (e *Envoy) Get(ctx context.Context, path string) (string, error) {
	return e.admin(ctx, http.MethodGet, path)
}

// Post does what path says at the admin interface.
func (e *Envoy) Post(ctx context.Context, path string) error {
	_, err := e.admin(ctx, http.MethodPost, path)
	return err
}

func (e *Envoy) admin(ctx context.Context, method, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+e.Admin+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("envoy: %s: %s", path, resp.Status)
	}
	return string(text), err
}

// Pid is its process id.
func (e *Envoy) Pid() int { return e.cmd.Process.Pid }

// Log is the end of what it has logged.
func (e *Envoy) Log() string {
	text, _ := os.ReadFile(filepath.Join(e.dir, "log"))
	return string(text[max(0, len(text)-8000):])
}

// Stop ends it, and returns how it ended if that was not well. Calling it again
// is a no-op.
func (e *Envoy) Stop() error {
	defer os.RemoveAll(e.dir)
	if e.cmd == nil {
		return nil
	}
	e.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.ended:
	case <-time.After(graceful):
		e.cmd.Process.Kill()
		<-e.ended
		return errors.New("envoy: it did not end on TERM")
	}
	return e.err
}
