package envoy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Server tells Envoys their configuration, over xDS's aggregated stream, the
// same to each. Make it with NewServer.
type Server struct {
	cache cachev3.SnapshotCache
	xds   serverv3.Server
}

// retryRejected is how long an Envoy that refused something is left in peace
// before it is told the same again: what was in the way, such as a port that is
// taken, may be gone by then. Without that the cache would answer each refusal at
// once (seen: hundreds in a second). It holds up that Envoy's stream alone.
const retryRejected = 2 * time.Second

// everybody is the one node that the cache knows.
type everybody struct{}

func (everybody) ID(*corev3.Node) string { return nodeName }

// NewServer returns a server of p, whose streams end with ctx. onReject is
// called when an Envoy does not accept what it was told, with its node id, the
// type of the resources and its reason; it may be nil. A plan that Check refuses
// is an error.
func NewServer(ctx context.Context, p Plan, onReject func(node, kind, reason string)) (*Server, error) {
	s := &Server{cache: cachev3.NewSnapshotCache(true, everybody{}, nil)}
	if err := s.Set(p); err != nil {
		return nil, err
	}
	refused := func(node *corev3.Node, kind string, reason *rpcstatus.Status) error {
		if reason == nil {
			return nil
		}
		if onReject != nil {
			onReject(node.GetId(), kind, reason.GetMessage())
		}
		select {
		case <-time.After(retryRejected):
		case <-ctx.Done():
		}
		return nil
	}
	callbacks := serverv3.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discoveryv3.DiscoveryRequest) error {
			return refused(r.GetNode(), r.GetTypeUrl(), r.GetErrorDetail())
		},
		StreamDeltaRequestFunc: func(_ int64, r *discoveryv3.DeltaDiscoveryRequest) error {
			return refused(r.GetNode(), r.GetTypeUrl(), r.GetErrorDetail())
		},
	}
	s.xds = serverv3.NewServer(ctx, s.cache, callbacks)
	return s, nil
}

// Set puts another plan into force. Envoys that are connected hear of it at
// once.
func (s *Server) Set(p Plan) error {
	if err := p.refusal(); err != nil {
		return err
	}
	snapshot, err := p.snapshot()
	if err != nil {
		return err
	}
	return s.cache.SetSnapshot(context.Background(), nodeName, snapshot)
}

// Register makes s the xDS service of g.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s.xds)
}

// snapshot is p's resources. Their version is made of their content, so that
// one router after another with the same plan changes nothing in an Envoy.
func (p Plan) snapshot() (*cachev3.Snapshot, error) {
	r, err := p.resources(false)
	if err != nil {
		return nil, err
	}
	of := map[resourcev3.Type][]types.Resource{resourcev3.RouteType: {r.routes}}
	for _, l := range r.listeners {
		of[resourcev3.ListenerType] = append(of[resourcev3.ListenerType], l)
	}
	for _, c := range r.clusters {
		of[resourcev3.ClusterType] = append(of[resourcev3.ClusterType], c)
	}
	for _, secret := range r.secrets {
		of[resourcev3.SecretType] = append(of[resourcev3.SecretType], secret)
	}
	sum := sha256.New()
	for _, kind := range []resourcev3.Type{resourcev3.ClusterType, resourcev3.RouteType, resourcev3.ListenerType, resourcev3.SecretType} {
		for _, m := range of[kind] {
			text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				return nil, err
			}
			sum.Write(text)
		}
	}
	snapshot, err := cachev3.NewSnapshot(hex.EncodeToString(sum.Sum(nil)[:8]), of)
	if err != nil {
		return nil, err
	}
	return snapshot, snapshot.Consistent()
}
