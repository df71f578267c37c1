package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"layover/e2e/actor"
)

// An actor that dies in the middle of a body has answered: its client gets the header and what came of the body, and sees that
// the rest is missing. Without a byte it would take the request for one that was never worked on, and send it again.
func TestACutOffAnswerIsSeenToBeCutOff(t *testing.T) {
	s := serveActors(t, "")
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(conn, "GET /cut HTTP/1.1\r\nHost: x\r\nX-To: h1-cut\r\n\r\n")
	got, _ := io.ReadAll(conn)
	if !strings.HasPrefix(string(got), "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(string(got), "\r\n\r\n"+actor.CutBody) {
		t.Errorf("got %q, want the header and %q", got, actor.CutBody)
	}
}

// Both sides of the stream wait for each other when the actor dies: the actor for a message, the client for an answer.
func TestAStreamEndsWithItsActor(t *testing.T) {
	s := serveActors(t, "")
	conn, err := grpc.NewClient("passthrough:///"+s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	chat, err := conn.NewStream(metadata.AppendToOutgoingContext(short(t), "x-to", "grpc-killed"), &actor.ChatDesc, actor.Chat)
	if err != nil {
		t.Fatal(err)
	}
	in := new(wrapperspb.StringValue)
	if err := chat.SendMsg(wrapperspb.String("hello")); err != nil {
		t.Fatal(err)
	}
	if err := chat.RecvMsg(in); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, a := range s.status(t).Actors {
		if a.Name == "grpc-killed" {
			syscall.Kill(a.PID, syscall.SIGKILL)
		}
	}
	err = chat.RecvMsg(in)
	if took := time.Since(began); err == nil || took > 10*time.Second {
		t.Errorf("%v after its actor was killed the stream ended with: %v", took, err)
	}
}

// net/http keeps a HTTP/2 connection that broke with a stream on it for its idle time-out, and with it what was received of
// a request's body.
func TestR20_UploadsOfClientsThatVanishAreForgotten(t *testing.T) {
	const uploads = 200
	s := serveActors(t, "")
	heap := func() (bytesUsed int) {
		for range 3 { // pools are emptied by the second collection
			text := s.adminGet(t, "/debug/pprof/heap?gc=1&debug=1")
			_, rest, _ := bytes.Cut(text, []byte("# HeapAlloc = "))
			fmt.Sscan(string(rest), &bytesUsed)
		}
		return bytesUsed
	}
	body := repeat("much", 1<<17)
	before := heap()
	ctx, vanish := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range uploads {
		c := newH2Client()
		c.Transport.(*http.Transport).DialContext = func(_ context.Context, network, addr string) (net.Conn, error) {
			conn, err := net.Dial(network, addr)
			if err == nil {
				conn.(*net.TCPConn).SetLinger(0)
				context.AfterFunc(ctx, func() { conn.Close() })
			}
			return conn, err
		}
		wg.Go(func() { c.send(t.Context(), s, "never-upload", "/upload", body) })
	}
	until(t, "the uploads are parked", func() bool { return s.status(t).Lot.Active == uploads })
	vanish()
	wg.Wait()
	until(t, "the spots are free", func() bool { return s.status(t).Lot.Active == 0 })
	var each int
	defer func() {
		t.Logf("%d KiB stay of each of %d parked uploads whose connection was reset", each>>10, uploads)
	}()
	until(t, "of each upload whose connection was reset 48 KiB stay at most", func() bool { // far sooner than an idle time-out
		each = (heap() - before) / uploads
		return each <= 48<<10
	})
}
