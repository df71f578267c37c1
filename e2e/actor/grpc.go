package actor

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The methods of a gRPC actor. Every message is a StringValue; the id of a call
// is in the metadata x-request-id, as in HTTP.
const (
	Echo  = "/layover.test.Actor/Echo"  // unary: what it is sent; for "fail", ResourceExhausted and a trailer
	Count = "/layover.test.Actor/Count" // server streaming: a message for each byte of the request
	Chat  = "/layover.test.Actor/Chat"  // bidirectional: what it is sent, one by one
)

// Trailer is the key of what a call ends with.
const Trailer = "x-trailer"

// CountDesc and ChatDesc are what grpc.ClientConn.NewStream wants to know.
var (
	CountDesc = grpc.StreamDesc{StreamName: "Count", ServerStreams: true}
	ChatDesc  = grpc.StreamDesc{StreamName: "Chat", ServerStreams: true, ClientStreams: true}
)

func (s *server) serveGRPC(stop context.Context, l net.Listener) error {
	g := s.newGRPC()
	go func() {
		<-stop.Done()
		g.Stop()
	}()
	return g.Serve(l)
}

func (s *server) newGRPC() *grpc.Server {
	g := grpc.NewServer()
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: "layover.test.Actor",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: s.echo}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Count", Handler: s.count, ServerStreams: true},
			{StreamName: "Chat", Handler: s.chat, ServerStreams: true, ClientStreams: true},
		},
	}, s)
	return g
}

// begin notes a call, and returns what its answer must have.
func (s *server) begin(ctx context.Context) metadata.MD {
	var id string
	if in, ok := metadata.FromIncomingContext(ctx); ok {
		id = strings.Join(in.Get("x-request-id"), ",")
	}
	s.got(id, "POST")
	if s.hangs() {
		<-ctx.Done()
	}
	if s.dies() {
		crash()
	}
	return metadata.Pairs(MarkHeader, s.name, EchoHeader, id)
}

func (s *server) echo(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	grpc.SetHeader(ctx, s.begin(ctx))
	grpc.SetTrailer(ctx, metadata.Pairs(Trailer, "the end of "+s.name))
	in := new(wrapperspb.StringValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	if in.Value == "fail" {
		return nil, status.Error(codes.ResourceExhausted, "told to fail: 100 %")
	}
	return in, nil
}

func (s *server) count(_ any, stream grpc.ServerStream) error {
	stream.SetHeader(s.begin(stream.Context()))
	stream.SetTrailer(metadata.Pairs(Trailer, "the end of "+s.name))
	in := new(wrapperspb.StringValue)
	if err := stream.RecvMsg(in); err != nil {
		return err
	}
	for i := range in.Value {
		if err := stream.SendMsg(wrapperspb.String(in.Value[i : i+1])); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) chat(_ any, stream grpc.ServerStream) error {
	stream.SetHeader(s.begin(stream.Context()))
	stream.SetTrailer(metadata.Pairs(Trailer, "the end of "+s.name))
	for {
		in := new(wrapperspb.StringValue)
		err := stream.RecvMsg(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.SendMsg(in); err != nil {
			return err
		}
	}
}
