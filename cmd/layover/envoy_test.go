package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// withEnvoy returns an envoy section with ports that are free, and where the
// front is.
func withEnvoy(t *testing.T) (section, extProc string) {
	t.Helper()
	var free [3]string
	for i := range free {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		free[i] = l.Addr().String()
	}
	return fmt.Sprintf("envoy: {http: %q, ext_proc: %q, xds: %q, admin: \"off\"}\n", free[0], free[1], free[2]), free[1]
}

// held is a request that Envoy has sent to the front.
type held struct {
	t      *testing.T
	stream extprocv3.ExternalProcessor_ProcessClient
}

func hold(t *testing.T, front, host string) *held {
	t.Helper()
	conn, err := grpc.NewClient(front, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(t.Context(), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	header := func(key, value string) *corev3.HeaderValue {
		return &corev3.HeaderValue{Key: key, RawValue: []byte(value)}
	}
	err = stream.Send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
		Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{header(":method", "GET"), header(":path", "/"), header(":authority", host)}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return &held{t, stream}
}

// mustGo waits for the address that the request may go to.
func (h *held) mustGo() string {
	h.t.Helper()
	reply, err := h.stream.Recv()
	if err != nil || reply.GetRequestHeaders() == nil {
		h.t.Fatalf("the answer is %v, %v", reply, err)
	}
	return reply.GetDynamicMetadata().GetFields()["envoy.filters.listener.original_dst"].GetStructValue().GetFields()["local"].GetStringValue()
}

func TestAnEnvoyIsToldWhereALocalActorIs(t *testing.T) {
	section, front := withEnvoy(t)
	p := serving(t, t.TempDir(), section+byName+"actors:\n"+testActor("a", 0, ""))
	addr := hold(t, front, "a.test").mustGo()
	resp, err := http.Get("http://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if own := p.served("a.test"); !strings.Contains(string(body), fmt.Sprint(own.pid)) {
		t.Errorf("at %s there is %q, the proxy's own actor is %d", addr, body, own.pid)
	}
	reply, err := hold(t, front, "b.test").stream.Recv()
	if err != nil || reply.GetImmediateResponse().GetStatus().GetCode() != 404 {
		t.Errorf("an unknown actor: %v, %v, want 404", reply, err)
	}
	p.signal(syscall.SIGTERM)
}

// Rule G10 with an Envoy in front: who waits there is served, too, and a
// response that goes on is waited for.
func TestG10_AStopServesWhatEnvoyHolds(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	section, front := withEnvoy(t)
	p := serving(t, t.TempDir(), section+byName+"actors:\n"+testActor("a", 0, gate))
	h := hold(t, front, "a.test")
	until(t, "the request to park", func() bool { return p.parked() == 1 })
	p.signal(syscall.SIGTERM)
	until(t, "not ready", func() bool { return p.readyz() == 503 })
	openGate(t, gate)
	h.mustGo()
	select {
	case <-p.exited:
		t.Fatal("it ended in the midst of the response")
	case <-time.After(300 * time.Millisecond):
	}
	h.stream.CloseSend() // the response is complete
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// Each front has the whole drain time: what one has to wait for keeps neither the
// other open nor its requests waiting.
func TestG10_AStopDrainsBothFrontsSideBySide(t *testing.T) {
	folder := t.TempDir()
	mine, its := filepath.Join(folder, "mine"), filepath.Join(folder, "its")
	section, front := withEnvoy(t)
	p := serving(t, t.TempDir(), section+byName+"actors:\n"+testActor("a", 0, mine)+testActor("b", 0, its))
	own, h := p.begin("a.test"), hold(t, front, "b.test")
	until(t, "both requests to park", func() bool { return p.parked() == 2 })
	p.signal(syscall.SIGTERM)
	until(t, "the proxy to take no connections", func() bool { return refused(p.front) })
	openGate(t, its)
	h.mustGo()
	h.stream.CloseSend() // the response is complete
	until(t, "the front for Envoy to end", func() bool { return refused(front) })
	select {
	case <-p.exited:
		t.Fatal("it ended with a request parked")
	case a := <-own:
		t.Fatalf("the parked request is answered with %+v", a)
	default:
	}
	openGate(t, mine)
	if a := <-own; a.status != 200 {
		t.Errorf("the parked request got %+v, want 200", a)
	}
	if code := p.exit(); code != 0 || p.logged("requests were cut off") {
		t.Errorf("exit code %d, want 0 and nothing cut off:\n%s", code, p.logs)
	}
}

func TestTheEnvoySectionIsChecked(t *testing.T) {
	rest := byName + "actors: {a: {command: [sleep]}}\n"
	for text, want := range map[string]string{
		"envoy: {}\n":                                         "envoy does not say where Envoy listens",
		"envoy: {http: 8000}\n":                               "envoy: http: \"8000\" is no address",
		"envoy: {htp: 127.0.0.1:1}\n":                         "no field",
		"envoy: {https: 127.0.0.1:8443}\n":                    "envoy: https:",
		"envoy: {http: '127.0.0.1:1', xds: x}":                "envoy: xds:",
		"envoy: {http: '127.0.0.1:8000', stream_idle: 10s}\n": "envoy: stream_idle: nothing passes on a request that is held",
		"envoy: {http: '127.0.0.1:8000', tunnel_idle: 10s}\n": "envoy: tunnel_idle: 10s would end a tunnel that is held",
		"lot: unlimited\nenvoy: {http: '127.0.0.1:8000'}\n":   "lot cannot be unlimited with envoy",
	} {
		if got := said(t, text+"\n"+rest); !strings.Contains(got, want) {
			t.Errorf("%q: said\n%s\nwant %q", text, got, want)
		}
	}
}

// A setting of a route that Envoy cannot keep is refused, with what to do.
func TestWhatHasNoEffectBehindAnEnvoyIsRefused(t *testing.T) {
	text := "%sactors: {a: {command: [sleep]}}\nroutes: [{host: a.test, actor: a, interim: 20s, stream_idle: 2m}]\n"
	got := said(t, fmt.Sprintf(text, "envoy: {http: '127.0.0.1:8000'}\n"))
	for _, want := range []string{"interim has no effect behind an Envoy", "idle time above the max_budget 5m", "set stream_idle and tunnel_idle under envoy"} {
		if !strings.Contains(got, want) {
			t.Errorf("said\n%s\nwant %q", got, want)
		}
	}
	configOf(t, fmt.Sprintf(text, "")) // without an Envoy both are good
}

func TestWhatIsSaidOfPeersAndSilenceReachesEnvoysPlan(t *testing.T) {
	rest := "actors: {a: {command: [sleep]}}\nroutes: [{host: a.test, actor: a, max_budget: 20m}]\n"
	p := configOf(t, "envoy: {http: '127.0.0.1:8000'}\n"+rest).envoyPlan()
	if hold := p.MessageTimeout(); p.StreamIdle != hold+time.Minute || p.TunnelIdle != time.Hour || !p.OnlyTrusted || p.Trusted != nil {
		t.Errorf("by default the plan is %+v", p)
	}
	p = configOf(t, "trusted_peers: [10.0.0.0/8]\nband_header: X-Band\nactor_header: X-Actor\nenvoy: {http: '127.0.0.1:8000', stream_idle: 0s, tunnel_idle: 2h}\n"+rest).envoyPlan()
	if p.StreamIdle != 0 || p.TunnelIdle != 2*time.Hour || fmt.Sprint(p.Trusted, p.Private) != "[10.0.0.0/8] [X-Band X-Actor]" {
		t.Errorf("the plan is %+v", p)
	}
}

func TestServeSaysHowAnEnvoyIsStarted(t *testing.T) {
	for section, at := range map[string]string{"http: '127.0.0.1:8000'": "127.0.0.1:8000", "http: '127.0.0.1:8000', https: '127.0.0.1:8443'": "127.0.0.1:8000 and 127.0.0.1:8443"} {
		cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
		certify(t, cert, key, 1)
		c := configOf(t, fmt.Sprintf("tls: {cert: %q, key: %q}\nenvoy: {%s, ext_proc: '127.0.0.1:50999', xds: '127.0.0.1:18999'}\n", cert, key, section)+byName+"actors: {a: {command: [sleep]}}\n")
		text := strings.Join((&server{config: c}).urls(), "\n")
		for _, want := range []string{"listens on " + at + " asks at 127.0.0.1:50999 (ext_proc)", "127.0.0.1:18999 (xDS)", "layover check --bootstrap " + c.file + " > envoy.yaml && envoy -c envoy.yaml"} {
			if !strings.Contains(text, want) {
				t.Errorf("serve says\n%s\nwant %q", text, want)
			}
		}
	}
}

func TestCheckPrintsTheBootstrap(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	writeFile(t, file, "envoy: {http: '127.0.0.1:8000', xds: '127.0.0.1:18111'}\n"+byName+"actors: {a: {command: [sleep]}}\n")
	out, _, code := run(t, "check", "--bootstrap", file)
	if code != 0 || !strings.Contains(out, "port_value: 18111") {
		t.Errorf("exit code %d, printed\n%s", code, out)
	}
	writeFile(t, file, byName+"actors: {a: {command: [sleep]}}\n")
	if _, errs, code := run(t, "check", "--bootstrap", file); code == 0 || !strings.Contains(errs, "has no envoy section") {
		t.Errorf("without the section: exit code %d, said %s", code, errs)
	}
}
