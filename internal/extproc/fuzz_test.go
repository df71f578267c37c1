package extproc_test

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"layover/internal/extproc"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

// mustNotLog fails the test that something is logged in: panics are.
type mustNotLog struct {
	slog.Handler
	t *testing.T
}

func (h mustNotLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		h.t.Errorf("%s: %v", r.Message, a)
		return true
	})
	return nil
}

// messages is a stream of messages of any content.
type messages struct {
	grpc.ServerStream
	t    *testing.T
	left [][]byte
}

func (s *messages) Context() context.Context { return context.Background() }

func (s *messages) Recv() (*extprocv3.ProcessingRequest, error) {
	for len(s.left) > 0 {
		m := &extprocv3.ProcessingRequest{}
		err := proto.Unmarshal(s.left[0], m)
		s.left = s.left[1:]
		if err == nil {
			return m, nil
		}
	}
	return nil, io.EOF
}

func (s *messages) Send(m *extprocv3.ProcessingResponse) error {
	if _, err := proto.Marshal(m); err != nil {
		s.t.Errorf("cannot be sent: %v in %v", err, m)
	}
	if m.GetRequestHeaders() != nil {
		target := m.GetDynamicMetadata().GetFields()[extproc.TargetNamespace].GetStructValue().GetFields()[extproc.TargetAddress].GetStringValue()
		if _, err := netip.ParseAddrPort(target); err != nil {
			s.t.Errorf("let go without a target: %v", m)
		}
	}
	if r := m.GetImmediateResponse(); r != nil && (r.GetStatus().GetCode() < 200 || r.GetStatus().GetCode() > 599) {
		s.t.Errorf("response %v", r)
	}
	return nil
}

// FuzzProcess says that no message panics, that every answer can be sent, and
// that a request is let go only with an address.
func FuzzProcess(f *testing.F) {
	for _, h := range []headers{
		get(actorA), get(actorA, "grpc-timeout", "3S", "content-type", "application/grpc"), get("\xff", "accept", "text/html"),
		{":method", "CONNECT", ":authority", "x:1", "actor", actorA}, get(actorA, "upgrade", "websocket", "operation-deadline", "2999-01-01T00:00:00Z"),
	} {
		text, err := proto.Marshal(h.message())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, text)
	}
	for _, m := range unasked() {
		text, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte{})
	}
	r := router.New(planetest.NewScripted(2, actorA, actorB), parking.NewLot(parking.Unlimited), router.Options{})
	name := func(req *extproc.Request) (extproc.Name, error) {
		return extproc.Name{Actor: req.Header("actor"), Port: req.Port(), Route: router.Route{Budget: time.Minute, MaxBudget: time.Minute}}, nil
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := extproc.New(r, name, extproc.Options{ActorHeader: "actor", ResponseLimit: time.Minute,
			Log: slog.New(mustNotLog{slog.NewTextHandler(io.Discard, nil), t})})
		s.Process(&messages{t: t, left: [][]byte{first, second}})
		if got := s.Held(); got != 0 {
			t.Errorf("%d requests are held", got)
		}
	})
}
