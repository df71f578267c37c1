package extproc_test

import (
	"context"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"

	"layover/internal/router"
)

// BenchmarkAwake is what a request to an awake actor costs: "process" is this
// package and the router, "grpc" has both ends of a gRPC stream in memory
// besides.
func BenchmarkAwake(b *testing.B) {
	for _, with := range []struct {
		name string
		more headers
	}{{"plain", nil}, {"deadline", headers{"operation-timeout", "30s"}}} {
		m := get(actorA, append(with.more,
			"accept", "*/*", "user-agent", "bench", "x-request-id", "1", "x-forwarded-for", "192.0.2.1", "x-forwarded-proto", "http")...).message()
		b.Run("process/"+with.name, func(b *testing.B) {
			x := benchRig(b)
			s := &oneRequest{m: m}
			b.ReportAllocs()
			for b.Loop() {
				s.sent, s.reply = false, nil
				if err := x.server.Process(s); err != nil || s.reply.GetRequestHeaders() == nil {
					b.Fatal(s.reply, err)
				}
			}
		})
		b.Run("grpc/"+with.name, func(b *testing.B) {
			x := benchRig(b)
			b.ReportAllocs()
			for b.Loop() {
				stream, err := x.client.Process(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				if err := stream.Send(m); err != nil {
					b.Fatal(err)
				}
				if reply, err := stream.Recv(); err != nil || reply.GetRequestHeaders() == nil {
					b.Fatal(reply, err)
				}
				stream.CloseSend()
				if _, err := stream.Recv(); err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchRig(b *testing.B) *rig {
	x := newRig(b, setup{route: router.Route{Budget: time.Minute, MaxBudget: time.Minute}})
	x.plane.Start = nil
	awake, err := x.router.Route(context.Background(), router.Ask{Actor: actorA})
	if err != nil {
		b.Fatal(err)
	}
	awake.Done()
	return x
}

// oneRequest is a stream with one message, without a transport.
type oneRequest struct {
	grpc.ServerStream
	m     *extprocv3.ProcessingRequest
	sent  bool
	reply *extprocv3.ProcessingResponse
}

func (s *oneRequest) Context() context.Context { return context.Background() }

func (s *oneRequest) Recv() (*extprocv3.ProcessingRequest, error) {
	if s.sent {
		return nil, io.EOF
	}
	s.sent = true
	return s.m, nil
}

func (s *oneRequest) Send(m *extprocv3.ProcessingResponse) error {
	s.reply = m
	return nil
}

// BenchmarkParked is what a parked request keeps here, without its gRPC stream:
// two goroutines, its headers, its place in the flight.
func BenchmarkParked(b *testing.B) {
	const requests = 2000
	m := get(actorA, "accept", "*/*", "user-agent", "bench", "x-request-id", "1", "x-forwarded-for", "192.0.2.1", "x-forwarded-proto", "http").message()
	for b.Loop() {
		x := newRig(b, setup{lot: requests, route: router.Route{Budget: time.Minute, MaxBudget: time.Minute}})
		x.plane.Start = nil
		other, err := x.router.Route(context.Background(), router.Ask{Actor: actorB}) // has the only worker
		if err != nil {
			b.Fatal(err)
		}
		before := inUse()
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for range requests {
			all.Go(func() { x.server.Process(&silent{oneRequest{m: m}, ctx, false}) })
		}
		for x.router.Lot().Snapshot().Active < requests {
			runtime.Gosched()
		}
		b.ReportMetric(float64(inUse()-before)/requests, "B/request")
		cancel()
		all.Wait()
		other.Done()
	}
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// silent is a stream whose client says nothing after its headers.
type silent struct {
	oneRequest
	ctx  context.Context
	sent bool
}

func (s *silent) Context() context.Context { return s.ctx }

func (s *silent) Recv() (*extprocv3.ProcessingRequest, error) {
	if !s.sent {
		s.sent = true
		return s.m, nil
	}
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}
