// Package tracing makes a span of each request and of each phase of its wait
// (OpenTelemetry, W3C trace context in and out).
//
//	traces, err := tracing.New(ctx, log, tracing.Program{Name: "layover", Prefix: "layover.", Protocol: tracing.HTTP})
//	if err != nil { ... }
//	defer traces.Close()
//	proxy.New(r, proxy.Options{Trace: traces.Proxy})
//
// All methods may be called from any goroutine, and on a nil *Traces: that is
// one without a collector.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"layover/internal/extproc"
	"layover/internal/proxy"
	"layover/internal/router"
	"layover/internal/sampled"
)

// The protocols of OTEL_EXPORTER_OTLP_PROTOCOL that are spoken.
const (
	HTTP = "http/protobuf"
	GRPC = "grpc"
)

// Program is whose spans they are.
type Program struct {
	Name     string // the resource's service.name, unless the environment has another
	Version  string
	Prefix   string // of the attributes that no convention names, such as "layover."
	Protocol string // HTTP or GRPC, unless the environment has another
}

// Traces makes the spans. Make it with New or Collect.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	prefix   string
}

var w3c propagation.TraceContext

// New returns traces that go where the standard variables
// (OTEL_EXPORTER_OTLP_...) say, nil if they name no place or OTEL_SDK_DISABLED
// is true: then a request costs nothing more, and the headers of a trace pass as
// they are. That spans are lost goes to log, sampled. The error names the
// variable that is wrong.
func New(ctx context.Context, log *slog.Logger, p Program) (*Traces, error) {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, nil
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), p.Protocol)
	var exporter sdk.SpanExporter
	var err error
	switch protocol { // they connect by and by
	case HTTP:
		exporter, err = otlptracehttp.New(ctx)
	case GRPC:
		exporter, err = otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; write %s or %s", protocol, GRPC, HTTP)
	}
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(sampled.Errors(log, "spans are lost")))
	log.Info("traces are collected", "protocol", protocol)
	return Collect(sdk.WithBatcher(exporter), p), nil
}

// Collect returns traces of which each ended span goes where to says.
// OTEL_TRACES_SAMPLER and OTEL_RESOURCE_ATTRIBUTES count.
func Collect(to sdk.TracerProviderOption, p Program) *Traces {
	about := resource.NewSchemaless(attribute.String("service.name", p.Name), attribute.String("service.version", p.Version))
	if merged, err := resource.Merge(about, resource.Environment()); err == nil {
		about = merged
	}
	provider := sdk.NewTracerProvider(to, sdk.WithResource(about))
	return &Traces{provider: provider, tracer: provider.Tracer(p.Name), prefix: p.Prefix}
}

// Proxy begins the span of a request, which ends with its response header. It
// is made for proxy.Options.Trace.
func (t *Traces) Proxy(ctx context.Context, req *http.Request) (context.Context, *proxy.Trace) {
	ctx, header, end := t.begin(ctx, propagation.HeaderCarrier(req.Header))
	if end == nil {
		return ctx, nil
	}
	return ctx, &proxy.Trace{Header: header, End: end}
}

// Envoy begins the span of a request that an Envoy holds, which ends when it is
// let go. It is made for extproc.Options.Begin.
func (t *Traces) Envoy(ctx context.Context, req *extproc.Request) (context.Context, extproc.Trace) {
	ctx, header, end := t.begin(ctx, held{req})
	return ctx, extproc.Trace{Header: header, End: end}
}

// held reads the headers of a request that an Envoy holds.
type held struct{ req *extproc.Request }

func (h held) Get(key string) string { return h.req.Header(key) }
func (h held) Set(string, string)    {}
func (h held) Keys() []string        { return w3c.Fields() }

// begin puts the trace that said names, if it names one, into ctx. If there is a
// collector it begins a span there, and returns what the actor is told of it.
func (t *Traces) begin(ctx context.Context, said propagation.TextMapCarrier) (_ context.Context, header http.Header, end func(router.Record)) {
	ctx = w3c.Extract(ctx, said)
	if t == nil {
		return ctx, nil, nil
	}
	ctx, span := t.tracer.Start(ctx, "route", trace.WithSpanKind(trace.SpanKindServer))
	header = http.Header{"Tracestate": nil} // of a trace that cannot be read nothing is passed on
	w3c.Inject(ctx, propagation.HeaderCarrier(header))
	return ctx, header, func(rec router.Record) {
		if span.IsRecording() { // else it was not sampled
			t.phases(ctx, rec)
			t.describe(span, rec)
		}
		span.End()
	}
}

func (t *Traces) describe(span trace.Span, rec router.Record) {
	span.SetAttributes(
		attribute.String("http.request.method", sampled.Cut(rec.Method)), attribute.Int("http.response.status_code", rec.Status),
		attribute.String("http.route", rec.Route), attribute.String("url.path", sampled.Cut(rec.Path)), attribute.String("server.address", sampled.Cut(rec.Host)),
		attribute.String(t.prefix+"id", sampled.Cut(rec.ID)), attribute.String(t.prefix+"actor", sampled.Cut(rec.Actor)), attribute.Int(t.prefix+"band", rec.Band),
		attribute.String(t.prefix+"wake", string(rec.Wake)), attribute.Bool(t.prefix+"parked", rec.Parked))
	if rec.MovedOn {
		span.SetAttributes(attribute.Bool(t.prefix+"moved_on", true))
	}
	if rec.Reason != "" {
		span.SetAttributes(attribute.String(t.prefix+"reason", string(rec.Reason)))
		if rec.Status >= 500 {
			span.SetStatus(codes.Error, sampled.Cut(rec.Detail))
		}
	}
}

// phases makes a span of each phase of the request, as the ledger has it.
func (t *Traces) phases(ctx context.Context, rec router.Record) {
	ledger := rec.Budget.Ledger()
	for _, e := range ledger.Phases {
		if e.Depth == 0 {
			_, span := t.tracer.Start(ctx, e.Name, trace.WithTimestamp(ledger.Start.Add(e.First)))
			span.End(trace.WithTimestamp(ledger.Start.Add(e.Last)))
		}
	}
}

// Told returns the headers that tell somebody else in whose trace ctx is.
func Told(ctx context.Context) map[string]string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier
}

// Identity is what outlives a request of its trace. It is made for
// router.Options.Identity.
func Identity(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(ctx))
}

// Close hands over what is left, for two seconds at most.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	t.provider.Shutdown(ctx) // an error means that some are lost, and nobody to tell
}
