package tools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/fakeboards"
	"layover/internal/jobs/posting"
	"layover/internal/jobs/search"
)

// rig is a server over boards that a test makes up.
type rig struct {
	*Server
	engine *search.Engine
	logged *safeBuffer
}

func newRig(o Options, boards ...*board.Board) *rig {
	r := &rig{logged: new(safeBuffer)}
	o.Log = slog.New(slog.NewTextHandler(r.logged, nil))
	r.engine = search.New(boards, func(*board.Board) board.Fetch { return nil }, search.Options{Cost: Cost})
	r.Server = New(r.engine, boards, o)
	return r
}

// safeBuffer is a buffer that goroutines may share.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// listed is a board without companies whose one page are these jobs.
func listed(name string, jobs ...posting.Job) *board.Board {
	return &board.Board{
		Name: name, Title: name, Text: true,
		Page: func(context.Context, board.Fetch, board.Listing, string) (board.Page, error) {
			return board.Page{Jobs: slices.Clone(jobs), Received: len(jobs), Total: len(jobs)}, nil
		},
		Get: func(_ context.Context, _ board.Fetch, _ board.Company, local string) (posting.Job, error) {
			for _, j := range jobs {
				if j.ID == name+"//"+local {
					return j, nil
				}
			}
			return posting.Job{}, &board.Trouble{Verdict: board.NotVisible, Detail: "it does not show it"}
		},
	}
}

// hanging is a board that does not answer; what ended each wait is sent to ended.
func hanging(name string, ended chan<- error) *board.Board {
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		if ended != nil {
			ended <- context.Cause(ctx)
		}
		return ctx.Err()
	}
	return &board.Board{
		Name: name, Title: name,
		Page: func(ctx context.Context, _ board.Fetch, _ board.Listing, _ string) (board.Page, error) {
			return board.Page{}, wait(ctx)
		},
		Get: func(ctx context.Context, _ board.Fetch, _ board.Company, _ string) (posting.Job, error) {
			return posting.Job{}, wait(ctx)
		},
	}
}

// jobs makes n jobs of a board, newest first.
func jobs(name string, n int) []posting.Job {
	all := make([]posting.Job, n)
	for i := range all {
		url := fmt.Sprintf("https://%s.example/jobs/%d", name, i)
		id := posting.ID(name, "", fmt.Sprint(i))
		all[i] = posting.Job{
			ID: id, Title: fmt.Sprintf("Engineer <%d> & more", i), Company: fmt.Sprintf("Company %d", i),
			Locations: []string{"Lisbon, Portugal"}, Workplace: []posting.Workplace{posting.Remote},
			Posted: posting.Date{At: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(i) * time.Hour), Precision: posting.Instant},
			URL:    url, HTML: fmt.Sprintf("<p>Text %d</p>", i),
		}
	}
	return all
}

// message is one JSON-RPC message that came, and when.
type message struct {
	At     time.Time
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Result struct {
		IsError    bool                          `json:"isError"`
		Content    []struct{ Type, Text string } `json:"content"`
		Structured json.RawMessage               `json:"structuredContent"`
		Tools      []json.RawMessage             `json:"tools"`
	} `json:"result"`
}

func (m message) text() string {
	if len(m.Result.Content) != 1 || m.Result.Content[0].Type != "text" {
		return ""
	}
	return m.Result.Content[0].Text
}

func (m message) list(t *testing.T) (l List) {
	t.Helper()
	if err := json.Unmarshal(m.Result.Structured, &l); err != nil {
		t.Fatalf("structured content %s: %v", m.Result.Structured, err)
	}
	return l
}

// progress reads the parameters of a progress notification.
func (m message) progress(t *testing.T) (p struct {
	Token    any     `json:"progressToken"`
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"`
	Message  string  `json:"message"`
}) {
	t.Helper()
	if err := json.Unmarshal(m.Params, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// stdioClient is a client at the other end of ServeStdio.
type stdioClient struct {
	t     *testing.T
	in    *io.PipeWriter
	came  chan message
	ended chan error // of ServeStdio
}

func (r *rig) connect(t *testing.T, ctx context.Context) *stdioClient {
	t.Helper()
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	c := &stdioClient{t: t, in: in, came: make(chan message, 1000), ended: make(chan error, 1)}
	go func() {
		c.ended <- r.ServeStdio(ctx, fromClient, toClient)
		toClient.Close()
	}()
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			m := message{At: time.Now()}
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Errorf("%q is no message: %v", lines.Text(), err)
			}
			c.came <- m
		}
		close(c.came)
	}()
	c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if m := <-c.came; m.ID != "init" || m.Error != nil {
		t.Fatalf("initialize was answered with %+v", m)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *stdioClient) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// call sends a call of a tool; meta is empty or JSON.
func (c *stdioClient) call(id int, tool, arguments, meta string) {
	c.t.Helper()
	c.send(callLine(id, tool, arguments, meta))
}

func callLine(id int, tool, arguments, meta string) string {
	if meta == "" {
		meta = "{}"
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":%s}}`, id, tool, arguments, meta)
}

// ask calls a tool and returns the answer, which must be the next message.
func (c *stdioClient) ask(tool, arguments string) message {
	c.t.Helper()
	c.call(1, tool, arguments, "")
	m := <-c.came
	if m.ID != 1.0 {
		c.t.Fatalf("%s %s: got %+v before the answer", tool, arguments, m)
	}
	return m
}

// close ends the input and waits for the end of ServeStdio.
func (c *stdioClient) close() {
	c.t.Helper()
	c.in.Close()
	if err := <-c.ended; err != nil {
		c.t.Errorf("ServeStdio: %v", err)
	}
}

// once serves one client for one question.
func (r *rig) once(t *testing.T, tool, arguments string) message {
	t.Helper()
	c := r.connect(t, t.Context())
	defer c.close()
	return c.ask(tool, arguments)
}

// web is the HTTP side of a rig over pipes.
type web struct {
	t      *testing.T
	pipe   *fakeboards.Pipe
	client *http.Client
}

func (r *rig) web(t *testing.T) *web {
	w := &web{t: t, pipe: fakeboards.NewPipe(r.HTTP(HTTPOptions{}))}
	w.client = &http.Client{Transport: &http.Transport{DialContext: w.pipe.Dial}}
	return w
}

func (w *web) close() {
	w.client.CloseIdleConnections()
	w.pipe.Close()
}

// post sends a message in the version of the protocol that header has, if any.
func (w *web) post(ctx context.Context, body string, header http.Header) (*http.Response, error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	return w.client.Do(req)
}

// events reads the messages of an answer's stream to its end.
func events(t *testing.T, resp *http.Response) (all []message) {
	t.Helper()
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		m := message{At: time.Now()}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Errorf("%q is no message: %v", data, err)
		}
		all = append(all, m)
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return all
}

// modern makes a message and its headers those of the protocol's stateless
// version.
func modern(id int, tool, arguments, token string) (body string, header http.Header) {
	meta := `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	if token != "" {
		meta += `,"progressToken":"` + token + `"`
	}
	return callLine(id, tool, arguments, meta+"}"), http.Header{
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool},
	}
}
