package envoy

import (
	"encoding/json"
	"errors"
	"io"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// nodeName is what Envoy calls itself to the xDS server, which tells everybody
// the same.
const nodeName = "layover"

// Bootstrap returns what an Envoy is started with that gets the rest from the
// xDS server. A plan that Check refuses
// is an error.
func (p Plan) Bootstrap() (*bootstrapv3.Bootstrap, error) {
	if err := p.refusal(); err != nil {
		return nil, err
	}
	b := &builder{plan: p}
	boot := p.bootstrap()
	boot.StaticResources = &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{b.upstream(clusterXDS, p.XDS)}}
	boot.DynamicResources = &bootstrapv3.Bootstrap_DynamicResources{
		LdsConfig: overADS(),
		CdsConfig: overADS(),
		AdsConfig: &corev3.ApiConfigSource{
			ApiType:             corev3.ApiConfigSource_GRPC,
			TransportApiVersion: corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: clusterXDS}}}},
		},
	}
	b.check(boot)
	return boot, errors.Join(b.wrong...)
}

// Static returns what an Envoy is started with that gets everything from it and
// needs no xDS server.
func (p Plan) Static() (*bootstrapv3.Bootstrap, error) {
	if err := p.refusal(); err != nil {
		return nil, err
	}
	r, err := p.resources(true)
	if err != nil {
		return nil, err
	}
	boot := p.bootstrap()
	boot.StaticResources = &bootstrapv3.Bootstrap_StaticResources{Listeners: r.listeners, Clusters: r.clusters}
	return boot, boot.ValidateAll()
}

func (p Plan) bootstrap() *bootstrapv3.Bootstrap {
	boot := &bootstrapv3.Bootstrap{Node: &corev3.Node{Id: nodeName, Cluster: nodeName}}
	if p.Admin != "" {
		boot.Admin = &bootstrapv3.Admin{Address: address(p.Admin)}
	}
	return boot
}

// Write writes boot as YAML.
func Write(w io.Writer, boot *bootstrapv3.Bootstrap) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(boot)
	if err != nil {
		return err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return err
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(tree); err != nil {
		return err
	}
	return e.Close()
}
