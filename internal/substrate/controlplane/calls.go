package controlplane

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"layover/internal/substrate/ateapi"
)

// Fault is an exception from the rule, for the next calls that it matches.
// Faults are tried in the order in which they were injected.
type Fault struct {
	Method string // "ResumeActor", "GetActor"; empty: both
	Actor  string // atespace/name; empty: every one
	Times  int    // for how many calls; 0: one, negative: all

	Delay time.Duration // the call waits so long first
	Hang  bool          // the call is never answered
	// Code and Message are the answer. Default: OK, the call goes on.
	Code    codes.Code
	Message string
	// Reply changes what ResumeActor answers. Default: nothing does.
	Reply func(*ateapi.ResumeActorResponse)
}

// Inject adds faults.
func (s *Server) Inject(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		if f.Times == 0 {
			f.Times = 1
		}
		s.faults = append(s.faults, &f)
	}
}

// Mend takes back all faults.
func (s *Server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fault returns the fault of a call, the zero one if there is none.
func (s *Server) fault(method, actor string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Method != "" && f.Method != method || f.Actor != "" && f.Actor != actor {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = append(s.faults[:i], s.faults[i+1:]...)
			}
		}
		return *f
	}
	return Fault{}
}

// ResumeActor implements the API.
func (s *Server) ResumeActor(ctx context.Context, req *ateapi.ResumeActorRequest) (*ateapi.ResumeActorResponse, error) {
	const method = "ResumeActor"
	call := Call{Method: method, Actor: nameOf(req.GetActor()), At: time.Now()}
	s.arrived(method)
	resp, err := s.resume(ctx, call.Actor, req)
	call.Resumed, call.Err = resp.GetResumed(), err
	s.answered(call)
	return resp, err
}

// GetActor implements the API.
func (s *Server) GetActor(ctx context.Context, req *ateapi.GetActorRequest) (*ateapi.Actor, error) {
	const method = "GetActor"
	call := Call{Method: method, Actor: nameOf(req.GetActor()), At: time.Now()}
	s.arrived(method)
	resp, err := s.get(ctx, call.Actor, req)
	call.Err = err
	s.answered(call)
	return resp, err
}

func nameOf(ref *ateapi.ObjectRef) string { return ref.GetAtespace() + "/" + ref.GetName() }

func (s *Server) get(ctx context.Context, name string, req *ateapi.GetActorRequest) (*ateapi.Actor, error) {
	if err := s.admit(ctx, req); err != nil {
		return nil, err
	}
	if err := s.suffer(ctx, s.fault("GetActor", name)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actors[name]
	if a == nil {
		return nil, status.Errorf(codes.NotFound, "actor %s not found", name)
	}
	return a.wireLocked(), nil
}

func (s *Server) resume(ctx context.Context, name string, req *ateapi.ResumeActorRequest) (*ateapi.ResumeActorResponse, error) {
	if err := s.admit(ctx, req); err != nil {
		return nil, err
	}
	fault := s.fault("ResumeActor", name)
	if err := s.suffer(ctx, fault); err != nil {
		return nil, err
	}
	a, running, err := s.claim(name)
	if err != nil {
		return nil, err
	}
	if !running {
		if err := s.restore(ctx, a); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	resp := &ateapi.ResumeActorResponse{Actor: a.wireLocked(), Resumed: !running}
	s.mu.Unlock()
	if fault.Reply != nil {
		fault.Reply(resp)
	}
	return resp, nil
}

// claim begins a resume: the actor has a worker and is RESUMING. Nothing is
// begun if it is running.
func (s *Server) claim(name string) (a *actor, running bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a = s.actors[name]
	if a == nil {
		return nil, false, status.Errorf(codes.NotFound, "actor %s not found", name)
	}
	switch a.state {
	case ateapi.ActorState_ACTOR_STATE_RUNNING:
		return a, true, nil
	case ateapi.ActorState_ACTOR_STATE_RESUMING:
		return nil, false, status.Error(codes.Aborted, "another operation is in progress for this actor")
	case ateapi.ActorState_ACTOR_STATE_SUSPENDED, ateapi.ActorState_ACTOR_STATE_PAUSED:
	default:
		return nil, false, status.Errorf(codes.FailedPrecondition, "actor cannot be resumed in state %v", a.state)
	}
	if !s.claimLocked(a) {
		return nil, false, status.Error(codes.ResourceExhausted, "no free workers available")
	}
	a.enterLocked(ateapi.ActorState_ACTOR_STATE_RESUMING)
	return a, false, nil
}

// restore lets the actor's resume time pass.
func (s *Server) restore(ctx context.Context, a *actor) error {
	err := s.wait(ctx, a.Resume)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, errDown):
		a.enterLocked(ateapi.ActorState_ACTOR_STATE_SUSPENDED)
		a.freeLocked()
		return err
	case err != nil:
		s.stranded++
		return err
	}
	a.enterLocked(ateapi.ActorState_ACTOR_STATE_RUNNING)
	a.resumes++
	return nil
}

// errDown is the answer to calls that a stop breaks off.
var errDown = status.Error(codes.Unavailable, "the control plane is stopping")

// wait returns after d, or with an error when the caller gives up or the server
// stops.
func (s *Server) wait(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	if run == nil {
		return errDown
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-run.down: // before the contexts of its calls end
		return errDown
	case <-timer.C:
		return nil
	case <-ctx.Done():
		select {
		case <-run.down:
			return errDown
		default:
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// suffer lets a call have its fault.
func (s *Server) suffer(ctx context.Context, f Fault) error {
	d := f.Delay
	if f.Hang {
		d = 1 << 62
	}
	if err := s.wait(ctx, d); err != nil {
		return err
	}
	if f.Code != codes.OK {
		return status.Error(f.Code, f.Message)
	}
	return nil
}

// admit checks the caller, and that the request has nothing that the API does
// not know.
func (s *Server) admit(ctx context.Context, req proto.Message) error {
	if s.Token != "" {
		md, _ := metadata.FromIncomingContext(ctx)
		if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+s.Token {
			return status.Error(codes.Unauthenticated, "no valid token")
		}
	}
	if unknown(req.ProtoReflect()) {
		return status.Error(codes.InvalidArgument, "the request has unknown fields")
	}
	return nil
}

// unknown reports whether m, which has no repeated messages, has fields that
// its type does not.
func unknown(m protoreflect.Message) bool {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	found := false
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Message() != nil && !field.IsList() && !field.IsMap() {
			found = unknown(value.Message())
		}
		return !found
	})
	return found
}
