package main

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"layover/internal/cli"
	"layover/internal/tracing"
)

func program() tracing.Program {
	return tracing.Program{Name: "atenet-router", Version: cli.Version(), Prefix: "atenet.", Protocol: tracing.GRPC}
}

// tellTrace tells the control plane, with each call, in whose trace it is; also
// if nobody collects here.
func tellTrace() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		for key, value := range tracing.Told(ctx) {
			ctx = metadata.AppendToOutgoingContext(ctx, key, value)
		}
		return invoke(ctx, method, req, reply, conn, options...)
	})
}
