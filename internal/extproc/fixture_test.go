package extproc_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"layover/internal/extproc"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

// actorA and the others are actors of the scripted plane, which says that an
// actor's name is its address.
const (
	actorA = "127.0.0.1:8001"
	actorB = "127.0.0.1:8002"
)

// setup is what a test may choose. The zero value is a plane of one worker with
// actors A and B that start in a second, an empty lot of ten spots, and a budget
// of five seconds.
type setup struct {
	workers int
	lot     int
	route   router.Route
	namer   extproc.Namer
	plane   router.Plane
	o       extproc.Options
}

// rig is a server with a client that behaves like Envoy.
type rig struct {
	plane  *planetest.Scripted
	router *router.Router
	server *extproc.Server
	client extprocv3.ExternalProcessorClient
}

func newRig(t testing.TB, s setup) *rig {
	if s.workers == 0 {
		s.workers = 1
	}
	if s.lot == 0 {
		s.lot = 10
	}
	if s.route.Budget == 0 {
		s.route.Name, s.route.Budget, s.route.MaxBudget = "r", 5*time.Second, 5*time.Second
	}
	x := &rig{plane: planetest.NewScripted(s.workers, actorA, actorB)}
	x.plane.KeepIdle = true
	x.plane.Start = taking(time.Second)
	if s.plane == nil {
		s.plane = x.plane
	}
	x.router = router.New(s.plane, parking.NewLot(max(s.lot, 0)), router.Options{})
	if s.namer == nil {
		s.namer = func(r *extproc.Request) (extproc.Name, error) {
			return extproc.Name{Route: s.route, Actor: r.Header("actor"), Port: r.Port()}, nil
		}
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
	x.server = extproc.New(x.router, s.namer, s.o)
	x.serve(t)
	return x
}

// taking is a start that takes d.
func taking(d time.Duration) func(context.Context, string) error {
	return func(context.Context, string) error {
		<-time.After(d)
		return nil
	}
}

func (x *rig) serve(t testing.TB, dial ...grpc.DialOption) {
	g := grpc.NewServer(extproc.ServerOptions()...)
	x.server.Register(g)
	l := bufconn.Listen(1 << 20)
	served := make(chan struct{})
	go func() {
		defer close(served)
		g.Serve(l)
	}()
	conn, err := grpc.NewClient("passthrough:///envoy", append(dial,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	x.client = extprocv3.NewExternalProcessorClient(conn)
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		<-served
	})
}

// headers are names and values in turn.
type headers []string

func get(actor string, more ...string) headers {
	return append(headers{":method", "GET", ":authority", "a.example", ":path", "/", ":scheme", "http", "actor", actor}, more...)
}

func (h headers) message() *extprocv3.ProcessingRequest {
	m := &corev3.HeaderMap{}
	for i := 0; i < len(h); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: h[i], RawValue: []byte(h[i+1])})
	}
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{
		RequestHeaders: &extprocv3.HttpHeaders{Headers: m, EndOfStream: true}}}
}

// held is a request that Envoy holds.
type held struct {
	t      testing.TB
	stream extprocv3.ExternalProcessor_ProcessClient
	reset  context.CancelFunc // as Envoy does when its client leaves
	since  time.Time
}

// hold sends a request's headers.
func (x *rig) hold(t testing.TB, h headers) *held {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := x.client.Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	q := &held{t: t, stream: stream, reset: cancel, since: time.Now()}
	q.send(h.message())
	return q
}

func (q *held) send(m *extprocv3.ProcessingRequest) {
	q.t.Helper()
	if err := q.stream.Send(m); err != nil {
		q.t.Fatal(err)
	}
}

// next returns the next answer and how long after the headers it came.
func (q *held) next() (*extprocv3.ProcessingResponse, time.Duration) {
	q.t.Helper()
	m, err := q.stream.Recv()
	if err != nil {
		q.t.Fatalf("Recv = %v, want an answer", err)
	}
	return m, time.Since(q.since)
}

// mustFail waits for the stream's end with an error.
func (q *held) mustFail(code codes.Code) *status.Status {
	q.t.Helper()
	m, err := q.stream.Recv()
	if status.Code(err) != code {
		q.t.Fatalf("Recv = %v, %v, want code %v", m, err, code)
	}
	return status.Convert(err)
}

// mustEnd waits for the stream's end without an error.
func (q *held) mustEnd() {
	q.t.Helper()
	if m, err := q.stream.Recv(); err != io.EOF {
		q.t.Fatalf("Recv = %v, %v, want the end", m, err)
	}
}

// routed is an answer that lets the request go.
type routed struct {
	local, port, protocol string
	set                   map[string]string
	removed               []string
	cleared               bool
}

// mustRoute waits for the answer after took.
func (q *held) mustRoute(took time.Duration) routed {
	q.t.Helper()
	m, after := q.next()
	headers := m.GetRequestHeaders()
	if headers == nil {
		q.t.Fatalf("answer %v, want request headers", m)
	}
	if after != took {
		q.t.Errorf("routed after %v, want %v", after, took)
	}
	common := headers.GetResponse()
	target := m.GetDynamicMetadata().GetFields()[extproc.TargetNamespace].GetStructValue().GetFields()
	r := routed{
		local: target[extproc.TargetAddress].GetStringValue(), port: target[extproc.TargetPort].GetStringValue(),
		protocol: target[extproc.TargetProtocol].GetStringValue(),
		set:      make(map[string]string), removed: common.GetHeaderMutation().GetRemoveHeaders(), cleared: common.GetClearRouteCache(),
	}
	for _, h := range common.GetHeaderMutation().GetSetHeaders() {
		if h.GetAppendAction() != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			q.t.Errorf("%s is added to the client's, not put in its place", h.GetHeader().GetKey())
		}
		r.set[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
	}
	return r
}

// mustRefuse waits for the answer after took, and for the stream's end.
func (q *held) mustRefuse(took time.Duration, reason router.Reason) *extprocv3.ImmediateResponse {
	q.t.Helper()
	m, after := q.next()
	response := m.GetImmediateResponse()
	if response == nil {
		q.t.Fatalf("answer %v, want an immediate response", m)
	}
	if after != took {
		q.t.Errorf("refused after %v, want %v", after, took)
	}
	if got := response.GetDetails(); got != "router:"+string(reason) {
		q.t.Errorf("details %q, want those of %s", got, reason)
	}
	q.mustEnd()
	return response
}

func headerOf(r *extprocv3.ImmediateResponse, name string) string {
	for _, h := range r.GetHeaders().GetSetHeaders() {
		if h.GetHeader().GetKey() == name {
			return string(h.GetHeader().GetRawValue())
		}
	}
	return ""
}

// wake makes actor awake.
func (x *rig) wake(t testing.TB, actor string) {
	t.Helper()
	q := x.hold(t, get(actor))
	q.mustRoute(time.Second)
	q.stream.CloseSend()
	q.mustEnd()
	synctest.Wait()
}

// inFlight returns how many requests are with actor, and how many want it.
func (x *rig) inFlight(actor string) (with, want int) {
	for _, a := range x.plane.Snapshot().Actors {
		if a.Name == actor {
			return a.InFlight, a.Wanted
		}
	}
	return 0, 0
}

// last returns the record of the last request that has its answer.
func (x *rig) last() router.Record { return x.router.Snapshot().Recent[0] }
