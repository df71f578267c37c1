package substrate_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"layover/internal/router"
	"layover/internal/substrate"
	"layover/internal/substrate/ateapi"
	"layover/internal/substrate/controlplane"
	"layover/parking"
)

func TestR1_WithoutAWorkerARequestIsHeldToItsBudgetAndToldWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(newPlane(t, newServer(0, 1, 0), substrate.Options{Jitter: 0.1}), 10)
		early := send(r, name(0), 0, 5*time.Second)
		time.Sleep(3 * time.Second)
		late := send(r, name(0), 0, 5*time.Second) // its clock is its own
		for _, q := range []*request{early, late} {
			e := q.mustRefuse(t, router.NoWorker)
			mustTake(t, q, 5*time.Second)
			if e.Detail != "no free workers available" || e.Wait.ParkedFor != 5*time.Second {
				t.Errorf("it was told %q after %v in the lot", e.Detail, e.Wait.ParkedFor)
			}
		}
	})
}

func TestR2_AllWhoWantAnActorShareOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 1, time.Second)
		r := newRouter(newPlane(t, s, substrate.Options{}), parking.Unlimited)
		var all []*request
		for range 50 {
			all = append(all, send(r, name(0), 0, 5*time.Second))
		}
		triggered := 0
		for _, q := range all {
			if q.mustServe(t).Wake == router.WakeTriggered {
				triggered++
			}
			mustTake(t, q, time.Second)
		}
		if n := s.Count("ResumeActor"); n != 1 || triggered != 1 {
			t.Errorf("%d calls for 50 requests, %d of which triggered it, want one", n, triggered)
		}
	})
}

func TestR4_ASpotIsTakenAtTheFirstAnswerThatSaysWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 1, 0)
		r := newRouter(newPlane(t, s, substrate.Options{}), 2)
		s.Inject(controlplane.Fault{Method: "ResumeActor", Delay: time.Second})
		var all []*request
		for range 3 {
			all = append(all, send(r, name(0), 0, 5*time.Second))
			synctest.Wait() // in this order
		}
		time.Sleep(time.Second - 1)
		if lot := r.Lot().Snapshot(); lot.Active != 0 {
			t.Errorf("%d spots are taken before the first answer", lot.Active)
		}
		all[2].mustRefuse(t, router.LotFull)
		mustTake(t, all[2], time.Second)
		all[0].mustRefuse(t, router.NoWorker)
		all[1].mustRefuse(t, router.NoWorker)
		r.Wait(t.Context())
	})
}

func TestR5_R6_AnAttemptThatOutlivesItsCallersServesTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 1, 8*time.Second)
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		gone := send(r, name(0), 0, 5*time.Second)
		gone.mustRefuse(t, router.StillWaking)
		mustTake(t, gone, 5*time.Second)
		time.Sleep(time.Second) // nobody waits for it
		next := send(r, name(0), 0, 5*time.Second)
		if ride := next.mustServe(t); ride.Wake != router.WakeJoined || ride.Parked {
			t.Errorf("the next one %s, parked: %v", ride.Wake, ride.Parked)
		}
		mustTake(t, next, 2*time.Second)
		if n := s.Count("ResumeActor"); n != 1 || s.Stranded() != 0 {
			t.Errorf("%d calls, %d stranded; want 1, 0", n, s.Stranded())
		}
	})
}

func TestR5_AnAttemptFromTheLineIsNotCutOffEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 2, 3*time.Second)
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		send(r, name(0), 0, 5*time.Second).mustServe(t)
		q := send(r, name(1), 0, time.Second)
		time.Sleep(500 * time.Millisecond)
		s.Suspend(name(0))
		q.mustRefuse(t, router.NoWorker) // the last answer that there was
		mustTake(t, q, time.Second)
		if err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Stranded() != 0 || s.State(name(1)) != ateapi.ActorState_ACTOR_STATE_RUNNING {
			t.Errorf("%d are stranded, the actor is %v", s.Stranded(), s.State(name(1)))
		}
	})
}

func TestR9_ARequestToARunningActorCostsOneCallAndNoAddressIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 2, 0)
		r := newRouter(newPlane(t, s, substrate.Options{}), 0)
		first := send(r, name(0), 0, time.Second).mustServe(t)
		for range 10 {
			again := send(r, name(0), 0, time.Second).mustServe(t)
			if again.Target != first.Target || again.Wake != router.WakeNone {
				t.Errorf("the target was %v and is %v (%s)", first.Target, again.Target, again.Wake)
			}
		}
		if resumes, gets := s.Count("ResumeActor"), s.Count("GetActor"); resumes != 11 || gets != 0 {
			t.Errorf("%d ResumeActor and %d GetActor calls for 11 requests", resumes, gets)
		}
		s.Suspend(name(0)) // its worker goes to the other one
		other := send(r, name(1), 0, time.Second).mustServe(t)
		s.AddPool(controlplane.Pool{Name: "more", IPs: addresses(2, 1)})
		moved := send(r, name(0), 0, time.Second).mustServe(t)
		if other.Target.Addr != first.Target.Addr || moved.Target.Addr != "10.0.2.1:80" {
			t.Errorf("demo/b is at %s, demo/a at %s", other.Target.Addr, moved.Target.Addr)
		}
	})
}

func TestR10_AnActorThatIsStuckIsWaitedForWithABoundAndTriedAgain(t *testing.T) {
	for _, state := range []ateapi.ActorState{ateapi.ActorState_ACTOR_STATE_RESUMING, ateapi.ActorState_ACTOR_STATE_SUSPENDING} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(1, 1, 0)
			r := newRouter(newPlane(t, s, substrate.Options{}), 10)
			s.SetState(name(0), state)
			q := send(r, name(0), 0, 5*time.Second)
			if e := q.mustRefuse(t, router.StillWaking); e.Detail == "" {
				t.Errorf("%v is not explained", state)
			}
			mustTake(t, q, 5*time.Second)
			q = send(r, name(0), 0, 5*time.Second)
			time.Sleep(time.Second)
			s.SetState(name(0), ateapi.ActorState_ACTOR_STATE_SUSPENDED)
			q.mustServe(t)
			if q.took > 1500*time.Millisecond {
				t.Errorf("it was noticed after %v that the actor is free", q.took-time.Second)
			}
		})
	}
}

func TestR10_AHungCallEndsAtItsCeilingAndTheNextRequestTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 1, 0)
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		s.Inject(controlplane.Fault{Hang: true})
		patient := send(r, name(0), 0, time.Hour)
		patient.mustRefuse(t, router.WakeTimeout)
		mustTake(t, patient, time.Minute)
		send(r, name(0), 0, time.Second).mustServe(t)
	})
}

func TestARestartOfTheControlPlaneIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 2, time.Second)
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		under := send(r, name(0), 0, 10*time.Second) // its call is broken off
		time.Sleep(500 * time.Millisecond)
		s.Stop()
		after := send(r, name(1), 0, 10*time.Second)
		time.Sleep(3 * time.Second)
		if _, err := s.Start(""); err != nil {
			t.Fatal(err)
		}
		s.AddPool(controlplane.Pool{Name: "more", IPs: addresses(2, 1)})
		under.mustServe(t)
		after.mustServe(t)
		if limit := 3500*time.Millisecond + 2*time.Second + 2*time.Second; under.took > limit || after.took > limit {
			t.Errorf("they were served after %v and %v", under.took, after.took)
		}
		send(r, name(0), 0, time.Second).mustServe(t)
	})
}

func TestTheLedgerHasTheLineAndTheWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 2, time.Second)
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		first := send(r, name(0), 0, 5*time.Second)
		first.mustServe(t)
		q := send(r, name(1), 0, 5*time.Second)
		time.Sleep(2050 * time.Millisecond)
		s.Suspend(name(0)) // noticed 50 ms later, and seen to last another 100 ms later
		q.mustServe(t)
		mustTake(t, q, 3100*time.Millisecond)
		for _, want := range []struct {
			of    *request
			phase string
			sum   time.Duration
		}{
			{first, router.PhaseWake, time.Second},
			{q, router.PhaseLine, 2200 * time.Millisecond},
			{q, router.PhaseWake, 900 * time.Millisecond},
		} {
			got := time.Duration(-1)
			for _, p := range want.of.ledger.Phases {
				if p.Name == want.phase {
					got = p.Sum
				}
			}
			if got != want.sum {
				t.Errorf("phase %s has %v, want %v; ledger: %+v", want.phase, got, want.sum, want.of.ledger)
			}
		}
	})
}

func TestManyWhoComeAndGoLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(2, 30, 10*time.Millisecond)
		p := newPlane(t, s, substrate.Options{Jitter: 0.1})
		r := newRouter(p, 40)
		s.Inject(controlplane.Fault{Code: codes.Aborted, Times: 20}, controlplane.Fault{Code: codes.FailedPrecondition, Times: 20})
		var all []*request
		for i := range 300 {
			all = append(all, send(r, name(i%30), i%3, time.Duration(i%17)*100*time.Millisecond+time.Millisecond))
			if i%5 == 0 {
				all[i/2].cancel()
			}
			if i%7 == 0 {
				s.Suspend(name(i * 11 % 30))
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, q := range all {
			if <-q.done; q.ride != nil {
				q.ride.Done()
			}
		}
		if err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lot, snap := r.Lot().Snapshot(), p.Snapshot(); lot.Active != 0 || len(snap.Pools) != 0 || s.Stranded() != 0 {
			t.Errorf("left behind: %d spots, lines %v, %d stranded workers", lot.Active, snap.Pools, s.Stranded())
		}
	})
}

func TestTheSnapshotShowsTheLinesInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 3, 0)
		s.AddActor(controlplane.Actor{Name: "demo/x", Template: "big", Selector: map[string]string{"size": "l", "a,b": "c=d"}})
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		var all []*request
		for i, actor := range []string{"demo/a", "demo/b", "demo/c", "demo/x"} {
			all = append(all, send(r, actor, 3-i, time.Minute))
		}
		time.Sleep(250 * time.Millisecond)
		got := ""
		for _, pool := range r.Snapshot().Plane.Pools {
			got += pool.Name + ":"
			for _, w := range pool.Line {
				got += " " + w.Actor
			}
			got += ";"
		}
		if want := `any worker: demo/c demo/b demo/a;template demo/big, "a,b"="c=d", size=l: demo/x;`; got != want {
			t.Errorf("the lines are %s, want %s", got, want)
		}
		for _, q := range all {
			q.cancel()
			<-q.done
		}
		r.Wait(t.Context())
	})
}

func ExampleRef() {
	ref, err := substrate.Locate("", "Alice.Demo.actors.resources.substrate.ate.dev:8080", substrate.HostSuffix)
	fmt.Println(ref, err)
	// Output: demo/alice <nil>
}
