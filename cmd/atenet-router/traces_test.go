package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"layover/internal/extproc"
	"layover/internal/proxy"
	"layover/internal/router"
	"layover/internal/substrate"
	"layover/internal/substrate/ateapi"
	"layover/internal/tracing"
	"layover/parking"
)

// listening is a control plane that notes in whose trace it is asked.
type listening struct {
	ateapi.UnimplementedControlServer
	heard chan string
}

func (l *listening) ResumeActor(ctx context.Context, _ *ateapi.ResumeActorRequest) (*ateapi.ResumeActorResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	l.heard <- strings.Join(md.Get("traceparent"), ",")
	return &ateapi.ResumeActorResponse{Resumed: true, Actor: &ateapi.Actor{Status: &ateapi.ActorStatus{
		WorkerAssignment: &ateapi.WorkerAssignment{WorkerPodIp: "127.0.0.1"}}}}, nil
}

// serveGRPCFor serves what register registers until the test ends, and returns
// a connection to it.
func serveGRPCFor(t *testing.T, register func(*grpc.Server), options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(extproc.ServerOptions()...)
	register(g)
	go g.Serve(l)
	conn, err := grpc.NewClient(l.Addr().String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
	})
	return conn
}

// route sends a request's headers through a front with those traces, and returns
// what the control plane heard and which headers the actor gets.
func route(t *testing.T, traces *tracing.Traces, traceparent string) (heard string, told map[string]string) {
	t.Helper()
	r, plane := overheard(t, traces, 80)
	c, _ := parse(t)
	front := extproc.New(r, namer(c), extproc.Options{Begin: traces.Envoy, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	client := extprocv3.NewExternalProcessorClient(serveGRPCFor(t, func(g *grpc.Server) { front.Register(g) }))
	stream, err := client.Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	header := func(key, value string) *corev3.HeaderValue {
		return &corev3.HeaderValue{Key: key, RawValue: []byte(value)}
	}
	if err := stream.Send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
		Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{header(":method", "GET"), header(":path", "/"), header(":authority", "x"),
			header(substrate.TargetHeader, "demo/a"), header("traceparent", traceparent)}}}}}); err != nil {
		t.Fatal(err)
	}
	reply, err := stream.Recv()
	if err != nil || reply.GetRequestHeaders() == nil {
		t.Fatalf("the answer is %v, %v", reply, err)
	}
	told = make(map[string]string)
	for _, h := range reply.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		told[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
	}
	return <-plane.heard, told
}

// overheard is a router whose actors are at port of this machine, and its
// control plane.
func overheard(t *testing.T, traces *tracing.Traces, port uint16) (*router.Router, *listening) {
	t.Helper()
	plane := &listening{heard: make(chan string, 1)}
	conn := serveGRPCFor(t, func(g *grpc.Server) { ateapi.RegisterControlServer(g, plane) }, tellTrace())
	p, err := substrate.New(ateapi.NewControlClient(conn), substrate.Options{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	return router.New(p, parking.NewLot(1), router.Options{Identity: tracing.Identity}), plane
}

// routeOwn is route through the front without an Envoy.
func routeOwn(t *testing.T, traces *tracing.Traces, traceparent string) (heard, told string) {
	t.Helper()
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, req.Header.Get("traceparent"))
	}))
	defer worker.Close()
	r, plane := overheard(t, traces, netip.MustParseAddrPort(worker.Listener.Addr().String()).Port())
	c, _ := parse(t)
	p := proxy.New(r, proxy.Options{Name: ownNamer(c), Trace: traces.Proxy, Log: slog.New(slog.DiscardHandler)})
	front := httptest.NewServer(p.Handler())
	defer front.Close()
	req, err := http.NewRequest("GET", front.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(substrate.TargetHeader, "demo/a")
	req.Header.Set("traceparent", traceparent)
	resp, err := front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the answer is %d %s, %v", resp.StatusCode, text, err)
	}
	return <-plane.heard, string(text)
}

func TestTheOwnFrontTellsTheTraceToo(t *testing.T) {
	if heard, told := routeOwn(t, nil, given); heard != given || told != given {
		t.Errorf("without a collector the control plane is told %q, the actor %q; want %q", heard, told, given)
	}
	spans := tracetest.NewSpanRecorder()
	traces := tracing.Collect(sdk.WithSpanProcessor(spans), program())
	defer traces.Close()
	heard, told := routeOwn(t, traces, given)
	names := make(map[string]string)
	for _, s := range spans.Ended() {
		names[s.Name()] = s.SpanContext().SpanID().String()
	}
	if names["route"] == "" || names[router.PhaseWake] == "" || names[router.PhaseAttempt] == "" {
		t.Fatalf("the spans are %v", names)
	}
	if want := "00-" + traceID + "-" + names["route"] + "-01"; heard != want || told != want {
		t.Errorf("the control plane is told %q, the actor %q; want %q", heard, told, want)
	}
}

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	given   = "00-" + traceID + "-00f067aa0ba902b7-01"
)

func TestTheControlPlaneIsToldTheTraceOfTheRequest(t *testing.T) {
	got, told := route(t, nil, given)
	if got != given {
		t.Errorf("without a collector it is told %q, want %q", got, given)
	}
	if _, touched := told["traceparent"]; touched {
		t.Errorf("without a collector the actor's traceparent becomes %q", told["traceparent"])
	}
}

func TestARequestHasASpanInItsTraceWithItsPhases(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	traces := tracing.Collect(sdk.WithSpanProcessor(spans), program())
	defer traces.Close()
	heard, told := route(t, traces, given)
	ended := make(map[string]sdk.ReadOnlySpan)
	for _, s := range spans.Ended() {
		ended[s.Name()] = s
	}
	span, wake := ended["route"], ended[router.PhaseWake]
	if span == nil || wake == nil {
		t.Fatalf("the spans are %v", ended)
	}
	if span.SpanContext().TraceID().String() != traceID || span.Parent().SpanID().String() != "00f067aa0ba902b7" || wake.Parent().SpanID() != span.SpanContext().SpanID() {
		t.Errorf("the span is %v in %v, the wake's parent %v", span.SpanContext(), span.Parent(), wake.Parent())
	}
	if want := "00-" + traceID + "-" + span.SpanContext().SpanID().String() + "-01"; heard != want {
		t.Errorf("the control plane is told %q, want %q", heard, want)
	} else if told["traceparent"] != want {
		t.Errorf("the actor is told %q, want %q", told["traceparent"], want)
	}
	said := make(map[string]string)
	for _, a := range span.Attributes() {
		said[string(a.Key)] = a.Value.String()
	}
	if said["atenet.actor"] != "demo/a" || said["atenet.wake"] != "triggered" {
		t.Errorf("its attributes are %v", said)
	}
}
