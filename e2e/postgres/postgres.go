// Package postgres runs a real PostgreSQL server for as long as a program needs one.
//
//	server, err := postgres.Start(ctx, postgres.Options{})
//	if err != nil {
//		return err // errors.Is(err, postgres.ErrNone): there is none on this machine
//	}
//	defer server.Stop()
//	conn, err := pgx.Connect(ctx, server.URL())
//
// The server is Debian's if that is installed, else the one that npm ships. It has a data folder of its own that is deleted in
// the end, and listens on a unix socket in that folder only, so it takes no port and nobody but this user and root gets in. It
// is made for tests: fsync is off, and what it stores does not survive a crash of the machine.
//
// PostgreSQL refuses to run as root. A program that is root runs it as the user postgres, or nobody if there is no such user.
//
// On Linux the server also ends when the program is killed or panics; its folder then stays behind.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Options are the choices that have a default.
type Options struct {
	// Settings are further settings of the server, as in postgresql.conf. Default none.
	Settings map[string]string
	// Log is where the server writes its log: itself, so that it needs a file. Default: a file in its folder, of which a failed
	// start shows the end.
	Log *os.File
}

// A Server is a running PostgreSQL server. Start makes one.
type Server struct {
	dir  string
	proc *process
	stop func() error
}

const (
	superuser = "postgres"

	// How long a stop may take: politely (sessions are ended, buffers are written), then at once (as after a crash), before
	// the kernel ends it.
	politely = 10 * time.Second
	atOnce   = 8 * time.Second // the server itself gives its children 5 s

	readyProbe = 5 * time.Millisecond
)

// Start starts a server and returns when it takes connections. ctx bounds the start only. If the machine has no PostgreSQL and
// npm cannot get it either, the error is ErrNone.
func Start(ctx context.Context, o Options) (*Server, error) {
	bin, err := findBinaries(ctx)
	if err != nil {
		return nil, err
	}
	return startFrom(ctx, bin, o)
}

// startFrom starts the server of that folder of programs.
func startFrom(ctx context.Context, bin string, o Options) (_ *Server, err error) {
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "layover-postgres-")
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
	}
	data := filepath.Join(dir, "data")
	if err := initialize(ctx, bin, dir, data, as); err != nil {
		return nil, err
	}
	log := o.Log
	if log == nil {
		if log, err = os.Create(filepath.Join(dir, "log")); err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
		defer log.Close() // the server has its own
	}
	args := []string{
		"-D", data, "-k", dir,
		"-c", "listen_addresses=", "-c", "shared_buffers=16MB",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off",
	}
	for name, value := range o.Settings {
		args = append(args, "-c", name+"="+value)
	}
	cmd := command(dir, as, filepath.Join(bin, "postgres"), args...)
	cmd.Stdout, cmd.Stderr = log, log
	proc, err := launch(cmd)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s := &Server{dir: dir, proc: proc}
	s.stop = sync.OnceValue(s.end)
	if err := s.ready(ctx, data); err != nil {
		text := tail(filepath.Join(dir, "log"))
		s.Stop()
		return nil, fmt.Errorf("postgres: start: %w\n%s", err, text)
	}
	return s, nil
}

func initialize(ctx context.Context, bin, dir, data string, as *syscall.Credential) error {
	var out bytes.Buffer
	cmd := command(dir, as, filepath.Join(bin, "initdb"),
		"-D", data, "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.Stdout, cmd.Stderr = &out, &out
	proc, err := launch(cmd)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("postgres: initdb: %w: user %d, who is to run it, needs access to %s", err, as.Uid, bin)
	}
	if err != nil {
		return fmt.Errorf("postgres: initdb: %w", err)
	}
	select {
	case <-proc.done:
	case <-ctx.Done():
		proc.kill()
		return fmt.Errorf("postgres: initdb: %w", context.Cause(ctx))
	}
	if proc.err != nil {
		return fmt.Errorf("postgres: initdb: %w\n%s", proc.err, out.Bytes())
	}
	return nil
}

// ready waits until the server takes connections. It says so in the last line of its pid file, and to nobody else in a way that
// all of its builds have.
func (s *Server) ready(ctx context.Context, data string) error {
	probe := time.NewTicker(readyProbe)
	defer probe.Stop()
	for {
		if text, err := os.ReadFile(filepath.Join(data, "postmaster.pid")); err == nil && bytes.HasSuffix(bytes.TrimSpace(text), []byte("ready")) {
			return nil
		}
		select {
		case <-probe.C:
		case <-s.proc.done:
			return fmt.Errorf("it ended: %w", s.proc.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// URL is the address of the database postgres for its superuser, as libpq and pgx understand it.
func (s *Server) URL() string {
	return "postgres:///postgres?" + url.Values{"host": {s.dir}, "user": {superuser}}.Encode()
}

// Stop ends the server and its sessions, waits until it is gone and deletes its folder. It may be called several times, at once
// too. The error says what could not be deleted, or that the server had to be killed.
func (s *Server) Stop() error { return s.stop() }

func (s *Server) end() error {
	var err error
	if !s.proc.endBy(syscall.SIGINT, politely) && !s.proc.endBy(syscall.SIGQUIT, atOnce) {
		s.proc.kill()
		err = errors.New("postgres: the server did not stop and was killed")
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// process is a program that was started by launch.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it is gone and err is set
	err  error
}

// launch starts cmd and waits for it on the same thread: the kernel takes the end of the thread that started a process for the
// end of its parent, see attributes.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() { // ends with the process
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

// endBy sends the signal and reports whether the process is gone within d.
func (p *process) endBy(signal syscall.Signal, d time.Duration) bool {
	p.cmd.Process.Signal(signal)
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-p.done:
		return true
	case <-late.C:
		return false
	}
}

// kill ends the process group by force. Sessions are in groups of their own and end when they see their server gone.
func (p *process) kill() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// command is a program of the server, run in dir and without our environment: PGDATA, PGPORT and the like would change what it
// does.
func command(dir string, as *syscall.Credential, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = attributes()
	cmd.SysProcAttr.Setpgid = true // a terminal's ^C is for us: we stop the server
	cmd.SysProcAttr.Credential = as
	return cmd
}

// tail is the end of a log, for an error.
func tail(file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return text[max(0, len(text)-2000):]
}
