package substrate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"layover/internal/router"
	"layover/internal/substrate"
	"layover/internal/substrate/ateapi"
	"layover/internal/substrate/controlplane"
)

func TestR7_R8_TheCodeAloneDecidesWhatParksAndWhatFails(t *testing.T) {
	for code, want := range map[codes.Code]struct {
		parks  bool
		reason router.Reason
		detail string // if the message is "it says so"
	}{
		codes.ResourceExhausted:  {true, router.NoWorker, "it says so"},
		codes.FailedPrecondition: {true, router.StillWaking, "it says so"},
		codes.Aborted:            {true, router.StillWaking, "it says so"},
		codes.Unavailable:        {true, router.PlaneUnavailable, "the control plane is not available"},
		codes.NotFound:           {false, router.UnknownActor, "actor demo/a not found"},
		codes.PermissionDenied:   {false, router.Forbidden, "access to actor demo/a is denied"},
		codes.Unauthenticated:    {false, router.Unauthenticated, "actor demo/a asks for authentication"},
		codes.DeadlineExceeded:   {false, router.WakeTimeout, "actor demo/a was not resumed in time"},
		codes.InvalidArgument:    {false, router.BadRequest, "it says so"},
		codes.Internal:           {false, router.PlaneFailed, "actor demo/a could not be resumed"},
		codes.Unknown:            {false, router.PlaneFailed, "actor demo/a could not be resumed"},
		codes.DataLoss:           {false, router.PlaneFailed, "actor demo/a could not be resumed"},
		codes.Unimplemented:      {false, router.PlaneFailed, "actor demo/a could not be resumed"},
		codes.Canceled:           {false, router.PlaneFailed, "actor demo/a could not be resumed"},
	} {
		for _, message := range []string{"it says so", ""} {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(1, 1, 0)
				s.Inject(controlplane.Fault{Method: "ResumeActor", Times: -1, Code: code, Message: message})
				q := send(newRouter(newPlane(t, s, substrate.Options{}), 1), name(0), 0, 5*time.Second)
				e := q.mustRefuse(t, want.reason)
				took := time.Duration(0)
				if want.parks {
					took = 5 * time.Second
				}
				if q.took != took || e.Wait.Parked != want.parks {
					t.Errorf("%v is refused after %v, parked: %v; want %v, %v", code, q.took, e.Wait.Parked, took, want.parks)
				}
				if message != "" && e.Detail != want.detail || e.Detail == "" {
					t.Errorf("%v is told as %q, want %q", code, e.Detail, want.detail)
				}
				if got := errors.Is(e, context.DeadlineExceeded); got != want.parks {
					t.Errorf("%v: errors.Is(%v, DeadlineExceeded) = %v", code, e, got)
				}
			})
		}
	}
}

func TestTheControlPlanesWordsAreOneShortLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 1, 0)
		s.Inject(controlplane.Fault{Method: "ResumeActor", Code: codes.InvalidArgument,
			Message: "a\r\n\tb " + strings.Repeat("ä", 200)})
		e := send(newRouter(newPlane(t, s, substrate.Options{}), 1), name(0), 0, time.Second).mustRefuse(t, router.BadRequest)
		if want := "a b " + strings.Repeat("ä", 98) + "..."; e.Detail != want {
			t.Errorf("the detail is %q, want %q", e.Detail, want)
		}
	})
}

func TestAnAnswerWithoutAWorkersAddressFailsTheRouting(t *testing.T) {
	for _, ip := range []string{"", "worker-1", "10.0.0.1:80", "0.0.0.0", "::", "224.0.0.1", "fe80::1%eth0"} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(1, 1, 0)
			s.Inject(controlplane.Fault{Reply: func(r *ateapi.ResumeActorResponse) {
				r.Actor.Status.WorkerAssignment.WorkerPodIp = ip
			}})
			e := send(newRouter(newPlane(t, s, substrate.Options{}), 1), name(0), 0, time.Second).mustRefuse(t, router.PlaneFailed)
			if e.Detail != "actor demo/a routing failed" {
				t.Errorf("with the address %q the detail is %q", ip, e.Detail)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 1, 0)
		s.Inject(
			controlplane.Fault{Reply: func(r *ateapi.ResumeActorResponse) { r.Actor = nil }},
			controlplane.Fault{Reply: func(r *ateapi.ResumeActorResponse) { r.Actor.Status.WorkerAssignment = nil }},
			controlplane.Fault{Reply: func(r *ateapi.ResumeActorResponse) {
				r.Actor.Status.WorkerAssignment.WorkerPodIp = "fd00::1"
			}},
		)
		r := newRouter(newPlane(t, s, substrate.Options{Port: 8080}), 1)
		send(r, name(0), 0, time.Second).mustRefuse(t, router.PlaneFailed)
		send(r, name(0), 0, time.Second).mustRefuse(t, router.PlaneFailed)
		if got := send(r, name(0), 0, time.Second).mustServe(t).Target.Addr; got != "[fd00::1]:8080" {
			t.Errorf("the target is %s", got)
		}
	})
}

func TestOptionsOutOfTheirRangeAreRefused(t *testing.T) {
	for name, o := range map[string]substrate.Options{
		"interval": {Interval: -1}, "factor": {Factor: 0.9}, "jitter": {Jitter: 1}, "time of an attempt": {AttemptTimeout: -1},
	} {
		if _, err := substrate.New(nil, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New(%+v) = %v, want an error that names the %s", o, err, name)
		}
	}
}

func TestParkingOffFailsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 1, 0)
		r := newRouter(newPlane(t, s, substrate.Options{FailFast: true}), 0)
		q := send(r, name(0), 0, time.Minute)
		if e := q.mustRefuse(t, router.NoWorker); e.Detail != "no free workers available" {
			t.Errorf("the detail is %q", e.Detail)
		}
		mustTake(t, q, 0)
		for _, code := range []codes.Code{codes.FailedPrecondition, codes.Unavailable} {
			s.Inject(controlplane.Fault{Code: code})
			q := send(r, name(0), 0, time.Minute)
			<-q.done
			if q.err == nil || q.took != 0 {
				t.Errorf("%v is answered %v after %v", code, q.err, q.took)
			}
		}
	})
}

func TestParkingOffAbortedIsTriedAgainWithoutParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 1, 0)
		r := newRouter(newPlane(t, s, substrate.Options{FailFast: true}), 0)
		s.Inject(controlplane.Fault{Code: codes.Aborted, Times: 3})
		q := send(r, name(0), 0, time.Minute)
		if ride := q.mustServe(t); ride.Parked {
			t.Error("it was parked")
		}
		mustTake(t, q, 331*time.Millisecond) // 100 ms, 110 ms, 121 ms
		s.Inject(controlplane.Fault{Code: codes.Aborted, Times: -1, Message: "another one"})
		q = send(r, name(0), 0, 15*time.Second)
		if e := q.mustRefuse(t, router.StillWaking); e.Detail != "another one" {
			t.Errorf("the detail is %q", e.Detail)
		}
		mustTake(t, q, 15*time.Second)
	})
}

func TestParkingOffWhoJoinsLateHasAllOfItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 1, 0)
		r := newRouter(newPlane(t, s, substrate.Options{FailFast: true}), 0)
		s.Inject(controlplane.Fault{Code: codes.Aborted, Times: -1})
		early := send(r, name(0), 0, 15*time.Second)
		time.Sleep(14 * time.Second)
		late := send(r, name(0), 0, 15*time.Second)
		early.mustRefuse(t, router.StillWaking)
		mustTake(t, early, 15*time.Second)
		time.Sleep(5 * time.Second)
		s.Mend()
		late.mustServe(t)
	})
}
