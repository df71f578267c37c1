package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"layover/budget"
	"layover/internal/extproc"
	"layover/internal/router"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + traceID + "-b7ad6b7169203331-01"
)

func TestARequestIsASpanOfItsTraceWithItsPhases(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	traces := collect(sdk.WithSyncer(spans))
	defer traces.close()
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("traceparent", traceparent)
	req.Header.Set("tracestate", "vendor=1")
	_, begun := traces.begin(t.Context(), req)
	if got := begun.Header.Get("traceparent"); !strings.HasPrefix(got, "00-"+traceID+"-") || got == traceparent || begun.Header.Get("tracestate") != "vendor=1" {
		t.Errorf("the actor is told %q, want another span of the same trace", begun.Header)
	}
	ctx, cancel := budget.For(context.Background(), time.Second)
	defer cancel()
	budget.From(ctx).Phase(router.PhaseWake)()
	budget.From(ctx).Phase(router.PhaseAttempt)()
	begun.End(router.Record{Route: "r", Actor: "a", Status: 503, Reason: router.NoWorker, Budget: budget.From(ctx)})
	var names []string
	got := spans.GetSpans()
	for _, s := range got {
		names = append(names, s.Name)
		if s.SpanContext.TraceID().String() != traceID {
			t.Errorf("span %s is in trace %s", s.Name, s.SpanContext.TraceID())
		}
	}
	if strings.Join(names, " ") != "wake attempt route" {
		t.Fatalf("spans are %q", names)
	}
	route := got[2]
	if route.Parent.SpanID().String() != "b7ad6b7169203331" || got[0].Parent.SpanID() != route.SpanContext.SpanID() {
		t.Errorf("the span's parent is %s, its phase's %s", route.Parent.SpanID(), got[0].Parent.SpanID())
	}
}

// Of a request that an Envoy holds the span ends when it may go, and the actor
// is told it.
func TestARequestThatEnvoyHoldsIsASpanToo(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	traces := collect(sdk.WithSyncer(spans))
	defer traces.close()
	_, begun := traces.beginEnvoys(t.Context(), new(extproc.Request))
	own := begun.Header.Get("traceparent")
	if _, touched := begun.Header["Tracestate"]; own == "" || !touched {
		t.Errorf("the actor is told %v, want a new trace and no tracestate", begun.Header)
	}
	begun.End(router.Record{Route: "r"})
	if got := spans.GetSpans(); len(got) != 1 || got[0].Name != "route" || !strings.Contains(own, got[0].SpanContext.SpanID().String()) {
		t.Errorf("the actor is told %s, the spans are %+v", own, got)
	}
}

func TestATraceThatIsNotSampledHasNoSpans(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	traces := collect(sdk.WithSyncer(spans))
	defer traces.close()
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("traceparent", strings.TrimSuffix(traceparent, "01")+"00")
	_, begun := traces.begin(t.Context(), req)
	if got := begun.Header.Get("traceparent"); !strings.HasPrefix(got, "00-"+traceID+"-") || !strings.HasSuffix(got, "-00") {
		t.Errorf("the actor is told %q", got)
	}
	begun.End(router.Record{})
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("there are %d spans", n)
	}
}

// The real program, a collector that speaks OTLP over HTTP, and a stop that
// hands over what is left.
func TestTracesGoToTheCollectorThatTheEnvironmentNames(t *testing.T) {
	var mu sync.Mutex
	var spans []*otlp.Span
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("the collector got %s: %v", r.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range got.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 0, ""))
	if a := p.get("a.test", "traceparent", traceparent); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	resp, err := http.Get("http://" + p.front + "/%ff") // no text; one such span must not cost the others
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	p.signal(syscall.SIGTERM)
	p.exit()
	mu.Lock()
	defer mu.Unlock()
	names := make(map[string]bool)
	for _, s := range spans {
		names[s.Name] = true
	}
	if !names["route"] || !names["wake"] || !names["attempt"] {
		t.Errorf("the collector has the spans %v, want route, wake and attempt", names)
	}
}

func TestWithoutACollectorThereAreNoTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	if got, err := newTraces(t.Context(), nil); got != nil || err != nil {
		t.Errorf("newTraces = %v, %v, want none", got, err)
	}
}
