//go:build unix

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
	"time"

	"layover/internal/router"
)

// signs are what a program can show its readiness by. The zero value is none.
type signs struct {
	notify   *net.UnixConn    // NOTIFY_SOCKET
	listener *net.TCPListener // the socket that is handed down
	files    []*os.File       // for the program, from 3 on
	env      []string
}

// open prepares the signs that kind needs; close must follow, also after an
// error.
func (s *signs) open(kind, addr string) error {
	switch kind {
	case ReadyNotify:
		name, err := notifyName()
		if err != nil {
			return err
		}
		if s.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}); err != nil {
			return fmt.Errorf("notify socket: %w", err)
		}
		s.env = []string{"NOTIFY_SOCKET=" + name}
	case ReadySocket:
		l, err := net.Listen("tcp4", addr)
		if err != nil {
			return fmt.Errorf("socket to hand down: %w", err)
		}
		s.listener = l.(*net.TCPListener)
		file, err := s.listener.File()
		if err != nil {
			return fmt.Errorf("socket to hand down: %w", err)
		}
		s.files = []*os.File{file}
		s.env = []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=actor"}
	}
	return nil
}

// started closes what only the program needs.
func (s *signs) started() {
	for _, f := range s.files {
		f.Close()
	}
	s.files = nil
}

func (s *signs) close() {
	s.started()
	if s.notify != nil {
		s.notify.Close()
	}
	if s.listener != nil {
		s.listener.Close()
	}
}

// ready implements program.
func (pr *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // cancel ends it
		select {
		case <-pr.done:
			cancel(errExited)
		case <-ctx.Done():
		}
	}()
	last := pr.await(ctx)
	select {
	case <-pr.done: // it beats a probe that another one may have answered
		pr.lastWords()
		return fmt.Errorf("%w (%s)", errExited, pr.how())
	default:
	}
	if ctx.Err() == nil {
		return last
	}
	if last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), last)
}

// lastWords waits until the output of an exited program is complete. What it
// left behind and may still write is ended first.
func (pr *process) lastWords() {
	killed, cancel := context.WithCancel(context.Background())
	cancel()
	pr.endRest(killed)
	pr.finishOutput()
}

// await returns nil when the program is ready, and otherwise what was last
// seen of it.
func (pr *process) await(ctx context.Context) error {
	if pr.signs.listener != nil {
		return pr.takesConnection(ctx)
	}
	if pr.signs.notify != nil {
		if err := pr.notified(ctx); err != nil {
			return err
		}
	}
	if err := pr.connects(ctx); err != nil {
		return err
	}
	if err := pr.h.checkOwner(pr); err != nil {
		return err
	}
	if pr.job.Ready.Kind == ReadyHTTP {
		return pr.answers(ctx)
	}
	return nil
}

// connects waits until a connection to the port can be had. Where the program
// listens instead is looked up after a second, then after twice as long each
// time, and in the end: it means to look through the machine's processes.
func (pr *process) connects(ctx context.Context) error {
	var dialer net.Dialer
	var elsewhere []netip.AddrPort
	refused := func() error { return unheard{pr.addr(), elsewhere} }
	began, search := time.Now(), time.Second
	last := pr.watched(ctx, func(last error) error {
		c, err := dialer.DialContext(ctx, "tcp4", pr.addr())
		switch {
		case err == nil:
			c.Close()
			return nil
		case errors.Is(err, syscall.ECONNREFUSED):
			if time.Since(began) >= search {
				elsewhere, search = pr.h.elsewhere(pr), 2*search
			}
			return refused()
		}
		if cut, ok := errors.AsType[net.Error](err); last != nil && (ctx.Err() != nil || ok && cut.Timeout()) { // what came before says more
			return last
		}
		return err
	})
	_, deaf := errors.AsType[unheard](last)
	if _, late := errors.AsType[errNotReady](context.Cause(ctx)); deaf && late {
		elsewhere = pr.h.elsewhere(pr)
		return refused()
	}
	return last
}

// unheard is the error of a program that does not listen where it should.
type unheard struct {
	addr    string
	instead []netip.AddrPort
}

func (e unheard) Error() string {
	text := "nothing listens at " + e.addr
	switch n := len(e.instead); {
	case n == 1:
		text += ", the program listens at " + e.instead[0].String()
	case n > 1:
		text += fmt.Sprintf(", the program listens at %s and %d other addresses", e.instead[0], n-1)
	}
	return text
}

// watched is probe for what others may ask after meanwhile.
func (pr *process) watched(ctx context.Context, try func(last error) error) error {
	return probe(ctx, func(last error) error {
		err := try(last)
		if err != nil {
			pr.seen.Store(&err)
		}
		return err
	})
}

// lacks implements program.
func (pr *process) lacks() error {
	if seen := pr.seen.Load(); seen != nil {
		return *seen
	}
	return nil
}

// probe calls try, with the error that it returned last, until that is nil or
// ctx ends, and returns it. Between two calls it pauses.
func probe(ctx context.Context, try func(last error) error) (last error) {
	for began := time.Now(); ctx.Err() == nil; pause(ctx, time.Since(began)) {
		if last = try(last); last == nil {
			return nil
		}
	}
	return last
}

// The limit of one HTTP probe: doubled each time that it is hit, so that a slow
// program is heard in the end and a lost answer does not take the whole start.
const firstProbeLimit = time.Second

// answers waits until GET of the path is answered with a status below 400.
func (pr *process) answers(ctx context.Context) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(pr.job.Protocol == router.ProtocolH1)
	protocols.SetUnencryptedHTTP2(pr.job.Protocol == router.ProtocolH2C)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	defer transport.CloseIdleConnections()
	limit := firstProbeLimit
	return pr.watched(ctx, func(last error) error {
		attempt, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		status, err := pr.get(attempt, transport)
		switch {
		case err == nil && status < http.StatusBadRequest:
			return nil
		case err == nil:
			return fmt.Errorf("GET %s is answered with status %d", pr.job.Ready.Path, status)
		case ctx.Err() != nil && last != nil: // what came before says more
			return last
		case attempt.Err() != nil:
			limit *= 2
			return fmt.Errorf("GET %s is not answered", pr.job.Ready.Path)
		}
		return err
	})
}

func (pr *process) get(ctx context.Context, transport *http.Transport) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+pr.addr()+pr.job.Ready.Path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("User-Agent", "layover")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// What a program lacks that is to be ready by another sign than its port.
var (
	errNotNotified = errors.New("it did not send READY=1")
	errNotTaken    = errors.New("it did not take a connection from its socket")
)

// notified waits for READY=1.
func (pr *process) notified(ctx context.Context) error {
	conn := pr.signs.notify
	pr.seen.Store(&errNotNotified)
	defer context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })()
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			if ctx.Err() != nil {
				return errNotNotified
			}
			return fmt.Errorf("notify socket: %w", err)
		}
		for line := range bytes.Lines(buf[:n]) {
			if string(bytes.TrimSpace(line)) == "READY=1" {
				go drainNotify(conn) // signs.close ends it
				return nil
			}
		}
	}
}

// drainNotify reads what a program tells after it is ready: a full socket would
// hold it up in its next message.
func drainNotify(conn *net.UnixConn) {
	buf := make([]byte, 4096)
	for {
		_, err := conn.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) { // of the wait for READY=1, at the same moment
			err = conn.SetReadDeadline(time.Time{})
		}
		if err != nil {
			return
		}
	}
}

// takesConnection waits until the program has taken a connection from the
// socket that it was given. From then on the socket is the program's alone, so
// that connections fail when it exits instead of waiting for nobody.
func (pr *process) takesConnection(ctx context.Context) error {
	c, err := net.Dial("tcp4", pr.addr())
	if err != nil {
		return err
	}
	defer c.Close()
	defer pr.signs.listener.Close()
	pr.seen.Store(&errNotTaken)
	for began := time.Now(); ; pause(ctx, time.Since(began)) {
		n, err := backlog(pr.signs.listener)
		if err != nil || n == 0 {
			return err
		}
		if ctx.Err() != nil {
			return errNotTaken
		}
	}
}
