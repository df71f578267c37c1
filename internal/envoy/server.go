package envoy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Server tells Envoys their configuration, over xDS's aggregated stream, the
// same to each. Make it with NewServer.
type Server struct {
	cache cachev3.SnapshotCache
	xds   serverv3.Server
}

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
	callbacks := serverv3.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discoveryv3.DiscoveryRequest) error {
			if r.GetErrorDetail() != nil && onReject != nil {
				onReject(r.GetNode().GetId(), r.GetTypeUrl(), r.GetErrorDetail().GetMessage())
			}
			return nil
		},
		StreamDeltaRequestFunc: func(_ int64, r *discoveryv3.DeltaDiscoveryRequest) error {
			if r.GetErrorDetail() != nil && onReject != nil {
				onReject(r.GetNode().GetId(), r.GetTypeUrl(), r.GetErrorDetail().GetMessage())
			}
			return nil
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
