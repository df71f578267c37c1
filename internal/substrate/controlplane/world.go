package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"layover/internal/substrate/ateapi"
)

// Pool is a number of workers with the same labels.
type Pool struct {
	Name   string
	Labels map[string]string
	IPs    []string // one for each worker; what is no IP address is handed out all the same
}

// Actor is an actor, suspended at first.
type Actor struct {
	Name     string            // atespace/name
	Template string            // name of its template, which has no effect here; may be empty
	Selector map[string]string // labels that a worker must have; none: any worker will do
	Resume   time.Duration     // how long a resume takes, with its worker claimed
}

type pool struct {
	Pool
	workers []*worker
}

type worker struct {
	pool  *pool
	index int
	ip    string
	actor *actor // nil: free
}

type actor struct {
	Actor
	state   ateapi.ActorState
	worker  *worker
	version int64
	resumes int
}

// AddPool adds a pool with its workers, all free.
func (s *Server) AddPool(p Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := &pool{Pool: p}
	for i, ip := range p.IPs {
		added.workers = append(added.workers, &worker{pool: added, index: i, ip: ip})
	}
	s.pools = append(s.pools, added)
}

// AddActor adds actors.
func (s *Server) AddActor(actors ...Actor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range actors {
		if atespace, name, ok := strings.Cut(a.Name, "/"); !ok || atespace == "" || name == "" {
			panic(fmt.Sprintf("controlplane: %q is not atespace/name", a.Name))
		}
		s.actors[a.Name] = &actor{Actor: a, state: ateapi.ActorState_ACTOR_STATE_SUSPENDED, version: 1}
	}
}

// Suspend puts a running actor to sleep at once and frees its worker. It
// reports whether the actor was running.
func (s *Server) Suspend(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.mustLocked(name)
	if a.state != ateapi.ActorState_ACTOR_STATE_RUNNING {
		return false
	}
	a.enterLocked(ateapi.ActorState_ACTOR_STATE_SUSPENDED)
	a.freeLocked()
	return true
}

// SetState puts an actor into any state, for instance one that it is stuck in.
// A worker that it has stays its own.
func (s *Server) SetState(name string, state ateapi.ActorState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustLocked(name).enterLocked(state)
}

// State returns what an actor is doing.
func (s *Server) State(name string) ateapi.ActorState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mustLocked(name).state
}

// WorkerIP returns the address of the worker that an actor has, "" if it has
// none or there is no such actor.
func (s *Server) WorkerIP(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.actors[name]; a != nil && a.worker != nil {
		return a.worker.ip
	}
	return ""
}

// Resumes returns how many times an actor was resumed.
func (s *Server) Resumes(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mustLocked(name).resumes
}

// Running returns the actors that are running, by name.
func (s *Server) Running() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.actors)) {
		if s.actors[name].state == ateapi.ActorState_ACTOR_STATE_RUNNING {
			names = append(names, name)
		}
	}
	return names
}

// Stranded returns how many resumes were cut off by their caller. Like the real
// one, this control plane undoes nothing then: the actor is RESUMING for ever,
// and its worker lost.
func (s *Server) Stranded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stranded
}

func (s *Server) mustLocked(name string) *actor {
	a := s.actors[name]
	if a == nil {
		panic(fmt.Sprintf("controlplane: there is no actor %q", name))
	}
	return a
}

func (a *actor) enterLocked(state ateapi.ActorState) {
	a.state = state
	a.version++
}

func (a *actor) freeLocked() {
	if a.worker != nil {
		a.worker.actor, a.worker = nil, nil
	}
}

// claimLocked gives a the first free worker that its selector allows.
func (s *Server) claimLocked(a *actor) bool {
	for _, p := range s.pools {
		if !p.matches(a.Selector) {
			continue
		}
		for _, w := range p.workers {
			if w.actor == nil {
				w.actor, a.worker = a, w
				return true
			}
		}
	}
	return false
}

func (p *pool) matches(selector map[string]string) bool {
	for key, value := range selector {
		if p.Labels[key] != value {
			return false
		}
	}
	return true
}

// wireLocked is a as callers see it.
func (a *actor) wireLocked() *ateapi.Actor {
	atespace, name, _ := strings.Cut(a.Name, "/")
	out := &ateapi.Actor{
		Metadata: &ateapi.ResourceMetadata{Atespace: atespace, Name: name, Uid: "uid-of-" + atespace + "-" + name, Version: a.version},
		Status:   &ateapi.ActorStatus{State: a.state},
	}
	if a.Template != "" {
		out.ActorTemplate = &ateapi.ObjectRef{Atespace: atespace, Name: a.Template}
	}
	if len(a.Selector) > 0 {
		out.WorkerSelector = &ateapi.Selector{MatchLabels: maps.Clone(a.Selector)}
	}
	if w := a.worker; w != nil {
		pod := fmt.Sprintf("%s-%d", w.pool.Name, w.index)
		out.Status.WorkerAssignment = &ateapi.WorkerAssignment{
			Worker:          &ateapi.ObjectRef{Name: pod},
			WorkerNamespace: "workers",
			WorkerPool:      w.pool.Name,
			WorkerPod:       pod,
			WorkerPodUid:    "uid-of-" + pod,
			WorkerPodIp:     w.ip,
		}
	}
	return proto.CloneOf(out)
}
