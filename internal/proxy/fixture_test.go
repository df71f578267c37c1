package proxy

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"layover/internal/router"
	"layover/parking"
)

// limit bounds every wait of these tests for something that must happen, on however
// busy a machine.
const limit = 30 * time.Second

// plane is a router.Plane whose actors wake when the test says so.
type plane struct {
	mu       sync.Mutex
	actors   map[string]*fakeActor
	wants    int // calls of Want
	inflight int // rides not done
	refused  int // times that a ride said so
	parks    chan string
}

type fakeActor struct {
	target router.Target
	awake  bool
	wakes  chan error // one value per wake-up
}

func (p *plane) actor(name string) *fakeActor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.actors[name]
}

// add puts an actor behind addr. It is awake if awake is set, else wake wakes it.
func (p *plane) add(name, protocol, addr string, awake bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.actors[name] = &fakeActor{
		target: router.Target{Addr: addr, Protocol: protocol, Wake: 1}, awake: awake, wakes: make(chan error, 1),
	}
}

func (p *plane) wake(name string)            { p.actor(name).wakes <- nil }
func (p *plane) fail(name string, err error) { p.actor(name).wakes <- err }

// sleep puts an actor to sleep; its next wake-up is behind addr.
func (p *plane) sleep(name, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.actors[name]
	a.awake = false
	a.target.Addr = addr
	a.target.Wake++
}

func (p *plane) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wants
}

func (p *plane) rides() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inflight
}

func (p *plane) refusals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

func (p *plane) Want(actor string) (router.Use, error) {
	if p.actor(actor) == nil {
		return nil, router.Fail(router.UnknownActor, "no such actor", nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wants++
	return &fakeUse{plane: p, actor: actor}, nil
}

func (p *plane) Resume(ctx context.Context, actor string, f *router.Flight) (router.Target, error) {
	f.Park("starting")
	p.parks <- actor
	defer f.Phase(router.PhaseWake)()
	a := p.actor(actor)
	select {
	case err := <-a.wakes:
		if err != nil {
			return router.Target{}, err
		}
	case <-ctx.Done():
		return router.Target{}, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a.awake = true
	return a.target, nil
}

func (p *plane) Glance(actor string) (router.Target, router.Use, router.State, error) {
	a := p.actor(actor)
	if a == nil {
		return router.Target{}, nil, "", router.Fail(router.UnknownActor, "no such actor", nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !a.awake {
		return router.Target{}, nil, router.Asleep, nil
	}
	u := &fakeUse{plane: p, actor: actor}
	u.enterLocked(true)
	return a.target, u, router.Awake, nil
}

func (p *plane) Snapshot() (s router.PlaneSnapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.actors {
		s.Actors = append(s.Actors, router.ActorSnapshot{Name: name})
	}
	return s
}

type fakeUse struct {
	plane *plane
	actor string
	with  bool
	done  bool
}

func (u *fakeUse) Awake() (router.Target, bool) {
	u.plane.mu.Lock()
	defer u.plane.mu.Unlock()
	a := u.plane.actors[u.actor]
	u.enterLocked(a.awake)
	return a.target, a.awake
}

func (u *fakeUse) Take(t router.Target) bool {
	u.plane.mu.Lock()
	defer u.plane.mu.Unlock()
	a := u.plane.actors[u.actor]
	u.enterLocked(a.awake && a.target == t)
	return u.with
}

func (u *fakeUse) enterLocked(ok bool) {
	if ok {
		u.with = true
		u.plane.inflight++
	}
}

func (u *fakeUse) Unreachable() {
	u.plane.mu.Lock()
	defer u.plane.mu.Unlock()
	if u.with && !u.done {
		u.plane.refused++
	}
}

func (u *fakeUse) Done() {
	u.plane.mu.Lock()
	defer u.plane.mu.Unlock()
	if u.with && !u.done {
		u.plane.inflight--
	}
	u.done = true
}

// setup is what a test changes of the fixture.
type setup struct {
	lot     int // default 100
	budget  time.Duration
	options Options
	tls     bool
	routes  []router.Route // added before the default one
	silent  bool           // no records
}

// fixture is a proxy on a real listener. The host of a request names its
// actor: "a.test".
type fixture struct {
	*plane
	t       testing.TB
	proxy   *Proxy
	router  *router.Router
	lot     *parking.Lot
	addr    string
	base    string // URL without a path
	tls     *tls.Config
	records chan router.Record
}

func newFixture(t testing.TB, s setup) *fixture {
	t.Helper()
	if s.lot == 0 {
		s.lot = 100
	}
	if s.budget == 0 {
		s.budget = time.Minute
	}
	if s.options.Log == nil {
		s.options.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	f := &fixture{
		plane:   &plane{actors: make(map[string]*fakeActor), parks: make(chan string, 100_000)},
		t:       t,
		lot:     parking.NewLot(s.lot),
		records: make(chan router.Record, 100_000),
	}
	observe := func(r router.Record) { f.records <- r }
	if s.silent {
		observe = nil
	}
	f.router = router.New(f.plane, f.lot, router.Options{Observe: observe})
	names, err := router.NewNames(append(s.routes, router.Route{
		Name: "all", Host: "{actor}.test", Budget: s.budget, MaxBudget: max(s.budget, time.Minute),
	}))
	if err != nil {
		t.Fatal(err)
	}
	f.router.SetNames(names)
	f.proxy = New(f.router, s.options)

	l := listen(t)
	f.addr = l.Addr().String()
	f.base = "http://" + f.addr
	served := make(chan error, 1)
	if s.tls {
		f.base = "https://" + f.addr
		server, client := certificate(t)
		f.tls = client
		go func() { served <- f.proxy.ServeTLS(l, server) }()
	} else {
		go func() { served <- f.proxy.Serve(l) }()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := f.proxy.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown at the end of the test = %v", err)
		}
		if err := <-served; err != http.ErrServerClosed {
			t.Errorf("Serve = %v, want %v", err, http.ErrServerClosed)
		}
		if n := f.rides(); n != 0 {
			t.Errorf("%d rides are not done at the end", n)
		}
		if n := f.lot.Snapshot().Active; n != 0 {
			t.Errorf("%d spots are taken at the end", n)
		}
	})
	return f
}

// catchAll leads every request to the actor a.
func catchAll() []router.Route {
	return []router.Route{{Name: "any", Actor: "a", Budget: time.Minute, MaxBudget: time.Minute}}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// actorH1 adds an actor that speaks HTTP/1.1.
func (f *fixture) actorH1(name string, awake bool, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	f.t.Cleanup(s.Close)
	f.add(name, router.ProtocolH1, s.Listener.Addr().String(), awake)
	return s
}

// actorH2C adds an actor that speaks HTTP/2 in the clear.
func (f *fixture) actorH2C(name string, awake bool, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	f.t.Cleanup(s.Close)
	f.add(name, router.ProtocolH2C, s.Listener.Addr().String(), awake)
	return s
}

// client returns an HTTP client of the proxy that speaks version 1 or 2 and
// shares no connection with others.
func (f *fixture) client(version int) *http.Client {
	protocols := new(http.Protocols)
	switch {
	case version == 1:
		protocols.SetHTTP1(true)
	case f.tls != nil:
		protocols.SetHTTP2(true)
	default:
		protocols.SetUnencryptedHTTP2(true)
	}
	tr := &http.Transport{Protocols: protocols, TLSClientConfig: f.tls, ExpectContinueTimeout: limit, DisableCompression: true}
	f.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func (f *fixture) request(method, actor, path string, body io.Reader) *http.Request {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.base+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Host = actor + ".test"
	return req
}

// raw is a client that writes bytes.
type raw struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func (f *fixture) dial() *raw {
	f.t.Helper()
	return f.dialProto("http/1.1")
}

// dialProto is dial with what a client of TLS wants to speak.
func (f *fixture) dialProto(protocol string) *raw {
	f.t.Helper()
	return f.over(f.dialTCP(), protocol)
}

// dialTCP is dial without TLS.
func (f *fixture) dialTCP() *raw {
	f.t.Helper()
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(limit))
	return &raw{f.t, c, bufio.NewReader(c)}
}

// over speaks TLS over c if the proxy does.
func (f *fixture) over(c *raw, protocol string) *raw {
	if f.tls == nil {
		return c
	}
	config := f.tls.Clone()
	config.NextProtos = []string{protocol}
	secure := tls.Client(c.Conn, config)
	return &raw{f.t, secure, bufio.NewReader(secure)}
}

func (c *raw) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, strings.ReplaceAll(format, "\n", "\r\n"), args...); err != nil {
		c.t.Fatalf("client: write: %v", err)
	}
}

func (c *raw) response(method string) *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("client: read a response: %v", err)
	}
	return resp
}

// reset closes the connection with RST.
func (c *raw) reset() {
	conn := c.Conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// finish closes the connection's sending side: the proxy gets a FIN.
func (c *raw) finish() {
	conn := c.Conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	conn.(*net.TCPConn).CloseWrite()
}

func (f *fixture) parked() {
	f.t.Helper()
	receive(f.t, f.parks, "a request parks")
}

func (f *fixture) record() router.Record {
	f.t.Helper()
	return receive(f.t, f.records, "a request is recorded")
}

func receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(limit):
		t.Fatalf("waited %v until %s", limit, what)
		panic("unreachable")
	}
}

// until waits for a state of which there is no event.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %v until %s", limit, what)
		}
	}
}

// soon wants it noticed within 100 ms that a client left. On the way to its
// record are four steps that each wait for a processor.
func soon(t *testing.T, took, late time.Duration) {
	t.Helper()
	if most := 100*time.Millisecond + 4*late; took > most {
		t.Errorf("noticed after %v, want at most 100ms, %v on a machine that is late by %v", took, most, late)
	}
}

// result is an answer that a client waits for in another goroutine.
type result struct {
	resp *http.Response
	body string
	err  error
}

func do(c *http.Client, req *http.Request) <-chan result {
	done := make(chan result, 1)
	go func() {
		resp, err := c.Do(req)
		if err != nil {
			done <- result{err: err}
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		done <- result{resp, string(body), err}
	}()
	return done
}

func get(t testing.TB, done <-chan result) result {
	t.Helper()
	r := receive(t, done, "the client has its answer")
	if r.err != nil {
		t.Fatalf("client: %v", r.err)
	}
	return r
}

func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }

// certificate returns the TLS configurations of a server and of a client that
// trusts it.
func certificate(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
}
