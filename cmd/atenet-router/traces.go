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
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"layover/internal/cli"
	"layover/internal/extproc"
	"layover/internal/proxy"
	"layover/internal/router"
	"layover/internal/sampled"
)

// traces makes a span of each request's way to its actor, in the trace that its
// headers name (W3C). The control plane is told that trace, too.
type traces struct {
	provider *sdk.TracerProvider // nil: nobody collects; what the headers name is passed on all the same
	tracer   trace.Tracer
}

var w3c propagation.TraceContext

// newTraces returns traces that go where the standard variables
// (OTEL_EXPORTER_OTLP_...) say, if they do.
func newTraces(ctx context.Context, log *slog.Logger) (*traces, error) {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return &traces{}, nil
	}
	exporter, err := otlptracegrpc.New(ctx) // it connects by and by
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
	about := resource.NewSchemaless(attribute.String("service.name", "atenet-router"), attribute.String("service.version", cli.Version()))
	if merged, err := resource.Merge(about, resource.Environment()); err == nil {
		about = merged
	}
	p := sdk.NewTracerProvider(to, sdk.WithResource(about))
	return &traces{provider: p, tracer: p.Tracer("atenet-router")}
}

// begin begins the span of a request that Envoy holds. It is made for
// extproc.Options.Begin.
func (t *traces) begin(ctx context.Context, req *extproc.Request) (context.Context, extproc.Trace) {
	ctx, header, end := t.span(ctx, headers{req})
	return ctx, extproc.Trace{Header: header, End: end}
}

// beginOwn is begin for a request to the front without an Envoy. It is made for
// proxy.Options.Trace.
func (t *traces) beginOwn(ctx context.Context, req *http.Request) (context.Context, *proxy.Trace) {
	ctx, header, end := t.span(ctx, propagation.HeaderCarrier(req.Header))
	if end == nil {
		return ctx, nil
	}
	return ctx, &proxy.Trace{Header: header, End: end}
}

// span begins a span in the trace that said names, if it names one, and returns
// what the actor is told of it: nothing, and no end, if nobody collects.
func (t *traces) span(ctx context.Context, said propagation.TextMapCarrier) (_ context.Context, header http.Header, end func(router.Record)) {
	ctx = w3c.Extract(ctx, said)
	if t.tracer == nil {
		return ctx, nil, nil
	}
	ctx, span := t.tracer.Start(ctx, "route", trace.WithSpanKind(trace.SpanKindServer))
	header = http.Header{"Tracestate": nil} // of a trace that cannot be read nothing is passed on
	w3c.Inject(ctx, propagation.HeaderCarrier(header))
	return ctx, header, func(rec router.Record) {
		t.phases(ctx, rec)
		describe(span, rec)
		span.End()
	}
}

func describe(span trace.Span, rec router.Record) {
	span.SetAttributes(
		attribute.String("http.request.method", sampled.Cut(rec.Method)), attribute.String("url.path", sampled.Cut(rec.Path)),
		attribute.String("server.address", sampled.Cut(rec.Host)), attribute.String("atenet.actor", rec.Actor),
		attribute.String("atenet.wake", string(rec.Wake)), attribute.Bool("atenet.parked", rec.Parked))
	if rec.Reason != "" {
		span.SetAttributes(attribute.String("atenet.reason", string(rec.Reason)), attribute.Int("http.response.status_code", rec.Status))
		span.SetStatus(codes.Error, sampled.Cut(rec.Detail))
	}
}

// phases makes a span of each phase of the wait, as the ledger has it.
func (t *traces) phases(ctx context.Context, rec router.Record) {
	ledger := rec.Budget.Ledger()
	for _, e := range ledger.Phases {
		if e.Depth == 0 {
			_, span := t.tracer.Start(ctx, e.Name, trace.WithTimestamp(ledger.Start.Add(e.First)))
			span.End(trace.WithTimestamp(ledger.Start.Add(e.Last)))
		}
	}
}

// headers reads a request's headers.
type headers struct{ req *extproc.Request }

func (h headers) Get(key string) string { return h.req.Header(key) }
func (h headers) Set(string, string)    {}
func (h headers) Keys() []string        { return w3c.Fields() }

// dialOptions tell the control plane, with each call, in whose trace it is.
func (*traces) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		carrier := propagation.MapCarrier{}
		w3c.Inject(ctx, carrier)
		for key, value := range carrier {
			ctx = metadata.AppendToOutgoingContext(ctx, key, value)
		}
		return invoke(ctx, method, req, reply, conn, options...)
	})}
}

// traceOf is what a wake-up keeps of the request that began it.
func traceOf(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(ctx))
}

// close hands over what is left, for two seconds at most.
func (t *traces) close() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	t.provider.Shutdown(ctx) // an error means that some are lost, and nobody to tell
}
