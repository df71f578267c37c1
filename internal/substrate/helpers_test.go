package substrate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"

	"layover/budget"
	"layover/internal/router"
	"layover/internal/substrate"
	"layover/internal/substrate/ateapi"
	"layover/internal/substrate/controlplane"
	"layover/parking"
	"layover/turnstile"
)

// newServer returns a control plane with one pool of the given number of
// workers, and actors demo/a, demo/b ... that take resume to be resumed.
func newServer(workers, actors int, resume time.Duration) *controlplane.Server {
	s := controlplane.New()
	s.AddPool(controlplane.Pool{Name: "default", IPs: addresses(1, workers)})
	for i := range actors {
		s.AddActor(controlplane.Actor{Name: name(i), Resume: resume})
	}
	return s
}

func addresses(from, n int) (ips []string) {
	for i := range n {
		ips = append(ips, fmt.Sprintf("10.0.%d.%d", from, i+1))
	}
	return ips
}

// name returns demo/a, demo/b ... demo/z, demo/a1 ...
func name(i int) string {
	if i < 26 {
		return "demo/" + string(rune('a'+i))
	}
	return fmt.Sprintf("demo/%c%d", 'a'+i%26, i/26)
}

// newPlane starts s in memory and returns a plane over it; both end with the
// test.
func newPlane(t *testing.T, s *controlplane.Server, o substrate.Options) *substrate.Plane {
	t.Helper()
	if _, err := s.Start(""); err != nil {
		t.Fatal(err)
	}
	conn, err := substrate.Dial("passthrough:///memory", substrate.Access{Insecure: true},
		grpc.WithContextDialer(s.Dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
	})
	p, err := substrate.New(ateapi.NewControlClient(conn), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// request is one request on its way.
type request struct {
	cancel context.CancelFunc
	done   chan struct{}
	ride   *router.Ride
	err    error
	took   time.Duration
	ledger budget.Ledger
}

// send sends a request of the given band and budget.
func send(r *router.Router, actor string, band int, d time.Duration) *request {
	ctx, cancel := budget.For(context.Background(), d)
	ctx = turnstile.Begin(ctx, band)
	q := &request{cancel: cancel, done: make(chan struct{})}
	start := time.Now()
	go func() {
		defer close(q.done)
		defer cancel()
		q.ride, q.err = r.Route(ctx, router.Ask{Actor: actor})
		q.took = time.Since(start)
		q.ledger = budget.From(ctx).Ledger()
	}()
	return q
}

// mustServe waits for the request's ride and ends it.
func (q *request) mustServe(t *testing.T) *router.Ride {
	t.Helper()
	<-q.done
	if q.err != nil {
		t.Fatalf("Route = %v after %v, want a ride", q.err, q.took)
	}
	q.ride.Done()
	return q.ride
}

// mustRefuse waits for the request's refusal.
func (q *request) mustRefuse(t *testing.T, reason router.Reason) *router.Error {
	t.Helper()
	<-q.done
	e, ok := errors.AsType[*router.Error](q.err)
	if !ok || e.Reason != reason {
		t.Fatalf("Route = %v, %v after %v, want reason %q", q.ride, q.err, q.took, reason)
	}
	return e
}

func mustTake(t *testing.T, q *request, want time.Duration) {
	t.Helper()
	if q.took != want {
		t.Errorf("it took %v, want %v", q.took, want)
	}
}

func newRouter(p *substrate.Plane, spots int) *router.Router {
	return router.New(p, parking.NewLot(spots), router.Options{})
}
