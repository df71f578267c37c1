package controlplane_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"layover/internal/substrate/ateapi"
	"layover/internal/substrate/controlplane"
)

func newServer() *controlplane.Server {
	s := controlplane.New()
	s.AddPool(controlplane.Pool{Name: "gpu", Labels: map[string]string{"kind": "gpu"}, IPs: []string{"10.0.0.1"}})
	s.AddActor(
		controlplane.Actor{Name: "demo/a", Resume: time.Second},
		controlplane.Actor{Name: "demo/b", Selector: map[string]string{"kind": "cpu"}},
		controlplane.Actor{Name: "demo/c"},
	)
	return s
}

// dial connects a client to s in memory; the connection closes with the test.
func dial(t *testing.T, s *controlplane.Server) ateapi.ControlClient {
	t.Helper()
	if _, err := s.Start(""); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///memory",
		grpc.WithContextDialer(s.Dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
	})
	return ateapi.NewControlClient(conn)
}

func resume(ctx context.Context, c ateapi.ControlClient, name string) (*ateapi.ResumeActorResponse, error) {
	return c.ResumeActor(ctx, &ateapi.ResumeActorRequest{Actor: &ateapi.ObjectRef{Atespace: "demo", Name: name}})
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("the answer is %v (%v), want %v", got, err, want)
	}
}

func TestAResumeTakesAWorkerAndItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := dial(t, s)
		start := time.Now()
		resp, err := resume(t.Context(), c, "a")
		if err != nil || !resp.Resumed || resp.Actor.Status.WorkerAssignment.WorkerPodIp != "10.0.0.1" {
			t.Fatalf("ResumeActor = %v, %v", resp, err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("it took %v, want 1s", took)
		}
		again, err := resume(t.Context(), c, "a")
		if err != nil || again.Resumed || again.Actor.Metadata.Version != resp.Actor.Metadata.Version {
			t.Errorf("ResumeActor of a running actor = %v, %v", again, err)
		}
		_, err = resume(t.Context(), c, "c")
		wantCode(t, err, codes.ResourceExhausted)
		s.Suspend("demo/a")
		if _, err := resume(t.Context(), c, "c"); err != nil {
			t.Errorf("with the worker free: %v", err)
		}
	})
}

func TestEachStateHasItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := dial(t, s)
		for state, want := range map[ateapi.ActorState]codes.Code{
			ateapi.ActorState_ACTOR_STATE_RESUMING:   codes.Aborted,
			ateapi.ActorState_ACTOR_STATE_SUSPENDING: codes.FailedPrecondition,
			ateapi.ActorState_ACTOR_STATE_CRASHED:    codes.FailedPrecondition,
		} {
			s.SetState("demo/a", state)
			_, err := resume(t.Context(), c, "a")
			wantCode(t, err, want)
		}
		_, err := resume(t.Context(), c, "b") // no pool has such workers
		wantCode(t, err, codes.ResourceExhausted)
		_, err = resume(t.Context(), c, "nobody")
		wantCode(t, err, codes.NotFound)
	})
}

func TestAResumeThatIsCutOffStrandsItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := dial(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := resume(ctx, c, "a")
		wantCode(t, err, codes.DeadlineExceeded)
		synctest.Wait()
		if s.Stranded() != 1 || s.State("demo/a") != ateapi.ActorState_ACTOR_STATE_RESUMING {
			t.Errorf("%d are stranded, the actor is %v", s.Stranded(), s.State("demo/a"))
		}
		_, err = resume(t.Context(), c, "c")
		wantCode(t, err, codes.ResourceExhausted)
	})
}

func TestARestartBreaksCallsOffAndKeepsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := dial(t, s)
		broken := make(chan error)
		go func() {
			_, err := resume(t.Context(), c, "a")
			broken <- err
		}()
		time.Sleep(500 * time.Millisecond)
		s.Stop()
		wantCode(t, <-broken, codes.Unavailable)
		_, err := resume(t.Context(), c, "c")
		wantCode(t, err, codes.Unavailable)
		if _, err := s.Start(""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // gRPC's own back-off
		if _, err := resume(t.Context(), c, "c"); err != nil || s.Stranded() != 0 {
			t.Errorf("after the restart: %v, and %d are stranded", err, s.Stranded())
		}
	})
}

func TestFaultsAreServedInTheirOrderAndNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := dial(t, s)
		s.Inject(
			controlplane.Fault{Actor: "demo/c", Code: codes.Internal, Message: "first", Times: 2},
			controlplane.Fault{Method: "ResumeActor", Delay: time.Second, Reply: func(r *ateapi.ResumeActorResponse) {
				r.Actor.Status.WorkerAssignment = nil
			}},
		)
		for range 2 {
			_, err := resume(t.Context(), c, "c")
			wantCode(t, err, codes.Internal)
		}
		start := time.Now()
		resp, err := resume(t.Context(), c, "c")
		if err != nil || resp.Actor.Status.WorkerAssignment != nil || time.Since(start) != time.Second {
			t.Errorf("ResumeActor = %v, %v after %v", resp, err, time.Since(start))
		}
		if n := len(s.Calls()); n != 3 || s.Count("ResumeActor") != 3 {
			t.Errorf("%d calls are logged, %d counted, want 3", n, s.Count("ResumeActor"))
		}
	})
}

func TestUnknownFieldsAndStrangersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := dial(t, s)
		req := &ateapi.ResumeActorRequest{Actor: &ateapi.ObjectRef{Atespace: "demo", Name: "a"}}
		req.Actor.ProtoReflect().SetUnknown([]byte{0x7a, 0}) // field 15, empty
		_, err := c.ResumeActor(t.Context(), req)
		wantCode(t, err, codes.InvalidArgument)
		guarded := newServer()
		guarded.Token = "secret"
		_, err = resume(t.Context(), dial(t, guarded), "a")
		wantCode(t, err, codes.Unauthenticated)
	})
}
