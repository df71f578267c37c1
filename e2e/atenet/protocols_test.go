package atenet

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"hash/crc32"
	"io"
	"net"
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
	"google.golang.org/protobuf/types/known/wrapperspb"

	"layover/e2e/actor"
	"layover/e2e/certificate"
	"layover/e2e/cluster"
)

func TestAWebSocketWakesItsActorAndOutlivesTheRouteTimeout(t *testing.T) {
	c := start(t, 1, 200*time.Millisecond, "--route-timeout=500ms")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req := c.Request("GET", "demo/a", "/socket", nil)
	conn, _, err := websocket.Dial(ctx, "ws://"+c.Addr+"/socket", &websocket.DialOptions{Host: req.Host})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	for i := range 3 {
		sent := fmt.Sprint("message ", i)
		if err := conn.Write(ctx, websocket.MessageText, []byte(sent)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := conn.Read(ctx); err != nil || string(got) != sent {
			t.Fatalf("message %d comes back as %q, %v", i, got, err)
		}
		<-time.After(300 * time.Millisecond)
	}
}

// dialGRPC returns a connection to an actor and a context for its calls.
func dialGRPC(t *testing.T, c *cluster.Cluster, name string) (context.Context, *grpc.ClientConn) {
	t.Helper()
	conn, err := grpc.NewClient(c.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority(c.Request("GET", name, "/", nil).Host), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx, conn
}

func TestAGRPCCallWakesItsActorAndHasItsTrailers(t *testing.T) {
	c := start(t, 1, 200*time.Millisecond)
	ctx, conn := dialGRPC(t, c, "demo/a")
	var header, trailer metadata.MD
	out := new(wrapperspb.StringValue)
	if err := conn.Invoke(ctx, actor.Echo, wrapperspb.String("hello"), out, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	if out.Value != "hello" || strings.Join(trailer.Get(actor.Trailer), "") != "the end of "+cluster.IP(0) {
		t.Errorf("Echo = %q with trailer %v", out.Value, trailer)
	}
	err := conn.Invoke(ctx, actor.Echo, wrapperspb.String("fail"), out)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the actor's own failure is %v", err)
	}
	stream, err := conn.NewStream(ctx, &actor.ChatDesc, actor.Chat)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if err := stream.SendMsg(wrapperspb.String(text)); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(out); err != nil || out.Value != text {
			t.Fatalf("Chat answers %q, %v, want %q", out.Value, err, text)
		}
	}
	stream.CloseSend()
	if err := stream.RecvMsg(out); err != io.EOF {
		t.Errorf("the stream ends with %v", err)
	}
}

func TestAGRPCCallerIsRefusedWithAGRPCStatus(t *testing.T) {
	c := start(t, 1, 0, "--parked-request-budget=300ms")
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	ctx, conn := dialGRPC(t, c, "demo/b")
	err := conn.Invoke(ctx, actor.Echo, wrapperspb.String("hello"), new(wrapperspb.StringValue))
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no_worker") {
		t.Errorf("the call is answered %v, want Unavailable with no_worker", err)
	}
	ctx, conn = dialGRPC(t, c, "demo/nobody")
	if err := conn.Invoke(ctx, actor.Echo, wrapperspb.String("hello"), new(wrapperspb.StringValue)); status.Code(err) != codes.NotFound {
		t.Errorf("the call is answered %v, want NotFound", err)
	}
}

// zeros is a body of n bytes that notes its checksum.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	clear(p[:n])
	z.left -= n
	return int(n), nil
}

// Rule G9, through Envoy: an upload that begins while its actor sleeps arrives
// whole, once.
func TestG9_AnUploadOf100MBDuringAColdStartArrivesWhole(t *testing.T) {
	const size = 100 << 20
	c := start(t, 1, time.Second, "--route-timeout=60s")
	sum := crc32.NewIEEE()
	io.Copy(sum, &zeros{left: size})
	want := fmt.Sprintf("%d %08x\n", size, sum.Sum32())
	for _, expect := range []string{"", "100-continue"} {
		c.Plane.Suspend("demo/a")
		req := c.Request("POST", "demo/a", "/upload", &zeros{left: size})
		req.ContentLength = size
		if expect != "" {
			req.Header.Set("Expect", expect)
		}
		a := mustServe(t, send(req), cluster.IP(0))
		if a.body != want {
			t.Errorf("Expect %q: the actor got %q, want %q", expect, a.body, want)
		}
	}
}

// The client is told to go on by the actor, not by Envoy while it is held.
func TestExpectContinueIsAnsweredWhenThereIsAnActor(t *testing.T) {
	c := start(t, 1, 700*time.Millisecond)
	conn, err := net.Dial("tcp", c.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	began := time.Now()
	fmt.Fprintf(conn, "POST /upload HTTP/1.1\r\nHost: %s\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", c.Request("GET", "demo/a", "/", nil).Host)
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if took := time.Since(began); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") || took < 700*time.Millisecond {
		t.Fatalf("the first line is %q, %v, after %v; want 100 once the actor runs", line, err, took)
	}
	for line != "\r\n" && err == nil { // it has the request's id, too
		line, err = r.ReadString('\n')
	}
	io.WriteString(conn, "hello")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != actor.Sum([]byte("hello")) {
		t.Errorf("the actor got %q", body)
	}
}

func TestAConnectIsATunnelToTheActorsPort(t *testing.T) {
	c := start(t, 1, 200*time.Millisecond)
	echo, err := net.Listen("tcp", net.JoinHostPort(cluster.IP(0), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() { // ends with the listener
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(echo.Addr().String())
	conn, err := net.Dial("tcp", c.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	target := net.JoinHostPort(c.Request("GET", "demo/a", "/", nil).Host, port)
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("CONNECT is answered %v, %v", resp, err)
	}
	io.WriteString(conn, "through the tunnel\n")
	if line, err := r.ReadString('\n'); err != nil || line != "through the tunnel\n" {
		t.Errorf("%q comes back, %v", line, err)
	}
}

func TestServerSentEventsPassOneByOneWithTheirTrailer(t *testing.T) {
	c := start(t, 1, 0)
	resp, err := http.DefaultClient.Do(c.Request("GET", "demo/a", "/events?n=3&ms=500", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r, began := bufio.NewReader(resp.Body), time.Now()
	if line, err := r.ReadString('\n'); err != nil || line != "data: 0\n" || time.Since(began) > 490*time.Millisecond { // else with the second
		t.Errorf("the first event is %q, %v, after %v", line, err, time.Since(began))
	}
	if _, err := io.Copy(io.Discard, r); err != nil || resp.Trailer.Get("X-Count") != "3" {
		t.Errorf("the trailer is %v, %v", resp.Trailer, err)
	}
}

// Some proxies and health checks still speak it to what is behind them.
func TestHTTP10WakesItsActor(t *testing.T) {
	c := start(t, 1, 0)
	req := c.Request("GET", "demo/a", "/", nil)
	conn, err := net.Dial("tcp", c.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.0\r\nHost: %s\r\n", req.Host)
	req.Header.Write(conn)
	io.WriteString(conn, "\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body) // to the end of the connection
	if err != nil || resp.StatusCode != http.StatusOK || len(body) == 0 || len(resp.TransferEncoding) > 0 {
		t.Errorf("the answer is %s %q, %v, in %v", resp.Status, body, err, resp.TransferEncoding)
	}
}

func TestHTTPSServesHTTP2ByALPN(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cert, key, err := certificate.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, 1, 100*time.Millisecond, "--tls-cert="+cert, "--tls-key="+key, "--https-address="+addr)
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	req := c.Request("GET", "demo/a", "/", nil)
	req.URL.Scheme, req.URL.Host = "https", addr
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || resp.Header.Get(actor.MarkHeader) != cluster.IP(0) {
		t.Errorf("the answer is %s %s of %q", resp.Proto, resp.Status, resp.Header.Get(actor.MarkHeader))
	}
}

// Whatever Envoy lets through of an authority, the router reads or refuses it:
// none of these ends at a port that nobody asked for.
func TestAConnectWithoutAPortThatCanBeIsRefused(t *testing.T) {
	c := start(t, 1, 0)
	host := c.Request("GET", "demo/a", "/", nil).Host
	ours := 0
	for _, authority := range []string{host + ":99999", host + ":65536", host + ":0", host + ":", host + ":-1", host + ":http", host + ":80:80",
		"user@" + host + ":80", "user:secret@" + host + ":80", host + "/x:80", ":80", "[" + host + "]:80"} {
		conn, err := net.Dial("tcp", c.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("CONNECT %s: %v", authority, err)
			continue
		}
		resp.Body.Close()
		reason := resp.Header.Get("Layover-Reason")
		if resp.StatusCode != http.StatusBadRequest || reason != "" && reason != "bad_host" {
			t.Errorf("CONNECT %s is answered %s %q, want 400, with bad_host if it is the router's", authority, resp.Status, reason)
		}
		if reason != "" {
			ours++
		}
	}
	t.Logf("the router refused %d, Envoy the others", ours)
	if ours == 0 || c.Plane.Count("ResumeActor") != 0 {
		t.Errorf("the router refused %d, and resumed an actor %d times; want some and 0", ours, c.Plane.Count("ResumeActor"))
	}
}
