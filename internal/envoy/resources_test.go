package envoy

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func mustResources(t *testing.T, p Plan) resources {
	t.Helper()
	r, err := p.resources(false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func unpack[M proto.Message](t *testing.T, packed *anypb.Any, m M) M {
	t.Helper()
	if err := packed.UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func managerOf(t *testing.T, l *listenerv3.Listener) *hcmv3.HttpConnectionManager {
	t.Helper()
	return unpack(t, l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), &hcmv3.HttpConnectionManager{})
}

func processingOf(t *testing.T, m *hcmv3.HttpConnectionManager) *extprocv3.ExternalProcessor {
	t.Helper()
	return unpack(t, m.GetHttpFilters()[0].GetTypedConfig(), &extprocv3.ExternalProcessor{})
}

func clusterOf(t *testing.T, r resources, name string) (*clusterv3.Cluster, *httpv3.HttpProtocolOptions) {
	t.Helper()
	for _, c := range r.clusters {
		if c.GetName() == name {
			return c, unpack(t, c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"], &httpv3.HttpProtocolOptions{})
		}
	}
	t.Fatalf("no cluster %s", name)
	return nil, nil
}

func TestR37_EnvoyOutwaitsTheProcessor(t *testing.T) {
	p := DefaultPlan()
	p.Budget = 90 * time.Second
	m := managerOf(t, mustResources(t, p).listeners[0])
	if got := processingOf(t, m).GetMessageTimeout().AsDuration(); got != 95*time.Second {
		t.Errorf("message_timeout %v, want 95s", got)
	}
	if got := m.GetStreamIdleTimeout().AsDuration(); got != 5*time.Minute {
		t.Errorf("stream_idle_timeout %v, want 5m", got)
	}
}

func TestR56_OnlyRequestHeadersAreProcessed(t *testing.T) {
	p := DefaultPlan()
	for _, whole := range []bool{false, true} {
		p.WholeResponse = whole
		f := processingOf(t, managerOf(t, mustResources(t, p).listeners[0]))
		want := &extprocv3.ProcessingMode{
			RequestHeaderMode: extprocv3.ProcessingMode_SEND, ResponseHeaderMode: extprocv3.ProcessingMode_SKIP,
			RequestTrailerMode: extprocv3.ProcessingMode_SKIP, ResponseTrailerMode: extprocv3.ProcessingMode_SKIP,
		}
		if whole {
			want.ResponseTrailerMode = extprocv3.ProcessingMode_SEND
		}
		if got := f.GetProcessingMode(); !proto.Equal(got, want) {
			t.Errorf("WholeResponse %v: processing_mode %v, want %v", whole, got, want)
		}
	}
}

func TestARequestWithoutATargetGoesNowhere(t *testing.T) {
	r := mustResources(t, DefaultPlan())
	f := processingOf(t, managerOf(t, r.listeners[0]))
	if f.GetFailureModeAllow() {
		t.Error("failure_mode_allow is on")
	}
	if got := f.GetStatusOnError().GetCode(); got != 503 {
		t.Errorf("status_on_error %v, want 503", got)
	}
	if got := f.GetMetadataOptions().GetReceivingNamespaces().GetUntyped(); len(got) != 1 || got[0] != TargetNamespace {
		t.Errorf("receiving namespaces %q, want %q alone", got, TargetNamespace)
	}
	if !f.GetMutationRules().GetAllowEnvoy().GetValue() {
		t.Error("the deadlines that Envoy reads cannot be changed")
	}
	for _, name := range []string{clusterH1, clusterH2C} {
		c, _ := clusterOf(t, r, name)
		of := c.GetOriginalDstLbConfig()
		if of.GetUseHttpHeader() {
			t.Errorf("%s believes a header for its target", name)
		}
		if key := of.GetMetadataKey(); key.GetKey() != TargetNamespace || len(key.GetPath()) != 1 || key.GetPath()[0].GetKey() != TargetAddress {
			t.Errorf("%s reads %v, want %s: %s", name, key, TargetNamespace, TargetAddress)
		}
	}
	if got := r.routes.GetVirtualHosts()[0].GetRequestHeadersToRemove(); len(got) != 1 || got[0] != "x-envoy-original-dst-host" {
		t.Errorf("headers to remove %q", got)
	}
}

func TestARequestBetweenTwoProcessorsIsSentToTheNext(t *testing.T) {
	f := processingOf(t, managerOf(t, mustResources(t, DefaultPlan()).listeners[0]))
	if got := f.GetGrpcService().GetRetryPolicy(); got.GetRetryOn() != "connect-failure,refused-stream" || got.GetNumRetries().GetValue() != 10 {
		t.Errorf("retry_policy %v", got)
	}
}

func TestEnvoysLimitsStayOutOfTheLotsWay(t *testing.T) {
	p := DefaultPlan()
	p.Lot = 4096
	r := mustResources(t, p)
	c, options := clusterOf(t, r, clusterProcessor)
	limits := c.GetCircuitBreakers().GetThresholds()[0]
	for what, got := range map[string]uint32{
		"max_requests":         limits.GetMaxRequests().GetValue(),
		"max_pending_requests": limits.GetMaxPendingRequests().GetValue(),
		"max_connections":      limits.GetMaxConnections().GetValue(),
		"a client's streams":   managerOf(t, r.listeners[0]).GetHttp2ProtocolOptions().GetMaxConcurrentStreams().GetValue(),
		"a processor's streams": options.GetExplicitHttpConfig().GetHttp2ProtocolOptions().GetMaxConcurrentStreams().
			GetValue(),
	} {
		if got != 8192 {
			t.Errorf("%s %d, want 8192", what, got)
		}
	}
}

func TestEnvoysOwnRefusalsSayWhenToRetry(t *testing.T) {
	mapper := managerOf(t, mustResources(t, DefaultPlan()).listeners[0]).GetLocalReplyConfig().GetMappers()[0]
	if got := mapper.GetFilter().GetStatusCodeFilter().GetComparison(); got.GetOp() != 0 || got.GetValue().GetDefaultValue() != 503 {
		t.Errorf("the filter %v, want status 503", got)
	}
	added := mapper.GetHeadersToAdd()[0]
	if added.GetHeader().GetKey() != "retry-after" || added.GetAppendAction() != corev3.HeaderValueOption_ADD_IF_ABSENT {
		t.Errorf("adds %v, want a Retry-After if there is none", added)
	}
}

func TestR43_R44_AHeldUploadCostsABoundedBuffer(t *testing.T) {
	p := DefaultPlan()
	for _, lot := range []int{100, 100_000} {
		p.Lot = lot
		l := mustResources(t, p).listeners[0]
		m := managerOf(t, l)
		if !m.GetProxy_100Continue() {
			t.Error("Envoy asks for the body while the request is held")
		}
		h2 := m.GetHttp2ProtocolOptions()
		if got := max(l.GetPerConnectionBufferLimitBytes().GetValue(), h2.GetInitialStreamWindowSize().GetValue()); got != 256<<10 {
			t.Errorf("buffer of %d bytes, want 256 KiB", got)
		}
		want := min(uint64(p.Requests())*256<<10, 1<<31-1)
		if got := uint64(h2.GetInitialConnectionWindowSize().GetValue()); got != want {
			t.Errorf("lot %d: a connection's window of %d bytes, want %d: held uploads block the others", lot, got, want)
		}
	}
}

func TestR49_PathsAndHostsAreLeftAlone(t *testing.T) {
	m := managerOf(t, mustResources(t, DefaultPlan()).listeners[0])
	if m.GetNormalizePath().GetValue() || m.GetMergeSlashes() || m.GetPathWithEscapedSlashesAction() != 0 ||
		m.GetStripPortMode() != nil || m.GetStripMatchingHostPort() || m.GetStripTrailingHostDot() {
		t.Errorf("the connection manager changes paths or hosts: %v", m)
	}
	if got := m.GetServerHeaderTransformation(); got != hcmv3.HttpConnectionManager_PASS_THROUGH {
		t.Errorf("server header: %v", got)
	}
}

func TestR51_HeadersHaveTheOneLimit(t *testing.T) {
	if got := managerOf(t, mustResources(t, DefaultPlan()).listeners[0]).GetMaxRequestHeadersKb().GetValue(); got != 60 {
		t.Errorf("max_request_headers_kb %d, want 60 as in the built-in proxy", got)
	}
}

func routesOf(r resources) map[string]*routev3.RouteAction {
	actions := make(map[string]*routev3.RouteAction)
	for i, name := range []string{"connect", "upgrade", "grpc", "h2c", "rest"} {
		actions[name] = r.routes.GetVirtualHosts()[0].GetRoutes()[i].GetRoute()
	}
	return actions
}

func TestR27_TunnelsHaveNoTimeout(t *testing.T) {
	r := mustResources(t, DefaultPlan())
	for name, action := range routesOf(r) {
		wantTimeout, wantIdle := 10*time.Second, time.Duration(0)
		if name == "connect" || name == "upgrade" {
			wantTimeout, wantIdle = 0, time.Hour
		}
		if got := action.GetTimeout().AsDuration(); action.Timeout == nil || got != wantTimeout {
			t.Errorf("%s: timeout %v, want %v", name, got, wantTimeout)
		}
		if got := action.GetIdleTimeout().AsDuration(); got != wantIdle {
			t.Errorf("%s: idle_timeout %v, want %v", name, got, wantIdle)
		}
	}
	if got := routesOf(r)["connect"].GetUpgradeConfigs(); len(got) != 1 || got[0].GetConnectConfig() == nil {
		t.Errorf("CONNECT is not ended at Envoy: %v", got)
	}
	var upgrades []string
	for _, u := range managerOf(t, r.listeners[0]).GetUpgradeConfigs() {
		upgrades = append(upgrades, u.GetUpgradeType())
	}
	if got := strings.Join(upgrades, " "); got != "CONNECT websocket" {
		t.Errorf("upgrades %q", got)
	}
}

func TestR42_OnlyWhatNobodySawIsSentAgain(t *testing.T) {
	for name, action := range routesOf(mustResources(t, DefaultPlan())) {
		if got := action.GetRetryPolicy().GetRetryOn(); got != "connect-failure,refused-stream" {
			t.Errorf("%s: retry_on %q", name, got)
		}
	}
}

// A worker's address is given to other actors: a connection that is kept may
// end at the next one, or nowhere.
func TestR26_R52_ConnectionsToActorsAreUsedOnce(t *testing.T) {
	r := mustResources(t, DefaultPlan())
	for _, name := range []string{clusterH1, clusterH2C} {
		_, options := clusterOf(t, r, name)
		if most := options.GetCommonHttpProtocolOptions().GetMaxRequestsPerConnection(); most.GetValue() != 1 {
			t.Errorf("%s: %v requests for each", name, most)
		}
	}
}

func TestWhatWantsHTTP2GetsIt(t *testing.T) {
	r := mustResources(t, DefaultPlan())
	for name, action := range routesOf(r) {
		want := clusterH1
		if name == "grpc" || name == "h2c" {
			want = clusterH2C
		}
		if got := action.GetCluster(); got != want {
			t.Errorf("%s goes to %s, want %s", name, got, want)
		}
	}
	if _, options := clusterOf(t, r, clusterH2C); options.GetExplicitHttpConfig().GetHttp2ProtocolOptions() == nil {
		t.Error("no HTTP/2 to actors that want it")
	}
}

func TestUpstreamsAreFoundByAddressOrName(t *testing.T) {
	p := DefaultPlan()
	for addr, want := range map[string]clusterv3.Cluster_DiscoveryType{
		"127.0.0.1:50051": clusterv3.Cluster_STATIC, "[::1]:50051": clusterv3.Cluster_STATIC, "router.ate-system.svc:50051": clusterv3.Cluster_STRICT_DNS,
	} {
		p.Processor = addr
		if c, _ := clusterOf(t, mustResources(t, p), clusterProcessor); c.GetType() != want {
			t.Errorf("%s: %v, want %v", addr, c.GetType(), want)
		}
	}
}

func TestHTTPSHasACertificateThatIsReadAgain(t *testing.T) {
	p := DefaultPlan()
	p.HTTPS, p.Certificate, p.Key = "[::]:8443", "/tls/tls.crt", "/tls/tls.key"
	r := mustResources(t, p)
	if r.listeners[0].GetFilterChains()[0].GetTransportSocket() != nil {
		t.Error("TLS on the listener in the clear")
	}
	l := r.listeners[1]
	if !l.GetAddress().GetSocketAddress().GetIpv4Compat() {
		t.Error("[::] is not open to IPv4")
	}
	tls := unpack(t, l.GetFilterChains()[0].GetTransportSocket().GetTypedConfig(), &tlsv3.DownstreamTlsContext{}).GetCommonTlsContext()
	name := tls.GetTlsCertificateSdsSecretConfigs()[0].GetName()
	if len(r.secrets) != 1 || r.secrets[0].GetName() != name {
		t.Fatalf("secrets %v, want %s", r.secrets, name)
	}
	certificate := r.secrets[0].GetTlsCertificate()
	if got := certificate.GetCertificateChain().GetFilename() + " " + certificate.GetPrivateKey().GetFilename() + " " + certificate.GetWatchedDirectory().GetPath(); got != "/tls/tls.crt /tls/tls.key /tls" {
		t.Errorf("certificate %s", got)
	}
	static, err := p.resources(true)
	if err != nil {
		t.Fatal(err)
	}
	tls = unpack(t, static.listeners[1].GetFilterChains()[0].GetTransportSocket().GetTypedConfig(), &tlsv3.DownstreamTlsContext{}).GetCommonTlsContext()
	if len(tls.GetTlsCertificates()) != 1 {
		t.Errorf("static: certificates %v, want one in the listener", tls.GetTlsCertificates())
	}
}

// What is printed is read by Envoy, which knows YAML and the names of the
// protocol's fields.
func TestTheBootstrapReadsAsItWasWritten(t *testing.T) {
	p := DefaultPlan()
	p.AccessLog = "/dev/stdout"
	for name, make := range map[string]func() (*bootstrapv3.Bootstrap, error){"xDS": p.Bootstrap, "static": p.Static} {
		boot, err := make()
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := Write(&text, boot); err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		if err := yaml.Unmarshal(text.Bytes(), &tree); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		read := &bootstrapv3.Bootstrap{}
		if err := protojson.Unmarshal(again, read); err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, text.Bytes())
		}
		var repeated bytes.Buffer
		if err := Write(&repeated, read); err != nil {
			t.Fatal(err)
		}
		if repeated.String() != text.String() {
			t.Errorf("%s: read as\n%s\nwant\n%s", name, repeated.String(), text.String())
		}
	}
}

func TestEqualPlansHaveEqualVersions(t *testing.T) {
	p := DefaultPlan()
	p.AccessLog = "/dev/stdout" // has a map in it
	first, err := p.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	const listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	for range 20 {
		again, err := p.snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := again.GetVersion(listenerType), first.GetVersion(listenerType); got != want {
			t.Fatalf("version %s after %s of an equal plan", got, want)
		}
	}
	p.RouteTimeout++
	other, err := p.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if got := other.GetVersion(listenerType); got == first.GetVersion(listenerType) {
		t.Errorf("version %s of two plans", got)
	}
}

func TestAContradictionIsNotWritten(t *testing.T) {
	p := DefaultPlan()
	p.Budget = 0
	if _, err := p.Bootstrap(); err == nil || !strings.Contains(err.Error(), "Budget") {
		t.Errorf("Bootstrap = %v, want what is wrong with the budget", err)
	}
	if _, err := p.Static(); err == nil || !strings.Contains(err.Error(), "Budget") {
		t.Errorf("Static = %v, want what is wrong with the budget", err)
	}
}

func TestExplainSaysWhatEndsWhat(t *testing.T) {
	var text strings.Builder
	p := DefaultPlan()
	p.TunnelIdle = 0
	if err := p.Explain(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5s, then 503", "10s, then 504", "10s; tunnels: none", "5m0s; on a tunnel: none", "20s", "1024 at a time", "2048 at a time", "256 MiB"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// The page tells operators what their own configuration must have: what ours
// has.
func TestThePageShowsTheFilterInUse(t *testing.T) {
	page, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of YAML, want the filter and the cluster", len(blocks))
	}
	r := mustResources(t, DefaultPlan())
	filter := processingOf(t, managerOf(t, r.listeners[0]))
	filter.GrpcService.RetryPolicy = nil // ours alone
	cluster, _ := clusterOf(t, r, clusterH1)
	for i, of := range []struct{ shown, used proto.Message }{
		{&extprocv3.ExternalProcessor{}, filter},
		{&clusterv3.Cluster{}, &clusterv3.Cluster{LbConfig: cluster.GetLbConfig()}},
	} {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(blocks[i][1]), &tree); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal(text, of.shown); err != nil {
			t.Fatal(err)
		}
		if e, ok := of.shown.(*extprocv3.ExternalProcessor); ok { // Envoy's defaults, which ours says nevertheless
			e.ProcessingMode.RequestTrailerMode = extprocv3.ProcessingMode_SKIP
		}
		if !proto.Equal(of.shown, of.used) {
			t.Errorf("the page shows %v, in use is %v", of.shown, of.used)
		}
	}
}
