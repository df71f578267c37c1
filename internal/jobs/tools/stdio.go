package tools

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage bounds one message of a client, in bytes.
const maxMessage = 1 << 20

// ServeStdio serves one client that writes to in and reads from out, a message
// a line, until in ends or ctx does. What is no message is answered with an error. Calls that are in progress then are
// answered, after Options.Drain with what there is.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.Writer) error {
	to := &lineWriter{to: out}
	t := &stdio{
		under: &mcp.IOTransport{Reader: newLines(in, to, s.o.Log), Writer: to}, server: s, stop: ctx,
		open: make(map[jsonrpc.ID]bool), changed: make(chan struct{}, 1),
	}
	session, err := s.mcp.Connect(context.WithoutCancel(ctx), t, nil)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.session = session
	t.mu.Unlock()
	err = session.Wait()
	if errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) {
		err = nil
	}
	return err
}

// stdio is the transport of one client, with what the SDK's lacks: the end of
// the input waits for the calls in progress, and a call that its client
// cancelled is not answered.
type stdio struct {
	under  mcp.Transport
	conn   mcp.Connection
	server *Server
	stop   context.Context

	mu      sync.Mutex
	session *mcp.ServerSession
	open    map[jsonrpc.ID]bool // calls that are not answered; true: cancelled
	changed chan struct{}       // one of them was answered
}

// Connect implements mcp.Transport.
func (t *stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.under.Connect(ctx)
	t.conn = conn
	return t, err
}

// Read implements mcp.Connection.
func (t *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := t.read(ctx)
	if err != nil {
		t.drain(ctx)
		return nil, err
	}
	if req, ok := msg.(*jsonrpc.Request); ok {
		t.note(req)
	}
	return msg, nil
}

// read ends also when the server is to stop: the SDK's does not.
func (t *stdio) read(ctx context.Context) (jsonrpc.Message, error) {
	type result struct {
		msg jsonrpc.Message
		err error
	}
	done := make(chan result, 1)
	go func() { // ends with the input, or with the process
		msg, err := t.conn.Read(ctx)
		done <- result{msg, err}
	}()
	select {
	case r := <-done:
		return r.msg, r.err
	case <-t.stop.Done():
		return nil, io.EOF
	}
}

// note remembers calls and cancels.
func (t *stdio) note(req *jsonrpc.Request) {
	if req.IsCall() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.open[req.ID] = false
		return
	}
	if req.Method != cancelledMethod {
		return
	}
	id, reason, ok := cancelled(req.Params)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.open[id]; open {
		t.open[id] = true
		t.server.o.Log.Info("cancelled by the client", "request", id.Raw(), "reason", reason)
	}
}

const cancelledMethod = "notifications/cancelled"

// cancelled reads the parameters of notifications/cancelled.
func cancelled(params json.RawMessage) (id jsonrpc.ID, reason string, ok bool) {
	var p struct {
		RequestID any    `json:"requestId"`
		Reason    string `json:"reason"`
	}
	if json.Unmarshal(params, &p) != nil || p.RequestID == nil {
		return id, "", false
	}
	id, err := jsonrpc.MakeID(p.RequestID)
	return id, clean(p.Reason, maxName), err == nil
}

// Write implements mcp.Connection.
func (t *stdio) Write(ctx context.Context, msg jsonrpc.Message) error {
	resp, ok := msg.(*jsonrpc.Response)
	if !ok {
		return t.conn.Write(ctx, msg)
	}
	t.mu.Lock()
	drop := t.open[resp.ID]
	t.mu.Unlock()
	var err error
	if !drop {
		err = t.conn.Write(ctx, msg)
	}
	t.mu.Lock()
	delete(t.open, resp.ID)
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
	return err
}

// drain waits until all calls are answered. After a while it has them answered
// with what there is.
func (t *stdio) drain(ctx context.Context) {
	t.await(ctx, t.server.o.Drain)
	t.mu.Lock()
	session := t.session
	t.mu.Unlock()
	t.server.calls.stop(session)
	t.await(ctx, time.Second) // to write them
}

func (t *stdio) await(ctx context.Context, most time.Duration) {
	over := time.NewTimer(most)
	defer over.Stop()
	for {
		t.mu.Lock()
		n := len(t.open)
		t.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-t.changed:
		case <-over.C:
			t.server.o.Log.Log(ctx, slog.LevelInfo, "calls are in progress at the end of the input", "calls", n)
			return
		case <-ctx.Done():
			return
		}
	}
}

// Close implements mcp.Connection.
func (t *stdio) Close() error { return t.conn.Close() }

// SessionID implements mcp.Connection.
func (t *stdio) SessionID() string { return "" }
