package tracing_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"layover/budget"
	"layover/internal/extproc"
	"layover/internal/router"
	"layover/internal/tracing"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + traceID + "-b7ad6b7169203331-01"
)

var layover = tracing.Program{Name: "layover", Version: "v1", Prefix: "layover.", Protocol: tracing.HTTP}

func TestARequestIsASpanOfItsTraceWithItsPhases(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	traces := tracing.Collect(sdk.WithSyncer(spans), layover)
	defer traces.Close()
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("traceparent", traceparent)
	req.Header.Set("tracestate", "vendor=1")
	_, begun := traces.Proxy(t.Context(), req)
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
	traces := tracing.Collect(sdk.WithSyncer(spans), layover)
	defer traces.Close()
	_, begun := traces.Envoy(t.Context(), new(extproc.Request))
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
	traces := tracing.Collect(sdk.WithSyncer(spans), layover)
	defer traces.Close()
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("traceparent", strings.TrimSuffix(traceparent, "01")+"00")
	_, begun := traces.Proxy(t.Context(), req)
	if got := begun.Header.Get("traceparent"); !strings.HasPrefix(got, "00-"+traceID+"-") || !strings.HasSuffix(got, "-00") {
		t.Errorf("the actor is told %q", got)
	}
	begun.End(router.Record{})
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("there are %d spans", n)
	}
}

// set sets the variables of the standard: all but those of the test are empty.
func set(t *testing.T, variables map[string]string) {
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		t.Setenv(name, variables[name])
	}
}

func TestTheEnvironmentSaysWhetherAndHowSpansAreSent(t *testing.T) {
	const endpoint, protocol = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL"
	const there = "http://127.0.0.1:1"
	for _, test := range []struct {
		environment map[string]string
		want        string // in the log; empty: no traces
		err         string
	}{
		{nil, "", ""},
		{map[string]string{endpoint: there, "OTEL_SDK_DISABLED": "true"}, "", ""},
		{map[string]string{endpoint: there}, "protocol=" + tracing.HTTP, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": there}, "protocol=" + tracing.HTTP, ""},
		{map[string]string{endpoint: there, protocol: tracing.GRPC}, "protocol=" + tracing.GRPC, ""},
		{map[string]string{endpoint: there, protocol: tracing.GRPC, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": tracing.HTTP}, "protocol=" + tracing.HTTP, ""},
		{map[string]string{endpoint: there, protocol: "http/json"}, "", `OTEL_EXPORTER_OTLP_PROTOCOL is "http/json"; write grpc or http/protobuf`},
	} {
		set(t, test.environment)
		var log strings.Builder
		traces, err := tracing.New(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), layover)
		traces.Close()
		if test.err != "" {
			if err == nil || err.Error() != test.err {
				t.Errorf("%v: error %v, want %s", test.environment, err, test.err)
			}
			continue
		}
		if err != nil || (traces != nil) != (test.want != "") || !strings.Contains(log.String(), test.want) {
			t.Errorf("%v: %v, %v, log %q", test.environment, traces, err, log.String())
		}
	}
}

func TestWithoutACollectorATraceIsPassedOnAsItIs(t *testing.T) {
	var none *tracing.Traces
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("traceparent", traceparent)
	ctx, begun := none.Proxy(t.Context(), req)
	if begun != nil || tracing.Told(ctx)["traceparent"] != traceparent {
		t.Errorf("the request gets %+v, others are told %v", begun, tracing.Told(ctx))
	}
	if kept := tracing.Identity(ctx); tracing.Told(kept)["traceparent"] != traceparent || kept.Done() != nil {
		t.Errorf("what outlives the request is told as %v", tracing.Told(kept))
	}
}
