package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"layover/e2e/actor"
)

var noVerify = &tls.Config{InsecureSkipVerify: true}

func TestR45_R46_GRPCWakesActors(t *testing.T) {
	clear, encrypted := serveActors(t, ""), serveActors(t, tlsSettings(t))
	t.Run("clear", func(t *testing.T) { grpcCalls(t, clear, insecure.NewCredentials()) })
	t.Run("tls", func(t *testing.T) { grpcCalls(t, encrypted, credentials.NewTLS(noVerify)) })
}

func grpcCalls(t *testing.T, s *server, creds credentials.TransportCredentials) {
	conn, err := grpc.NewClient("passthrough:///"+s.addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	to := func(name string) context.Context { return metadata.AppendToOutgoingContext(short(t), "x-to", name) }
	wantTrailer := func(name string, trailer metadata.MD) {
		t.Helper()
		if got := trailer.Get(actor.Trailer); !slices.Equal(got, []string{"the end of " + name}) {
			t.Errorf("the trailer of %s is %q", name, got)
		}
	}

	out := new(wrapperspb.StringValue)
	var trailer metadata.MD
	began := time.Now()
	if err := conn.Invoke(to("grpc-unary"), actor.Echo, wrapperspb.String("hello"), out, grpc.Trailer(&trailer)); err != nil || out.Value != "hello" {
		t.Errorf("unary: %q, %v", out.Value, err)
	}
	if took := time.Since(began); took < coldStart {
		t.Errorf("the unary call took %v: the actor was not asleep", took)
	}
	wantTrailer("grpc-unary", trailer)

	err = conn.Invoke(to("grpc-error"), actor.Echo, wrapperspb.String("fail"), out, grpc.Trailer(&trailer))
	if got := status.Convert(err); got.Code() != codes.ResourceExhausted || got.Message() != "told to fail: 100 %" {
		t.Errorf("an actor's own error arrives as %v", err)
	}
	wantTrailer("grpc-error", trailer)

	stream, err := conn.NewStream(to("grpc-count"), &actor.CountDesc, actor.Count)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(wrapperspb.String("abc")), stream.CloseSend()); err != nil {
		t.Error(err)
	}
	if got := received(t, stream); got != "a b c" {
		t.Errorf("the server's stream brought %q", got)
	}
	wantTrailer("grpc-count", stream.Trailer())

	chat, err := conn.NewStream(to("grpc-chat"), &actor.ChatDesc, actor.Chat)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"one", "two", "three"} { // each is answered before the next is sent
		if err := chat.SendMsg(wrapperspb.String(word)); err != nil {
			t.Fatal(err)
		}
		if err := chat.RecvMsg(out); err != nil || out.Value != word {
			t.Fatalf("sent %q, received %q, %v", word, out.Value, err)
		}
	}
	chat.CloseSend()
	if got := received(t, chat); got != "" {
		t.Errorf("after the end of the chat came %q", got)
	}
	wantTrailer("grpc-chat", chat.Trailer())

	began = time.Now()
	ctx, cancel := context.WithTimeout(to("never-deadline"), 500*time.Millisecond)
	defer cancel()
	if err := conn.Invoke(ctx, actor.Echo, wrapperspb.String("hello"), out); status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Unavailable {
		t.Errorf("a call with too little time ended with %v", err)
	}
	if took := time.Since(began); took < 400*time.Millisecond || took > 5*time.Second {
		t.Errorf("a call with 500 ms took %v", took)
	}
	err = conn.Invoke(to("failing-grpc"), actor.Echo, wrapperspb.String("hello"), out)
	if got := status.Convert(err); got.Code() != codes.Unavailable || !strings.HasPrefix(got.Message(), "start_failed") {
		t.Errorf("a call to an actor that does not start ended with %v", err)
	}
	err = conn.Invoke(to("nobody"), actor.Echo, wrapperspb.String("hello"), out)
	if got := status.Convert(err); got.Code() != codes.NotFound || !strings.HasPrefix(got.Message(), "unknown_actor") {
		t.Errorf("a call to nobody ended with %v", err)
	}
}

// received is all that is left on a stream, which must end well.
func received(t *testing.T, stream grpc.ClientStream) string {
	t.Helper()
	var all []string
	for {
		in := new(wrapperspb.StringValue)
		switch err := stream.RecvMsg(in); err {
		case nil:
			all = append(all, in.Value)
		case io.EOF:
			return strings.Join(all, " ")
		default:
			t.Fatal(err)
		}
	}
}

func TestR47_WebSocketsWakeActors(t *testing.T) {
	clear, encrypted := serveActors(t, ""), serveActors(t, tlsSettings(t))
	for _, url := range []string{"ws://" + clear.addr + "/socket", "wss://" + encrypted.addr + "/socket"} {
		began := time.Now()
		conn, _, err := websocket.Dial(short(t), url, &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: noVerify}},
			HTTPHeader: http.Header{"X-To": {"h1-socket"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		if took := time.Since(began); took < coldStart { // R47: 101 only when there is somebody
			t.Errorf("the handshake took %v: the actor was not asleep", took)
		}
		for _, want := range []string{"one", "two", string(repeat("long", 5000))} {
			if err := conn.Write(short(t), websocket.MessageText, []byte(want)); err != nil {
				t.Fatal(err)
			}
			if _, got, err := conn.Read(short(t)); err != nil || string(got) != want {
				t.Fatalf("sent %d bytes, received %d, %v", len(want), len(got), err)
			}
		}
		if err := conn.Close(websocket.StatusNormalClosure, "done"); err != nil {
			t.Errorf("%s does not close: %v", url, err)
		}
	}
	_, resp, err := websocket.Dial(short(t), "ws://"+clear.addr+"/socket", &websocket.DialOptions{HTTPHeader: http.Header{"X-To": {"failing-socket"}}})
	if err == nil || resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Layover-Reason") != "start_failed" {
		t.Errorf("a handshake with an actor that does not start: %v, %+v", err, resp)
	}
}

// h2client is a client with one HTTP/2 connection.
type h2client struct {
	http.Client
	dials atomic.Int32
}

func newH2Client() *h2client {
	c := new(h2client)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	c.Transport = &http.Transport{Protocols: &protocols, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	return c
}

func (c *h2client) send(ctx context.Context, s *server, to, path string, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+path, strings.NewReader(string(body)))
	if err != nil {
		return "", err
	}
	req.Header.Set("X-To", to)
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return string(answer), err
}

// The requests of two clients take turns, so that what slows the machine slows both.
func TestParkedUploadsDoNotSlowTheirConnection(t *testing.T) {
	const uploads, turns = 200, 300
	s := serveActors(t, "")
	crowded, free := newH2Client(), newH2Client()
	body := repeat("some", 4<<10)
	exchange := func(c *h2client) time.Duration {
		began := time.Now()
		if got, err := c.send(short(t), s, "h2c-awake", "/upload", body); err != nil || got != actor.Sum(body) {
			t.Fatalf("got %q, %v", got, err)
		}
		return time.Since(began)
	}
	exchange(crowded)
	exchange(free)

	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan struct{}, uploads)
	large := repeat("much", 1<<18)
	for range uploads {
		go func() {
			crowded.send(ctx, s, "never-upload", "/upload", large)
			ended <- struct{}{}
		}()
	}
	until(t, "the uploads are parked", func() bool { return s.status(t).Lot.Active == uploads })
	var slow, fast []time.Duration
	for range turns {
		slow, fast = append(slow, exchange(crowded)), append(fast, exchange(free))
	}
	leave()
	for range uploads {
		<-ended
	}
	until(t, "the spots are free", func() bool { return s.status(t).Lot.Active == 0 })

	slices.Sort(slow)
	slices.Sort(fast)
	ratio := slow[turns/2].Seconds() / fast[turns/2].Seconds()
	t.Logf("%d uploads of 1 MiB parked on a connection; median of 16 KiB uploads to an awake actor on it %v, on another one %v: %.2f times",
		uploads, slow[turns/2], fast[turns/2], ratio)
	if ratio > 2 {
		t.Errorf("parked uploads make requests on the same connection %.2f times as slow, want at most 2", ratio)
	}
	if n := crowded.dials.Load(); n != 1 {
		t.Errorf("the crowded client used %d connections, want one", n)
	}
}
