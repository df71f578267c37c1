package tools

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"layover/budget"
)

// HTTPOptions are the settings of a Server's HTTP side.
type HTTPOptions struct {
	// Hosts are names in the Host header that are accepted beside those of this
	// machine: localhost, *.localhost, and loopback addresses.
	Hosts []string
	// Origins are web pages that may call, such as "https://tools.example", beside
	// those of this machine. Requests without an Origin come from no web page.
	Origins []string
}

const (
	postHeader    = "X-Jobs-Post"    // leads from a call to its POST; set here, never by a client
	sessionHeader = "Mcp-Session-Id" // leads from a notification to the calls of its client
	versionHeader = "Mcp-Protocol-Version"
	bodyTime      = 30 * time.Second // for a request's body to come
)

// HTTP is the server's HTTP side: /mcp, and /healthz, which answers 200. It is
// stateless: any request may come to any process, except that
// notifications/cancelled works only at the process that has the call.
func (s *Server) HTTP(o HTTPOptions) http.Handler {
	stream := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: s.mcpLog(), MaxRequestBodyBytes: maxMessage,
		DisableLocalhostProtection: true, // replaced: it takes no names below localhost
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "ok\n")
	})
	mux.Handle("/mcp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.servePOST(w, r, stream)
			return
		}
		stream.ServeHTTP(w, r)
	}))
	return o.guarded(mux)
}

// guarded lets only requests through that were meant for this server: a web
// page whose name was made to lead to this machine names itself in them.
func (o HTTPOptions) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostname(r.Host); !here(host) && !slices.ContainsFunc(o.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
			http.Error(w, fmt.Sprintf("the host %q is not served here; name it with --allow-host to have it so", clean(host, 80)), http.StatusForbidden)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !o.mayCall(origin) {
			http.Error(w, fmt.Sprintf("pages of %q may not call; name it with --allow-origin to let them", clean(origin, 80)), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (o HTTPOptions) mayCall(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	return here(u.Hostname()) || slices.ContainsFunc(o.Origins, func(allowed string) bool { return strings.EqualFold(allowed, origin) })
}

func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}

// here reports whether host can only be this machine. Names below localhost
// never come from a name server (RFC 6761).
func here(host string) bool {
	host = strings.ToLower(host)
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// posts are the POSTs in progress.
type posts struct {
	mu      sync.Mutex
	byToken map[string]*post
	byCall  map[callKey]*post
}

// callKey names a call of a client that told its session.
type callKey struct {
	session string
	id      jsonrpc.ID
}

// post is one POST in progress.
type post struct {
	token   string
	ctx     context.Context // ends when the client is gone, or cancels
	cancel  context.CancelCauseFunc
	budget  budget.Budget
	limited bool // by a header
	call    callKey
}

// cause is why p's context ended.
func (p *post) cause() error {
	if err := context.Cause(p.ctx); err != context.Canceled {
		return err
	}
	return errLeft
}

// of is the POST that a request of the SDK came with, nil over stdio.
func (p *posts) of(extra *mcp.RequestExtra) *post {
	if extra == nil || extra.Header == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byToken[extra.Header.Get(postHeader)]
}

func (p *posts) add(one *post) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byToken == nil {
		p.byToken, p.byCall = make(map[string]*post), make(map[callKey]*post)
	}
	p.byToken[one.token] = one
	if one.call.session != "" {
		p.byCall[one.call] = one
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.byToken, one.token)
		if p.byCall[one.call] == one {
			delete(p.byCall, one.call)
		}
	}
}

// cancel ends the call of that client, if it is here.
func (p *posts) cancel(key callKey, cause error) bool {
	p.mu.Lock()
	one := p.byCall[key]
	p.mu.Unlock()
	if one == nil {
		return false
	}
	one.cancel(cause)
	return true
}

// servePOST serves a POST of which a call can find the context.
func (s *Server) servePOST(w http.ResponseWriter, r *http.Request, stream http.Handler) {
	limit, limited, err := budget.ReadHeaders(r.Header)
	switch {
	case errors.Is(err, budget.ErrPast):
		http.Error(w, strings.TrimPrefix(err.Error(), "budget: "), http.StatusGatewayTimeout)
		return
	case err != nil:
		http.Error(w, strings.TrimPrefix(err.Error(), "budget: "), http.StatusBadRequest)
		return
	}
	timed := r.Context()
	if limited {
		var end context.CancelFunc
		timed, end = budget.For(timed, limit)
		defer end()
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	p := &post{token: rand.Text(), budget: budget.From(timed), limited: limited}
	p.ctx, p.cancel = context.WithCancelCause(r.Context())
	defer p.cancel(nil)
	s.peek(w, r, body, p)
	defer s.posts.add(p)()
	r = r.WithContext(p.ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Set(postHeader, p.token)
	w.Header().Set("X-Accel-Buffering", "no")
	stream.ServeHTTP(w, r)
}

// readBody reads a request's body, which has a size and a time in which to come.
func readBody(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(bodyTime)) // where that is not possible there is no such limit
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if big, is := errors.AsType[*http.MaxBytesError](err); is {
		http.Error(w, fmt.Sprintf("the body has more than %d bytes", big.Limit), http.StatusRequestEntityTooLarge)
		return nil, false
	}
	if err != nil {
		http.Error(w, "the body did not come", http.StatusBadRequest)
		return nil, false
	}
	control.SetReadDeadline(time.Time{})
	return body, true
}

// peek looks at what a body asks for: a call may be cancelled by another POST of
// its client, which is known by the session that its initialize was given. That
// is a name and nothing more: nothing is kept under it.
func (s *Server) peek(w http.ResponseWriter, r *http.Request, body []byte, p *post) {
	var m struct {
		ID     any             `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(body, &m) != nil {
		return // a batch, or nothing that the SDK will take
	}
	session := r.Header.Get(sessionHeader)
	switch m.Method {
	case "initialize":
		w.Header().Set(sessionHeader, rand.Text())
	case "tools/call":
		if id, err := jsonrpc.MakeID(m.ID); err == nil && session != "" && len(session) <= 100 {
			p.call = callKey{session, id}
		}
	case cancelledMethod:
		id, reason, ok := cancelled(m.Params)
		if ok && session != "" && s.posts.cancel(callKey{session, id}, errors.New("cancelled: "+reason)) {
			s.o.Log.Info("cancelled by the client", "request", id.Raw(), "reason", reason)
		}
	}
}

// Stop has the calls in progress answered with what there is, and all that come.
// It is for the end of an HTTP server's drain.
func (s *Server) Stop() { s.calls.stopAll() }

// Drain is how long calls may go on after a stop.
func (s *Server) Drain() time.Duration { return s.o.Drain }
