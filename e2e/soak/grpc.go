package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"layover/e2e/actor"
)

// grpcClient has one connection at most; close is not the end of it.
type grpcClient struct {
	addr  string
	creds credentials.TransportCredentials

	mu   sync.Mutex
	conn *grpc.ClientConn // nil: none
}

func (c *grpcClient) dial(h *house) error {
	c.addr, c.creds = h.addr, insecure.NewCredentials()
	if h.tlsLine != "" {
		c.creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	_, err := c.get()
	return err
}

func (c *grpcClient) get() (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		return c.conn, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+c.addr, grpc.WithTransportCredentials(c.creds), grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond}, MinConnectTimeout: 20 * time.Second}))
	c.conn = conn
	return conn, err
}

func (c *grpcClient) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// call is one gRPC call and what came with it.
type call struct {
	conn            *grpc.ClientConn
	header, trailer metadata.MD
	headerAt        time.Time
	h               *house
}

// grpcAct makes an act of one that returns what it received, as text to
// compare, and the call's error.
func grpcAct(do func(ctx context.Context, c *call) (got, want string, err error)) act {
	return func(ctx context.Context, h *house, s *shot) ending {
		conn, err := h.clients.grpc.get()
		if err != nil {
			return faulty("%v", err)
		}
		ctx = metadata.AppendToOutgoingContext(ctx, "x-to", s.to, "x-request-id", s.id, "x-band", strconv.Itoa(s.band))
		if s.timeout > 0 { // grpc-go sends it as grpc-timeout, and keeps it itself
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.timeout)
			defer cancel()
		}
		c := &call{conn: conn, h: h}
		got, want, err := do(ctx, c)
		e := s.judgeCall(ctx, h, c, got, want, err)
		e.took = time.Since(s.began)
		if !c.headerAt.IsZero() {
			e.took = c.headerAt.Sub(s.began)
		}
		return e
	}
}

func (s *shot) judgeCall(ctx context.Context, h *house, c *call, got, want string, err error) ending {
	st := status.Convert(err)
	mark := first(c.header, actor.MarkHeader)
	if reason := first(c.trailer, "Layover-Reason"); reason != "" {
		if mark != "" {
			return faulty("a refusal with the mark of %s", mark)
		}
		return s.judgeCode(st.Code(), reason)
	}
	// The actor knows the client's deadline, and may be the first to act on it.
	over := s.timeout > 0 && time.Since(s.began) > s.timeout-5*time.Millisecond
	var excuse ending
	excused := false
	if st.Code() == codes.Unavailable {
		excuse, excused = h.excuse(s, err, mark != "")
	}
	switch {
	case err != nil && (ctx.Err() != nil || over):
		return ending{outcome: left, mayMiss: true}
	case excused:
		return excuse
	case mark != "" && (mark != s.to || first(c.header, actor.EchoHeader) != s.id):
		return faulty("the answer of %s to %s", mark, first(c.header, actor.EchoHeader))
	case st.Code() == codes.ResourceExhausted && mark != "" && first(c.trailer, actor.Trailer) != "":
		return ending{outcome: own}
	case err != nil && s.role.dies && mark != "":
		return ending{outcome: cut}
	case err != nil:
		return faulty("mark %q: %v", mark, err)
	case mark == "" || first(c.trailer, actor.Trailer) == "":
		return faulty("no mark or no trailer: %v %v", c.header, c.trailer)
	case got != want:
		return faulty("received %.40q, want %.40q", got, want)
	}
	return ending{outcome: served}
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

var unary = grpcAct(func(ctx context.Context, c *call) (got, want string, err error) {
	want = string(payload[:c.h.chance(20000)])
	if c.h.chance(6) == 0 {
		want = "fail"
	}
	out := new(wrapperspb.StringValue)
	err = c.conn.Invoke(ctx, actor.Echo, wrapperspb.String(want), out, grpc.Header(&c.header), grpc.Trailer(&c.trailer))
	return out.Value, want, err
})

var count = grpcAct(func(ctx context.Context, c *call) (got, want string, err error) {
	want = string(payload[:1+c.h.chance(50)])
	stream, err := c.conn.NewStream(ctx, &actor.CountDesc, actor.Count)
	if err != nil {
		return "", want, err
	}
	if err := stream.SendMsg(wrapperspb.String(want)); err != nil && !errors.Is(err, io.EOF) {
		return "", want, err
	}
	stream.CloseSend()
	got, err = c.drain(stream)
	return got, want, err
})

var chat = grpcAct(func(ctx context.Context, c *call) (got, want string, err error) {
	stream, err := c.conn.NewStream(ctx, &actor.ChatDesc, actor.Chat)
	if err != nil {
		return "", "", err
	}
	for range 1 + c.h.chance(8) {
		word := string(payload[:1+c.h.chance(2000)])
		want += word
		if stream.SendMsg(wrapperspb.String(word)) != nil {
			break // RecvMsg has the error
		}
		in := new(wrapperspb.StringValue)
		if err = stream.RecvMsg(in); err != nil {
			c.noteEnd(stream)
			return got, want, err
		}
		got += in.Value
	}
	stream.CloseSend()
	rest, err := c.drain(stream)
	return got + rest, want, err
})

// drain receives until the stream's end.
func (c *call) drain(stream grpc.ClientStream) (got string, err error) {
	defer c.noteEnd(stream)
	for {
		in := new(wrapperspb.StringValue)
		if err := stream.RecvMsg(in); errors.Is(err, io.EOF) {
			return got, nil
		} else if err != nil {
			return got, err
		}
		got += in.Value
	}
}

func (c *call) noteEnd(stream grpc.ClientStream) {
	c.header, _ = stream.Header()
	c.trailer = stream.Trailer()
}
