package envoy

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	fileaccesslogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	upstreamcodecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlymutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The names of the resources. Statistics carry them.
const (
	listenerHTTP     = "http"
	listenerHTTPS    = "https"
	routesName       = "actors"
	clusterProcessor = "processor"
	clusterXDS       = "xds"
	clusterH1        = "actors_h1"
	clusterH2C       = "actors_h2c"
	certificateName  = "certificate"
)

// The metadata that says where a request goes, as package extproc writes it.
const (
	TargetNamespace = "envoy.filters.listener.original_dst"
	TargetAddress   = "local"
	TargetProtocol  = "protocol"
	protocolH2C     = "h2c"
)

// How the processor's stream says that a request is of a trusted peer.
const (
	PeerMetadata = "layover-peer"
	PeerTrusted  = "trusted"
)

// resources are what an Envoy is told.
type resources struct {
	listeners []*listenerv3.Listener
	routes    *routev3.RouteConfiguration
	clusters  []*clusterv3.Cluster
	secrets   []*tlsv3.Secret
}

// resources makes the messages of p and has them validated by their own rules.
// static leaves out the wait for further configuration.
func (p Plan) resources(static bool) (resources, error) {
	b := &builder{plan: p, static: static}
	r := resources{
		routes:   b.routes(),
		clusters: []*clusterv3.Cluster{b.processor(), b.actors(clusterH1, explicitH1()), b.actors(clusterH2C, b.explicitH2(0))},
	}
	if p.HTTP != "" {
		r.listeners = append(r.listeners, b.listener(listenerHTTP, p.HTTP, nil))
	}
	if p.HTTPS != "" {
		r.listeners = append(r.listeners, b.listener(listenerHTTPS, p.HTTPS, b.downstreamTLS()))
		r.secrets = append(r.secrets, b.secret())
	}
	b.check(r.routes)
	for _, l := range r.listeners {
		b.check(l)
	}
	for _, c := range r.clusters {
		b.check(c)
	}
	for _, secret := range r.secrets {
		b.check(secret)
	}
	return r, errors.Join(b.wrong...)
}

// builder makes messages; what is wrong with them is collected.
type builder struct {
	plan   Plan
	static bool
	wrong  []error
}

type validated interface {
	proto.Message
	ValidateAll() error
}

func (b *builder) check(m validated) {
	if err := m.ValidateAll(); err != nil {
		b.wrong = append(b.wrong, fmt.Errorf("envoy: %s: %w", m.ProtoReflect().Descriptor().Name(), err))
	}
}

// pack validates m itself, because nobody looks into an Any later. Equal
// messages have equal bytes, or versions would differ.
func (b *builder) pack(m validated) *anypb.Any {
	b.check(m)
	packed := &anypb.Any{}
	if err := anypb.MarshalFrom(packed, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		b.wrong = append(b.wrong, err)
	}
	return packed
}

// listener has a filter chain for trusted peers, if there are any, and one for
// the others: whether a header is believed depends on who the connection is from.
func (b *builder) listener(name, addr string, tls *corev3.TransportSocket) *listenerv3.Listener {
	chain := func(trusted bool) *listenerv3.FilterChain {
		return &listenerv3.FilterChain{
			TransportSocket: tls,
			Filters: []*listenerv3.Filter{{
				Name:       "envoy.filters.network.http_connection_manager",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: b.pack(b.connectionManager(name, trusted))},
			}},
		}
	}
	l := &listenerv3.Listener{
		Name:                          name,
		Address:                       address(addr),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(buffer),
		FilterChains:                  []*listenerv3.FilterChain{chain(false)},
	}
	if len(b.plan.Trusted) > 0 {
		trusted := chain(true)
		trusted.FilterChainMatch = &listenerv3.FilterChainMatch{}
		peers := slices.SortedFunc(slices.Values(b.plan.Trusted), netip.Prefix.Compare)
		for _, peer := range slices.Compact(peers) { // Envoy refuses one that comes twice
			trusted.FilterChainMatch.SourcePrefixRanges = append(trusted.FilterChainMatch.SourcePrefixRanges, &corev3.CidrRange{
				AddressPrefix: peer.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(peer.Bits()))})
		}
		l.FilterChains = append(l.FilterChains, trusted)
	}
	return l
}

func (b *builder) connectionManager(name string, trusted bool) *hcmv3.HttpConnectionManager {
	m := &hcmv3.HttpConnectionManager{
		StatPrefix:                   name,
		UseRemoteAddress:             wrapperspb.Bool(true),
		NormalizePath:                wrapperspb.Bool(false), // paths reach actors byte for byte
		ServerHeaderTransformation:   hcmv3.HttpConnectionManager_PASS_THROUGH,
		AlwaysSetRequestIdInResponse: true, // who was refused can name it, and who was served, too
		Proxy_100Continue:            true, // an upload begins when there is an actor, not while the request is held
		MaxRequestHeadersKb:          wrapperspb.UInt32(60),
		RequestHeadersTimeout:        durationpb.New(10 * time.Second),
		StreamIdleTimeout:            durationpb.New(b.plan.StreamIdle),
		HttpProtocolOptions:          &corev3.Http1ProtocolOptions{EnableTrailers: true, AcceptHttp_10: true},
		Http2ProtocolOptions:         b.downstreamH2(),
		UpgradeConfigs:               []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "CONNECT"}, {UpgradeType: "websocket"}},
		HttpFilters: []*hcmv3.HttpFilter{
			{Name: "envoy.filters.http.ext_proc", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: b.pack(b.processing(trusted))}},
			{Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: b.pack(&routerv3.Router{})}},
		},
		RouteSpecifier:   &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: routesName, ConfigSource: overADS()}},
		LocalReplyConfig: b.localReplies(),
		AccessLog:        b.accessLog(),
	}
	switch {
	case trusted:
		m.XffNumTrustedHops = 1 // or X-Forwarded-Proto would be of this connection
		m.PreserveExternalRequestId = true
	case b.plan.OnlyTrusted:
		m.EarlyHeaderMutationExtensions = []*corev3.TypedExtensionConfig{{
			Name:        "envoy.http.early_header_mutation.header_mutation",
			TypedConfig: b.pack(&earlymutationv3.HeaderMutation{Mutations: remove(forwardedNames)}),
		}}
	}
	if b.static {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: b.routes()}
	}
	return m
}

// localReplies gives Envoy's own refusals the Retry-After that the processor's
// have.
func (b *builder) localReplies() *hcmv3.LocalReplyConfig {
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{{
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
			StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
				Op:    accesslogv3.ComparisonFilter_EQ,
				Value: &corev3.RuntimeUInt32{DefaultValue: 503, RuntimeKey: "layover.local_reply_status"},
			}}}},
		HeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: "retry-after", Value: "1"},
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
		}},
	}}}
}

// downstreamH2 lets one connection have as many requests as the processor may
// have. The connection's window covers those of all streams as far as HTTP/2 can
// express that, because what a held upload has sent counts in it.
func (b *builder) downstreamH2() *corev3.Http2ProtocolOptions {
	streams := b.plan.Requests()
	return &corev3.Http2ProtocolOptions{
		AllowConnect:                true,
		MaxConcurrentStreams:        wrapperspb.UInt32(uint32(streams)),
		InitialStreamWindowSize:     wrapperspb.UInt32(buffer),
		InitialConnectionWindowSize: wrapperspb.UInt32(uint32(min(int64(streams)*buffer, maxStreams))),
	}
}

func (b *builder) processing(trusted bool) *extprocv3.ExternalProcessor {
	// Envoy closes the stream when there is nothing left that it could have to
	// send; a response without trailers ends before that is known.
	responseTrailers := extprocv3.ProcessingMode_SKIP
	if b.plan.WholeResponse {
		responseTrailers = extprocv3.ProcessingMode_SEND
	}
	p := &extprocv3.ExternalProcessor{
		GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: clusterProcessor}},
			// Between two processors a request waits, for two seconds at most. What an
			// earlier one had is not sent again: its deadline would begin anew.
			RetryPolicy: &corev3.RetryPolicy{
				RetryOn:    "connect-failure,refused-stream",
				NumRetries: wrapperspb.UInt32(10),
				RetryBackOff: &corev3.BackoffStrategy{
					BaseInterval: durationpb.New(50 * time.Millisecond), MaxInterval: durationpb.New(500 * time.Millisecond)},
			},
		},
		FailureModeAllow: false, // a request without a target must not go anywhere
		StatusOnError:    &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		MessageTimeout:   durationpb.New(b.plan.MessageTimeout()),
		ProcessingMode: &extprocv3.ProcessingMode{
			RequestHeaderMode:   extprocv3.ProcessingMode_SEND,
			ResponseHeaderMode:  extprocv3.ProcessingMode_SKIP,
			RequestBodyMode:     extprocv3.ProcessingMode_NONE,
			ResponseBodyMode:    extprocv3.ProcessingMode_NONE,
			RequestTrailerMode:  extprocv3.ProcessingMode_SKIP,
			ResponseTrailerMode: responseTrailers,
		},
		// The deadlines that the processor rewrites are among Envoy's own headers. What
		// would change the request itself (:method, :authority) stays forbidden.
		MutationRules: &mutationv3.HeaderMutationRules{AllowEnvoy: wrapperspb.Bool(true)},
		MetadataOptions: &extprocv3.MetadataOptions{
			ReceivingNamespaces: &extprocv3.MetadataOptions_MetadataNamespaces{Untyped: []string{TargetNamespace}},
		},
	}
	if trusted {
		p.GrpcService.InitialMetadata = []*corev3.HeaderValue{{Key: PeerMetadata, Value: PeerTrusted}}
	}
	return p
}

func (b *builder) accessLog() []*accesslogv3.AccessLog {
	if b.plan.AccessLog == "" {
		return nil
	}
	field := func(format string) *structpb.Value { return structpb.NewStringValue(format) }
	log := &fileaccesslogv3.FileAccessLog{
		Path: b.plan.AccessLog,
		AccessLogFormat: &fileaccesslogv3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: &structpb.Struct{Fields: map[string]*structpb.Value{
				"time":        field("%START_TIME%"),
				"method":      field("%REQ(:METHOD)%"),
				"host":        field("%REQ(:AUTHORITY)%"),
				"path":        field("%REQ(:PATH)%"),
				"status":      field("%RESPONSE_CODE%"),
				"details":     field("%RESPONSE_CODE_DETAILS%"),
				"flags":       field("%RESPONSE_FLAGS%"),
				"upstream":    field("%UPSTREAM_HOST%"),
				"duration_ms": field("%DURATION%"),
				"bytes_in":    field("%BYTES_RECEIVED%"),
				"bytes_out":   field("%BYTES_SENT%"),
				"request_id":  field("%REQ(X-REQUEST-ID)%"),
			}}},
		}},
	}
	return []*accesslogv3.AccessLog{{
		Name: "envoy.access_loggers.file", ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.pack(log)},
	}}
}

// downstreamTLS refers to the certificate where it can: Envoy reads the files
// again only for one that it was told of apart from the listener.
func (b *builder) downstreamTLS() *corev3.TransportSocket {
	tls := &tlsv3.CommonTlsContext{
		AlpnProtocols:                  []string{"h2", "http/1.1"},
		TlsParams:                      &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2},
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: certificateName, SdsConfig: overADS()}},
	}
	if b.static {
		tls.TlsCertificateSdsSecretConfigs = nil
		tls.TlsCertificates = []*tlsv3.TlsCertificate{b.certificate()}
	}
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: b.pack(&tlsv3.DownstreamTlsContext{CommonTlsContext: tls})},
	}
}

func (b *builder) certificate() *tlsv3.TlsCertificate {
	file := func(name string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: name}}
	}
	return &tlsv3.TlsCertificate{CertificateChain: file(b.plan.Certificate), PrivateKey: file(b.plan.Key)}
}

// secret is the certificate, read again whenever something in its folder is
// renamed: how files are replaced whole, also those that Kubernetes mounts.
func (b *builder) secret() *tlsv3.Secret {
	certificate := b.certificate()
	certificate.WatchedDirectory = &corev3.WatchedDirectory{Path: path.Dir(b.plan.Certificate)}
	return &tlsv3.Secret{Name: certificateName, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: certificate}}
}

// routes has the tunnels first, which no timer of responses may end, then what
// wants HTTP/2, then the rest.
func (b *builder) routes() *routev3.RouteConfiguration {
	everything := &routev3.RouteMatch_Prefix{Prefix: "/"}
	connect := b.route(&routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_ConnectMatcher_{ConnectMatcher: &routev3.RouteMatch_ConnectMatcher{}}}, clusterH1, true)
	connect.GetRoute().UpgradeConfigs = []*routev3.RouteAction_UpgradeConfig{
		{UpgradeType: "CONNECT", ConnectConfig: &routev3.RouteAction_UpgradeConfig_ConnectConfig{}}}
	routes := &routev3.RouteConfiguration{
		Name: routesName,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    routesName,
			Domains: []string{"*"},
			// What the processor told Envoy is of no use to an actor.
			RequestHeadersToRemove: []string{"x-envoy-original-dst-host"},
			Routes: []*routev3.Route{
				connect,
				b.route(&routev3.RouteMatch{PathSpecifier: everything, Headers: []*routev3.HeaderMatcher{
					{Name: "upgrade", HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}}}, clusterH1, true),
				b.route(&routev3.RouteMatch{PathSpecifier: everything, Grpc: &routev3.RouteMatch_GrpcRouteMatchOptions{}}, clusterH2C, false),
				b.route(&routev3.RouteMatch{PathSpecifier: everything, DynamicMetadata: []*matcherv3.MetadataMatcher{{
					Filter: TargetNamespace,
					Path:   []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: TargetProtocol}}},
					Value: &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
						MatchPattern: &matcherv3.StringMatcher_Exact{Exact: protocolH2C}}}},
				}}}, clusterH2C, false),
				b.route(&routev3.RouteMatch{PathSpecifier: everything}, clusterH1, false),
			},
		}},
	}
	if b.plan.OnlyTrusted {
		routes.RequestHeadersToAdd = []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: "x-forwarded-host", Value: "%REQ(:AUTHORITY)%"},
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
		}}
	}
	return routes
}

// route makes a route. It is sent again only if no byte of it has left: the
// connection was refused, or the stream was.
func (b *builder) route(match *routev3.RouteMatch, cluster string, tunnel bool) *routev3.Route {
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
		Timeout:          durationpb.New(b.plan.RouteTimeout),
		RetryPolicy: &routev3.RetryPolicy{
			RetryOn:    "connect-failure,refused-stream",
			NumRetries: wrapperspb.UInt32(3),
			RetryBackOff: &routev3.RetryPolicy_RetryBackOff{
				BaseInterval: durationpb.New(25 * time.Millisecond), MaxInterval: durationpb.New(250 * time.Millisecond)},
		},
	}
	if tunnel {
		action.Timeout = durationpb.New(0)
		action.IdleTimeout = durationpb.New(b.plan.TunnelIdle)
	}
	return &routev3.Route{Match: match, Action: &routev3.Route_Route{Route: action}}
}

// processor is the cluster of the ext_proc server. Each request that it has is
// an active request of this cluster.
func (b *builder) processor() *clusterv3.Cluster {
	c := b.upstream(clusterProcessor, b.plan.Processor)
	c.CircuitBreakers = b.breakers()
	return c
}

// upstream is a cluster of one gRPC server.
func (b *builder) upstream(name, addr string) *clusterv3.Cluster {
	kind := clusterv3.Cluster_STRICT_DNS
	if _, err := netip.ParseAddrPort(addr); err == nil {
		kind = clusterv3.Cluster_STATIC
	}
	return &clusterv3.Cluster{
		Name:                          name,
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: kind},
		ConnectTimeout:                durationpb.New(time.Second),
		TypedExtensionProtocolOptions: protocolOptions(b.pack(b.explicitH2(b.plan.Requests()))),
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address(addr)}}}}}},
		},
	}
}

// actors is a cluster whose host is whatever the processor says for the
// request.
func (b *builder) actors(name string, options *httpv3.HttpProtocolOptions) *clusterv3.Cluster {
	// A connection that is kept could end at the next actor that has the address.
	options.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{
		IdleTimeout: durationpb.New(30 * time.Second), MaxRequestsPerConnection: wrapperspb.UInt32(1)}
	options.HttpFilters = b.towardsActors()
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
		LbPolicy:             clusterv3.Cluster_CLUSTER_PROVIDED,
		ConnectTimeout:       durationpb.New(3 * time.Second), // so that a lost SYN is sent twice
		CleanupInterval:      durationpb.New(10 * time.Second),
		LbConfig: &clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{
			MetadataKey: &metadatav3.MetadataKey{
				Key:  TargetNamespace,
				Path: []*metadatav3.MetadataKey_PathSegment{{Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: TargetAddress}}},
			},
		}},
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(buffer),
		CircuitBreakers:               actorBreakers(),
		TypedExtensionProtocolOptions: protocolOptions(b.pack(options)),
	}
}

// What passes neither to actors nor from them, as package proxy has it: names
// that only the router sets, and such as read like headers that an actor may
// believe, to a program that takes "_" for "-".
const (
	privateNames = `layover[-_].*`
	fakeNames    = `x_forwarded[-_].*|x-forwarded_.*|x_request[-_]id|x-request_id`
	// forwardedNames say what an earlier proxy saw.
	forwardedNames = `x[-_]forwarded[-_].*|forwarded`
)

// remove takes off the headers whose whole name matches names.
func remove(names string) []*mutationv3.HeaderMutation {
	return []*mutationv3.HeaderMutation{{Action: &mutationv3.HeaderMutation_RemoveOnMatch_{
		RemoveOnMatch: &mutationv3.HeaderMutation_RemoveOnMatch{KeyMatcher: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: names}}}}}}}
}

// towardsActors are filters that see what actors get and what they answer, and
// no answer of the processor's or of Envoy's.
func (b *builder) towardsActors() []*hcmv3.HttpFilter {
	private := privateNames
	for _, name := range b.plan.Private {
		private += "|" + strings.ReplaceAll(regexp.QuoteMeta(strings.ToLower(name)), "-", "[-_]")
	}
	strip := &headermutationv3.HeaderMutation{Mutations: &headermutationv3.Mutations{
		RequestMutations:          remove(private + "|" + fakeNames),
		RequestTrailersMutations:  remove(private),
		ResponseMutations:         remove(private),
		ResponseTrailersMutations: remove(private),
	}}
	return []*hcmv3.HttpFilter{
		{Name: "envoy.filters.http.header_mutation", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: b.pack(strip)}},
		{Name: "envoy.filters.http.upstream_codec", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: b.pack(&upstreamcodecv3.UpstreamCodec{})}},
	}
}

// breakers keep Envoy's own limits out of the lot's way.
func (b *builder) breakers() *clusterv3.CircuitBreakers {
	most := wrapperspb.UInt32(uint32(b.plan.Requests()))
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections: most, MaxPendingRequests: most, MaxRequests: most, MaxRetries: most,
	}}}
}

// actorBreakers let every request through that the processor let through: one
// limit for all actors together would make a busy one refuse the others'.
func actorBreakers() *clusterv3.CircuitBreakers {
	unlimited := wrapperspb.UInt32(1<<32 - 1)
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections: unlimited, MaxPendingRequests: unlimited, MaxRequests: unlimited, MaxRetries: unlimited,
	}}}
}

func explicitH1() *httpv3.HttpProtocolOptions {
	return &httpv3.HttpProtocolOptions{UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
				HttpProtocolOptions: &corev3.Http1ProtocolOptions{EnableTrailers: true}}}}}
}

// explicitH2 probes a connection that is silent, so that a peer that is gone
// without a word is noticed. streams bounds one connection; 0: no bound of ours.
func (b *builder) explicitH2(streams int) *httpv3.HttpProtocolOptions {
	options := &corev3.Http2ProtocolOptions{
		ConnectionKeepalive: &corev3.KeepaliveSettings{Interval: durationpb.New(30 * time.Second), Timeout: durationpb.New(10 * time.Second)},
	}
	if streams > 0 {
		options.MaxConcurrentStreams = wrapperspb.UInt32(uint32(streams))
	}
	return &httpv3.HttpProtocolOptions{UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: options}}}}
}

func protocolOptions(packed *anypb.Any) map[string]*anypb.Any {
	return map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed}
}

func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

func address(addr string) *corev3.Address {
	host, port, err := splitHostPort(addr)
	if err != nil {
		return nil // Check refused it
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
		Ipv4Compat: host == "::", // as everywhere else: all addresses of both kinds
	}}}
}
