package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"layover/internal/cli"
	"layover/internal/extproc"
	"layover/internal/proxy"
	"layover/internal/router"
	"layover/internal/sampled"
)

// traces makes a span of each request, in the trace that its headers name
// (W3C), and one of each phase of its ledger. The actor is told that span.
type traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

var w3c propagation.TraceContext

// newTraces returns traces that go where the standard variables
// (OTEL_EXPORTER_OTLP_...) say, nil if they name no place: then requests cost
// nothing more, and the headers of a trace pass as they are.
func newTraces(ctx context.Context, log *slog.Logger) (*traces, error) {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx) // it connects by and by
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(sampled.Errors(log, "spans are lost")))
	log.Info("traces are collected")
	return collect(sdk.WithBatcher(exporter)), nil
}

// collect returns traces of which each ended span goes where the option says.
// OTEL_TRACES_SAMPLER and OTEL_RESOURCE_ATTRIBUTES count.
func collect(to sdk.TracerProviderOption) *traces {
	about := resource.NewSchemaless(attribute.String("service.name", "layover"), attribute.String("service.version", cli.Version()))
	if merged, err := resource.Merge(about, resource.Environment()); err == nil {
		about = merged
	}
	p := sdk.NewTracerProvider(to, sdk.WithResource(about))
	return &traces{provider: p, tracer: p.Tracer("layover")}
}

// begin begins the span of a request. It is made for proxy.Options.Trace.
func (t *traces) begin(ctx context.Context, req *http.Request) (context.Context, *proxy.Trace) {
	ctx, header, end := t.span(ctx, propagation.HeaderCarrier(req.Header))
	return ctx, &proxy.Trace{Header: header, End: end}
}

// beginEnvoys is begin for a request that an Envoy holds. Its span ends when it
// is let go. It is made for extproc.Options.Begin.
func (t *traces) beginEnvoys(ctx context.Context, req *extproc.Request) (context.Context, extproc.Trace) {
	said := http.Header{}
	for _, name := range w3c.Fields() {
		said.Set(name, req.Header(name))
	}
	ctx, header, end := t.span(ctx, propagation.HeaderCarrier(said))
	return ctx, extproc.Trace{Header: header, End: end}
}

// span begins a span in the trace that said names, if it names one, and returns
// what the actor is told of it.
func (t *traces) span(ctx context.Context, said propagation.TextMapCarrier) (_ context.Context, header http.Header, end func(router.Record)) {
	ctx, span := t.tracer.Start(w3c.Extract(ctx, said), "route", trace.WithSpanKind(trace.SpanKindServer))
	header = http.Header{"Tracestate": nil} // of a trace that cannot be read nothing is passed on
	w3c.Inject(ctx, propagation.HeaderCarrier(header))
	return ctx, header, func(rec router.Record) {
		if span.IsRecording() { // else it was not sampled
			t.phases(ctx, rec)
			tell(span, rec)
		}
		span.End()
	}
}

func tell(span trace.Span, rec router.Record) {
	span.SetAttributes(
		attribute.String("http.request.method", sampled.Cut(rec.Method)), attribute.Int("http.response.status_code", rec.Status),
		attribute.String("http.route", rec.Route), attribute.String("url.path", sampled.Cut(rec.Path)), attribute.String("server.address", sampled.Cut(rec.Host)),
		attribute.String("layover.id", sampled.Cut(rec.ID)), attribute.String("layover.actor", sampled.Cut(rec.Actor)), attribute.Int("layover.band", rec.Band),
		attribute.String("layover.wake", string(rec.Wake)), attribute.Bool("layover.parked", rec.Parked))
	if rec.MovedOn {
		span.SetAttributes(attribute.Bool("layover.moved_on", true))
	}
	if rec.Reason != "" {
		span.SetAttributes(attribute.String("layover.reason", string(rec.Reason)))
		if rec.Status >= 500 {
			span.SetStatus(codes.Error, sampled.Cut(rec.Detail))
		}
	}
}

// phases makes a span of each phase of the request, as the ledger has it.
func (t *traces) phases(ctx context.Context, rec router.Record) {
	ledger := rec.Budget.Ledger()
	for _, e := range ledger.Phases {
		if e.Depth == 0 {
			_, span := t.tracer.Start(ctx, e.Name, trace.WithTimestamp(ledger.Start.Add(e.First)))
			span.End(trace.WithTimestamp(ledger.Start.Add(e.Last)))
		}
	}
}

// close hands over what is left, for two seconds at most.
func (t *traces) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	t.provider.Shutdown(ctx) // an error means that some are lost, and nobody to tell
}
