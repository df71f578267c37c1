package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

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
