package main

import (
	"context"
	"log/slog"
	"path"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"layover/internal/sampled"
	"layover/internal/substrate/ateapi"
)

// trouble logs what is wrong with the control plane, whoever asked it and
// whether or not somebody has to be refused for it: a line for each method and
// code, and one when that method is well again.
type trouble struct {
	calls *sampled.Log[call, error]
}

// call is a call with its answer.
type call struct {
	method string
	code   codes.Code
}

func newTrouble(log *slog.Logger) *trouble {
	write := func(c call, last error, n int) {
		attrs := []slog.Attr{slog.String("method", c.method), slog.String("code", c.code.String()), slog.String("err", sampled.Cut(status.Convert(last).Message()))}
		if c.method == path.Base(ateapi.Control_GetActor_FullMethodName) {
			attrs = append(attrs, slog.String("effect", "requests that wait for a worker stand in one line, whatever workers their actors can have"))
		}
		if n > 1 {
			attrs = append(attrs, slog.Int("calls", n))
		}
		log.LogAttrs(context.Background(), slog.LevelWarn, "the control plane fails", attrs...)
	}
	well := func(c call) {
		log.Info("the control plane is well again", "method", c.method, "code", c.code.String())
	}
	return &trouble{calls: sampled.New(write, well)}
}

// dialOption has each call of the connection looked at.
func (t *trouble) dialOption() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, conn, options...)
		t.observe(path.Base(method), err)
		return err
	})
}

func (t *trouble) observe(method string, err error) {
	code := status.Code(err)
	switch {
	case code == codes.Canceled: // it is we who did not wait
	case isTrouble(method, code):
		t.calls.Add(call{method, code}, err)
	default:
		t.calls.Well(func(c call) bool { return c.method == method })
	}
}

// isTrouble reports whether an answer tells about the control plane, or about
// how we come to it. The others are about the actor, and what they mean for a
// request is told there.
func isTrouble(method string, code codes.Code) bool {
	switch code {
	case codes.OK, codes.Aborted, codes.FailedPrecondition, codes.ResourceExhausted, codes.NotFound, codes.InvalidArgument:
		return false
	case codes.PermissionDenied: // of a GetActor nobody hears otherwise
		return method != path.Base(ateapi.Control_ResumeActor_FullMethodName)
	}
	return true
}
