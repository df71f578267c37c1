package envoy_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"layover/internal/envoy"
)

const (
	clusters  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	listeners = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routes    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// subscriber is an Envoy's half of the aggregated stream.
type subscriber struct {
	t      *testing.T
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
}

func (s subscriber) ask(r *discoveryv3.DiscoveryRequest) {
	s.t.Helper()
	if err := s.stream.Send(r); err != nil {
		s.t.Fatal(err)
	}
}

func (s subscriber) next() *discoveryv3.DiscoveryResponse {
	s.t.Helper()
	r, err := s.stream.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func subscribe(t *testing.T, s *envoy.Server) subscriber {
	g := grpc.NewServer()
	s.Register(g)
	l := bufconn.Listen(1 << 20)
	served := make(chan struct{})
	go func() {
		defer close(served)
		g.Serve(l)
	}()
	conn, err := grpc.NewClient("passthrough:///xds", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		<-served
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return subscriber{t, stream}
}

func TestAnyEnvoyIsToldThePlanInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var rejected []string
		server, err := envoy.NewServer(ctx, envoy.DefaultPlan(), func(node, kind, reason string) { rejected = append(rejected, node, kind, reason) })
		if err != nil {
			t.Fatal(err)
		}
		s := subscribe(t, server)
		first := make(map[string]*discoveryv3.DiscoveryResponse)
		for _, of := range []struct {
			kind  string
			names []string
			want  int
		}{{clusters, nil, 3}, {listeners, nil, 1}, {routes, []string{"actors"}, 1}} {
			s.ask(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "some-pod"}, TypeUrl: of.kind, ResourceNames: of.names})
			r := s.next()
			if r.GetTypeUrl() != of.kind || len(r.GetResources()) != of.want {
				t.Errorf("%s: %d resources of %s, want %d", of.kind, len(r.GetResources()), r.GetTypeUrl(), of.want)
			}
			first[of.kind] = r
			s.ask(&discoveryv3.DiscoveryRequest{TypeUrl: of.kind, ResourceNames: of.names, VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce()})
		}
		synctest.Wait()
		if err := server.Set(envoy.DefaultPlan()); err != nil {
			t.Fatal(err)
		}
		p := envoy.DefaultPlan()
		p.RouteTimeout = time.Minute
		if err := server.Set(p); err != nil {
			t.Fatal(err)
		}
		for range 3 { // the equal plan changed nothing, so this is the other one
			r := s.next()
			if r.GetVersionInfo() == first[r.GetTypeUrl()].GetVersionInfo() {
				t.Errorf("%s: version %s again", r.GetTypeUrl(), r.GetVersionInfo())
			}
			if r.GetTypeUrl() == listeners {
				s.ask(&discoveryv3.DiscoveryRequest{TypeUrl: listeners, VersionInfo: first[listeners].GetVersionInfo(), ResponseNonce: r.GetNonce(),
					ErrorDetail: &rpcstatus.Status{Message: "no such field"}})
			}
		}
		refusedAt := time.Now()
		if r := s.next(); r.GetTypeUrl() != listeners || time.Since(refusedAt) != 2*time.Second {
			t.Errorf("%s after %v, want what was refused again after 2s", r.GetTypeUrl(), time.Since(refusedAt))
		}
		if len(rejected) != 3 || rejected[0] != "some-pod" || rejected[1] != listeners || rejected[2] != "no such field" {
			t.Errorf("heard of the rejections %q", rejected)
		}
		p.Budget = 0
		if server.Set(p) == nil {
			t.Error("Set accepts a plan that Check refuses")
		}
	})
}
