// Package controlplane is a server that behaves like agent-substrate's control
// plane towards a router: worker pools with labels, actors that take a worker
// and a time to resume, every status code, delays, hangs and restarts. It is
// for tests and demonstrations; nothing runs on its workers.
//
//	s := controlplane.New()
//	s.AddPool(controlplane.Pool{Name: "default", IPs: []string{"10.0.0.1"}})
//	s.AddActor(controlplane.Actor{Name: "demo/alice", Resume: 200 * time.Millisecond})
//	addr, err := s.Start("127.0.0.1:0") // or "": in memory only, see Dial
//	defer s.Stop()
//
// All methods may be called from any goroutine, also in a synctest bubble if
// the server is used in memory.
package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/test/bufconn"

	"layover/internal/substrate/ateapi"
)

// Server is the control plane. Its fields are set before Start.
type Server struct {
	ateapi.UnimplementedControlServer

	// TLS secures its listeners. Default: in the clear.
	TLS *tls.Config
	// Token is the bearer token that callers must have; others are answered
	// Unauthenticated. Default: none is asked for.
	Token string

	mu       sync.Mutex
	pools    []*pool
	actors   map[string]*actor
	faults   []*Fault
	calls    []Call
	counts   map[string]int // by method
	stranded int
	run      *running // nil while stopped
}

// running is what one Start began.
type running struct {
	grpc   *grpc.Server
	memory *bufconn.Listener
	down   chan struct{} // closed at the begin of Stop
	all    sync.WaitGroup
}

// New returns a control plane without workers and actors, stopped.
func New() *Server {
	return &Server{actors: make(map[string]*actor), counts: make(map[string]int)}
}

// Start begins to serve, in memory and, if addr is not empty, at that TCP
// address, whose port may be 0; it returns the address in use. A server that
// was stopped can be started again and has kept its state.
func (s *Server) Start(addr string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return "", errors.New("controlplane: started already")
	}
	var listener net.Listener
	if addr != "" {
		var err error
		if listener, err = net.Listen("tcp", addr); err != nil {
			return "", fmt.Errorf("controlplane: %w", err)
		}
		addr = listener.Addr().String()
	}
	var options []grpc.ServerOption
	if s.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.TLS)))
	}
	run := &running{grpc: grpc.NewServer(options...), memory: bufconn.Listen(64 << 10), down: make(chan struct{})}
	ateapi.RegisterControlServer(run.grpc, s)
	run.all.Go(func() { run.grpc.Serve(run.memory) }) // both return when Stop stops it
	if listener != nil {
		run.all.Go(func() { run.grpc.Serve(listener) })
	}
	s.run = run
	return addr, nil
}

// Stop breaks every connection and call off, as a crash does. Resumes under way
// are undone: their actors are suspended and their workers free. Calling it
// again is a no-op.
func (s *Server) Stop() {
	s.mu.Lock()
	run := s.run
	s.run = nil
	if run != nil {
		close(run.down)
	}
	s.mu.Unlock()
	if run != nil {
		run.grpc.Stop()
		run.all.Wait()
	}
}

// Dial connects in memory, for grpc.WithContextDialer; the address is ignored.
func (s *Server) Dial(ctx context.Context, _ string) (net.Conn, error) {
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	if run == nil {
		return nil, errors.New("controlplane: it is stopped")
	}
	return run.memory.DialContext(ctx)
}

// Call is one call that has its answer.
type Call struct {
	Method  string // "ResumeActor" or "GetActor"
	Actor   string
	At      time.Time // arrival
	Took    time.Duration
	Resumed bool  // the call resumed the actor
	Err     error // a gRPC status; nil: OK
}

// rememberedCalls bounds the log of a server that runs for long.
const rememberedCalls = 100_000

// Calls returns the last 100,000 calls in the order of their answers.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// Count returns how many calls of method, "ResumeActor" or "GetActor", have
// arrived.
func (s *Server) Count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[method]
}

func (s *Server) arrived(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[method]++
}

func (s *Server) answered(c Call) {
	c.Took = time.Since(c.At)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == rememberedCalls {
		s.calls = append(s.calls[:0], s.calls[rememberedCalls/2:]...)
	}
	s.calls = append(s.calls, c)
}
