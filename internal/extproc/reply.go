package extproc

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"layover/internal/answer"
	"layover/internal/router"
)

// What an Envoy's configuration has to know of the answers.
const (
	// TargetNamespace is the namespace of the metadata that says where a request
	// goes. Envoy drops it unless the filter's metadata_options let it in.
	TargetNamespace = "envoy.filters.listener.original_dst"
	// TargetAddress is the key of the actor's address, as ip:port: what the
	// metadata_key of a cluster of type ORIGINAL_DST points to.
	TargetAddress = "local"
	// TargetPort is the key of the address's port alone.
	TargetPort = "port"
	// TargetProtocol is the key of the protocol that the actor wants to be spoken
	// to with, if that is not HTTP/1.1: router.ProtocolH2C. The route cache is
	// cleared with it, so that a route can ask for it.
	TargetProtocol = "protocol"
)

const (
	originalDstHeader  = "x-envoy-original-dst-host"
	envoyTimeoutHeader = "x-envoy-upstream-rq-timeout-ms"
)

// timeHeaders are those that budget reads, in the order in which they are
// written. The filter's mutation_rules must allow Envoy's own for that.
var timeHeaders = []string{"operation-timeout", "operation-deadline", "grpc-timeout", envoyTimeoutHeader}

// unchanged has the answers that leave a message as it is. They are shared:
// sending does not change them.
var unchanged = struct {
	requestBody, requestTrailers, responseHeaders, responseBody, responseTrailers *extprocv3.ProcessingResponse
}{
	requestBody:      &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}}},
	requestTrailers:  &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocv3.TrailersResponse{}}},
	responseHeaders:  &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{}}},
	responseBody:     &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: &extprocv3.BodyResponse{}}},
	responseTrailers: &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocv3.TrailersResponse{}}},
}

// routing is what Envoy is told of a request that has a ride.
type routing struct {
	addr, port string
	h2c        bool
	mutation   extprocv3.HeaderMutation
}

func (r *routing) set(name, value string) {
	r.mutation.SetHeaders = append(r.mutation.SetHeaders, overwrite(name, value))
}

func (r *routing) remove(name string) {
	r.mutation.RemoveHeaders = append(r.mutation.RemoveHeaders, name)
}

func overwrite(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, RawValue: []byte(value)},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

func (r *routing) reply() *extprocv3.ProcessingResponse {
	target := map[string]*structpb.Value{
		TargetAddress: structpb.NewStringValue(r.addr),
		TargetPort:    structpb.NewStringValue(r.port),
	}
	if r.h2c {
		target[TargetProtocol] = structpb.NewStringValue(router.ProtocolH2C)
	}
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: &extprocv3.CommonResponse{HeaderMutation: &r.mutation, ClearRouteCache: r.h2c},
		}},
		DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			TargetNamespace: structpb.NewStructValue(&structpb.Struct{Fields: target}),
		}},
	}
}

// refuse returns the response that Envoy gives in the actor's place.
func refuse(e *router.Error, req *Request) *extprocv3.ProcessingResponse {
	form := answer.FormOf(req.Method, req.formHeader())
	row := answer.RowOf(e.Reason)
	return immediate(answer.Compose(e, form, req.id()), form, row.Status, string(e.Reason))
}

// tell answers with what an actor is doing that is not to be woken. A gRPC health
// check gets no other answer than that: Envoy cannot give one with a message.
func tell(actor string, state router.State, req *Request) *extprocv3.ProcessingResponse {
	form := answer.FormOf(req.Method, req.formHeader())
	return immediate(answer.ComposeState(actor, state, form), form, http.StatusOK, "spared")
}

// immediate hands a to Envoy. Of a gRPC status it takes the parts, because Envoy
// writes that response itself, with the body as the message.
func immediate(a answer.Answer, form answer.Form, code int, details string) *extprocv3.ProcessingResponse {
	response := &extprocv3.ImmediateResponse{
		Status:  &typev3.HttpStatus{Code: typev3.StatusCode(code)},
		Headers: &extprocv3.HeaderMutation{},
		Body:    a.Body,
		Details: "router:" + details, // in Envoy's log: RESPONSE_CODE_DETAILS
	}
	if form == answer.GRPC {
		code, err := strconv.ParseUint(a.Header.Get("Grpc-Status"), 10, 32)
		message, err2 := url.PathUnescape(a.Header.Get("Grpc-Message"))
		if err := cmp.Or(err, err2); err != nil {
			panic("extproc: no gRPC status in an answer in that form: " + err.Error())
		}
		response.GrpcStatus = &extprocv3.GrpcStatus{Status: uint32(code)}
		response.Body = []byte(message)
		for _, name := range []string{"Content-Type", "Grpc-Status", "Grpc-Message"} {
			a.Header.Del(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		response.Headers.SetHeaders = append(response.Headers.SetHeaders, overwrite(strings.ToLower(name), a.Header.Get(name)))
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: response}}
}

// formHeader returns the headers by which package answer chooses the form.
func (r *Request) formHeader() map[string][]string {
	return r.header("Content-Type", "Accept", "Sec-Fetch-Dest")
}
