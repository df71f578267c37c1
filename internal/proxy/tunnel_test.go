package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"layover/internal/router"
)

func TestR47_AWebSocketSurvivesAColdStart(t *testing.T) {
	for _, secure := range []bool{false, true} {
		f := newFixture(t, setup{tls: secure})
		f.actorH1("a", false, func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Errorf("actor: %v", err)
				return
			}
			for {
				kind, data, err := c.Read(r.Context())
				if err != nil {
					return
				}
				c.Write(r.Context(), kind, append([]byte("echo "), data...))
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		dialed := make(chan *websocket.Conn, 1)
		go func() {
			c, _, err := websocket.Dial(ctx, strings.Replace(f.base, "http", "ws", 1), &websocket.DialOptions{
				Host: "a.test", HTTPClient: f.client(1),
			})
			if err != nil {
				t.Errorf("client: %v", err)
			}
			dialed <- c
		}()
		f.parked()
		if len(dialed) != 0 {
			t.Error("the handshake is over although the actor sleeps")
		}
		f.wake("a")
		c := receive(t, dialed, "the handshake is over")
		if c == nil {
			return
		}
		for i := range 3 {
			text := fmt.Sprint(i)
			if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
				t.Fatal(err)
			}
			if _, got, err := c.Read(ctx); err != nil || string(got) != "echo "+text {
				t.Fatalf("read %q, %v, want echo %s", got, err, text)
			}
		}
		if rec := f.record(); rec.Status != 101 || rec.Wake != router.WakeTriggered {
			t.Errorf("record = %+v, want status 101", rec)
		}
		if n := f.rides(); n != 1 {
			t.Errorf("%d rides while the tunnel is open, want 1", n)
		}
		c.Close(websocket.StatusNormalClosure, "")
		until(t, "the ride is done", func() bool { return f.rides() == 0 })
	}
}

// switcher is an actor that switches to whatever is asked for, and then echoes
// until the client's end of file.
func switcher(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
	w.WriteHeader(http.StatusSwitchingProtocols)
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	rw.Flush()
	io.Copy(c, rw)
	io.WriteString(c, "bye")
}

func TestR27_R48_AnyProtocolCanBeSwitchedToAndOutlivesTheBudget(t *testing.T) {
	for _, secure := range []bool{false, true} {
		f := newFixture(t, setup{tls: secure})
		f.actorH1("a", true, switcher)
		c := f.dial()
		c.send("GET / HTTP/1.1\nHost: a.test\nConnection: Upgrade\nUpgrade: SPDY/3.1\nOperation-Timeout: 300ms\n\n")
		resp := c.response("GET")
		if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "SPDY/3.1" {
			t.Fatalf("status %d, Upgrade %q, want 101 SPDY/3.1", resp.StatusCode, resp.Header.Get("Upgrade"))
		}
		<-time.After(400 * time.Millisecond) // the budget is over; the tunnel is not
		c.send("ping")
		got := make([]byte, 4)
		if _, err := io.ReadFull(c.r, got); err != nil || string(got) != "ping" {
			t.Fatalf("echo %q, %v, want ping", got, err)
		}
		// Half-closed: what is still under way from the actor arrives.
		c.Conn.(interface{ CloseWrite() error }).CloseWrite()
		if rest, err := io.ReadAll(c.r); err != nil || string(rest) != "bye" {
			t.Errorf("after the end of file: %q, %v, want bye", rest, err)
		}
		until(t, "the ride is done", func() bool { return f.rides() == 0 })
	}
}

func TestR48_BytesSentBehindTheUpgradeArrive(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, switcher)
	c := f.dial()
	c.send("GET / HTTP/1.1\nHost: a.test\nConnection: Upgrade\nUpgrade: x\n\nearly")
	f.parked()
	f.wake("a")
	if resp := c.response("GET"); resp.StatusCode != 101 {
		t.Fatalf("status %d, want 101", resp.StatusCode)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(c.r, got); err != nil || string(got) != "early" {
		t.Errorf("echo %q, %v, want early", got, err)
	}
}

func TestATunnelEndsWhenEitherSideLeaves(t *testing.T) {
	f := newFixture(t, setup{})
	ended := make(chan struct{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/actor-leaves" {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "x")
			w.WriteHeader(101)
			c, rw, _ := http.NewResponseController(w).Hijack()
			rw.Flush()
			c.Close()
			return
		}
		switcher(w, r)
		close(ended)
	})
	for _, path := range []string{"/client-leaves", "/actor-leaves"} {
		c := f.dial()
		c.send("GET %s HTTP/1.1\nHost: a.test\nConnection: Upgrade\nUpgrade: x\n\n", path)
		if resp := c.response("GET"); resp.StatusCode != 101 {
			t.Fatalf("status %d, want 101", resp.StatusCode)
		}
		if path == "/client-leaves" {
			c.reset()
			receive(t, ended, "the actor is told")
		} else if rest, err := io.ReadAll(c.r); err != nil || len(rest) != 0 {
			t.Errorf("after the actor left: %q, %v, want the end of file", rest, err)
		}
		if path == "/actor-leaves" {
			c.Close()
		}
		until(t, "the ride is done", func() bool { return f.rides() == 0 })
	}
}

func TestAnUpgradeThatTheActorMustNotHave(t *testing.T) {
	f := newFixture(t, setup{})
	heads := f.rawActor("a", true, "HTTP/1.1 200 OK\nContent-Length: 0\nConnection: close\n\n")
	c := f.dial()
	c.send("GET / HTTP/1.1\nHost: a.test\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__\n\n")
	c.response("GET")
	if head := receive(t, heads, "the actor has the request"); strings.Contains(head, "h2c") || strings.Contains(strings.ToLower(head), "settings") {
		t.Errorf("the actor is asked for h2c:\n%s", head)
	}

	f.rawActor("b", true, "HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: other\n\n")
	c = f.dial()
	c.send("GET / HTTP/1.1\nHost: b.test\nConnection: Upgrade\nUpgrade: x\n\n")
	if resp := c.response("GET"); resp.StatusCode != 502 {
		t.Errorf("an actor that switches to something else: status %d, want 502", resp.StatusCode)
	}
	c = f.dial()
	c.send("GET / HTTP/1.1\nHost: b.test\n\n")
	if resp := c.response("GET"); resp.StatusCode != 502 {
		t.Errorf("an actor that switches unasked: status %d, want 502", resp.StatusCode)
	}

	f.actorH2C("c", true, hello)
	c = f.dial()
	c.send("GET / HTTP/1.1\nHost: c.test\nConnection: Upgrade\nUpgrade: x\n\n")
	if resp := c.response("GET"); resp.StatusCode != 200 {
		t.Errorf("an actor on HTTP/2: status %d, want 200", resp.StatusCode)
	}
}

// grpcActor adds an actor with a gRPC service without generated code: Echo,
// Count (server stream), Sum (both ways).
func (f *fixture) grpcActor(name string, awake bool) {
	l := listen(f.t)
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Test",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			if in.Value == "fail" {
				return nil, status.Error(codes.FailedPrecondition, "told to: 100 % ü")
			}
			if _, ok := ctx.Deadline(); !ok {
				return nil, status.Error(codes.Internal, "no deadline arrived")
			}
			grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "yes"))
			return in, nil
		}}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Count", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
				in := new(wrapperspb.Int64Value)
				if err := s.RecvMsg(in); err != nil {
					return err
				}
				for i := range in.Value {
					if err := s.SendMsg(wrapperspb.Int64(i)); err != nil {
						return err
					}
				}
				return status.Error(codes.OutOfRange, "counted")
			}},
			{StreamName: "Sum", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
				var sum int64
				for in := new(wrapperspb.Int64Value); ; {
					if err := s.RecvMsg(in); err != nil {
						if err == io.EOF {
							return nil
						}
						return err
					}
					sum += in.Value
					if err := s.SendMsg(wrapperspb.Int64(sum)); err != nil {
						return err
					}
				}
			}},
		},
	}, nil)
	go s.Serve(l)
	f.t.Cleanup(s.Stop)
	f.add(name, router.ProtocolH2C, l.Addr().String(), awake)
}

func (f *fixture) grpcClient(actor string) *grpc.ClientConn {
	c, err := grpc.NewClient("passthrough:///"+f.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(actor+".test"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

func TestR45_R46_GRPCSurvivesAColdStart(t *testing.T) {
	f := newFixture(t, setup{})
	f.grpcActor("a", false)
	client := f.grpcClient("a")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	// A stream that begins while the actor sleeps, with messages under way.
	stream, err := client.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Test/Sum")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := stream.SendMsg(wrapperspb.Int64(1)); err != nil {
			t.Fatal(err)
		}
	}
	f.parked()
	f.wake("a")
	for want := int64(1); want <= 4; want++ {
		if want > 2 {
			stream.SendMsg(wrapperspb.Int64(1))
		}
		got := new(wrapperspb.Int64Value)
		if err := stream.RecvMsg(got); err != nil || got.Value != want {
			t.Fatalf("sum = %v, %v, want %d", got, err, want)
		}
	}
	stream.CloseSend()
	if err := stream.RecvMsg(new(wrapperspb.Int64Value)); err != io.EOF {
		t.Errorf("the stream ends with %v, want its end", err)
	}

	var trailer metadata.MD
	out := new(wrapperspb.StringValue)
	if err := client.Invoke(ctx, "/test.Test/Echo", wrapperspb.String("hi"), out, grpc.Trailer(&trailer)); err != nil || out.Value != "hi" {
		t.Errorf("Echo = %q, %v, want hi", out.Value, err)
	}
	if got := trailer.Get("x-trailer"); len(got) != 1 {
		t.Errorf("trailer = %v, want x-trailer", trailer)
	}

	counting, err := client.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test.Test/Count")
	if err != nil {
		t.Fatal(err)
	}
	counting.SendMsg(wrapperspb.Int64(1000))
	counting.CloseSend()
	n := 0
	for err = nil; err == nil; n++ {
		err = counting.RecvMsg(new(wrapperspb.Int64Value))
	}
	if n != 1001 || status.Code(err) != codes.OutOfRange {
		t.Errorf("Count ended after %d messages with %v, want 1000 and OutOfRange", n-1, err)
	}
}

func TestR46_GRPCErrorsSurvive(t *testing.T) {
	f := newFixture(t, setup{})
	f.grpcActor("a", true)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err := f.grpcClient("a").Invoke(ctx, "/test.Test/Echo", wrapperspb.String("fail"), new(emptypb.Empty))
	if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != "told to: 100 % ü" {
		t.Errorf("the actor's trailers-only error arrives as %v", err)
	}
	err = f.grpcClient("nobody").Invoke(ctx, "/test.Test/Echo", wrapperspb.String(""), new(emptypb.Empty))
	if s := status.Convert(err); s.Code() == codes.OK || s.Code() == codes.Unknown || s.Code() == codes.Internal {
		t.Errorf("our refusal arrives as %v, want a code of its own", err)
	}
}
