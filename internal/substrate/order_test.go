package substrate_test

import (
	"math/rand/v2"
	"slices"
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

// resumed returns the actors in the order in which they were resumed.
func resumed(s *controlplane.Server) (names []string) {
	for _, c := range s.Calls() {
		if c.Resumed {
			names = append(names, c.Actor)
		}
	}
	return names
}

func TestG4_WorkersThatBecomeFreeGoToTheBestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flights = 100
		s := newServer(0, flights, 0)
		s.AddActor(controlplane.Actor{Name: "demo/holder"})
		r := newRouter(newPlane(t, s, substrate.Options{Jitter: 0.1}), parking.Unlimited)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		type job struct {
			band, arrival int
			actor         string
		}
		var jobs []job
		var all []*request
		for i := range flights {
			j := job{random.IntN(3), i, name(i)}
			jobs = append(jobs, j)
			all = append(all, send(r, j.actor, j.band, time.Hour))
			time.Sleep(time.Duration(1+random.IntN(20)) * time.Millisecond)
		}
		time.Sleep(time.Second)
		probes, from := s.Count("ResumeActor"), time.Now()
		time.Sleep(time.Minute)
		perSecond := float64(s.Count("ResumeActor")-probes) / time.Since(from).Seconds()
		if perSecond > 10.5 {
			t.Errorf("%d flights in line cost %.1f calls per second, want one each 100 ms", flights, perSecond)
		}
		if gets := s.Count("GetActor"); gets != flights {
			t.Errorf("%d GetActor calls, want one for each of %d flights", gets, flights)
		}

		s.AddPool(controlplane.Pool{Name: "one", IPs: addresses(2, 1)})
		for n := range flights {
			for len(resumed(s)) <= n {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			s.Suspend(resumed(s)[n])
		}
		slices.SortStableFunc(jobs, func(a, b job) int {
			if a.band != b.band {
				return a.band - b.band
			}
			return a.arrival - b.arrival
		})
		inversions := 0
		for i, actor := range resumed(s) {
			if actor != jobs[i].actor {
				inversions++
			}
		}
		if inversions > 0 {
			t.Errorf("%d of %d workers went to another than the best claim", inversions, flights)
		}
		for _, q := range all {
			q.mustServe(t)
		}
	})
}

func TestG4_ABetterClaimThatComesWhileTheHeadWaitsGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 2, 0)
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		worse := send(r, name(0), 5, time.Minute)
		time.Sleep(1050 * time.Millisecond) // it has waited since 1 s
		better := send(r, name(1), 0, time.Minute)
		time.Sleep(25 * time.Millisecond)
		s.AddPool(controlplane.Pool{Name: "one", IPs: addresses(1, 1)})
		better.mustServe(t)
		mustTake(t, better, 50*time.Millisecond) // the line asks each 100 ms
		worse.cancel()
		worse.mustRefuse(t, router.ClientGone)
		r.Wait(t.Context())
	})
}

func TestG8_AFreedWorkerIsNoticedWithinAnIntervalAndTheNextTriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 3, 0)
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		var all []*request
		for i := range 3 {
			all = append(all, send(r, name(i), i, time.Minute))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(1975 * time.Millisecond) // 2.005 s; the head asks at 2 s, 2.1 s ...
		s.AddPool(controlplane.Pool{Name: "three", IPs: addresses(1, 3)})
		for i, q := range all {
			q.mustServe(t)
			mustTake(t, q, 2100*time.Millisecond-time.Duration(i)*10*time.Millisecond)
		}
	})
}

func TestG8_ASlowResumeDoesNotKeepTheNextFromAFreeWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 5, 10*time.Second)
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		var all []*request
		for i := range 5 {
			all = append(all, send(r, name(i), i, time.Minute))
			synctest.Wait()
		}
		time.Sleep(time.Second)
		s.AddPool(controlplane.Pool{Name: "three", IPs: addresses(1, 3)})
		for i, q := range all[:3] {
			q.mustServe(t)
			if want := 11*time.Second + time.Duration(i)*100*time.Millisecond; q.took != want && q.took != want+100*time.Millisecond {
				t.Errorf("flight %d was served after %v, want about %v", i, q.took, want)
			}
		}
		if n := s.Count("ResumeActor"); n > 5+120 {
			t.Errorf("%d calls in 11 s, want about ten per second", n)
		}
		s.Suspend(name(1))
		all[3].mustServe(t)
		all[4].cancel()
		r.Wait(t.Context())
	})
}

func TestASlowRefusalIsARefusalAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 3, 0)
		s.Inject(controlplane.Fault{Method: "ResumeActor", Times: 30, Delay: 300 * time.Millisecond, Code: codes.ResourceExhausted})
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		s.AddPool(controlplane.Pool{Name: "one", IPs: addresses(1, 1)})
		var all []*request
		for i := range 3 {
			all = append(all, send(r, name(i), 0, time.Minute))
			time.Sleep(50 * time.Millisecond)
		}
		for i, q := range all {
			q.mustServe(t)
			s.Suspend(name(i))
		}
	})
}

func TestTheWorkersOfAnActorAreAskedForAgainIfTheyCouldNotBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 0, 0)
		s.AddActor(controlplane.Actor{Name: "demo/a", Template: "big"})
		p := newPlane(t, s, substrate.Options{})
		r := newRouter(p, 10)
		s.Inject(controlplane.Fault{Code: codes.Unavailable, Times: 3}) // two attempts, and GetActor in between
		q := send(r, "demo/a", 0, time.Minute)
		time.Sleep(2 * time.Second)
		if pools := p.Snapshot().Pools; len(pools) != 1 || pools[0].Name != "template demo/big" {
			t.Errorf("the lines are %v", pools)
		}
		q.cancel()
		r.Wait(t.Context())
	})
}

func TestR3_ARunningActorIsServedAtOnceWhoeverStandsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1, 51, 0)
		r := newRouter(newPlane(t, s, substrate.Options{}), 50)
		send(r, name(50), 9, time.Second).mustServe(t)
		var all []*request
		for i := range 50 {
			all = append(all, send(r, name(i), 0, time.Minute))
		}
		time.Sleep(time.Second) // the lot is full
		q := send(r, name(50), 9, time.Second)
		if ride := q.mustServe(t); ride.Wake != router.WakeNone || ride.Parked {
			t.Errorf("it %s, parked: %v", ride.Wake, ride.Parked)
		}
		mustTake(t, q, 0)
		for _, q := range all {
			q.cancel()
		}
		r.Wait(t.Context())
	})
}

func TestWhoIsHeldUpBySomethingElseIsInNobodysWay(t *testing.T) {
	for name, fault := range map[string]controlplane.Fault{
		"FailedPrecondition": {Code: codes.FailedPrecondition},
		"Aborted":            {Code: codes.Aborted},
		"Unavailable":        {Code: codes.Unavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(0, 2, 0)
			r := newRouter(newPlane(t, s, substrate.Options{}), 10)
			fault.Actor, fault.Method, fault.Times = "demo/a", "ResumeActor", -1
			s.Inject(fault)
			best := send(r, "demo/a", 0, time.Hour)
			time.Sleep(time.Second)
			next := send(r, "demo/b", 1, time.Minute)
			time.Sleep(time.Second)
			s.AddPool(controlplane.Pool{Name: "one", IPs: addresses(1, 1)})
			next.mustServe(t)
			if next.took > 1200*time.Millisecond {
				t.Errorf("%s: the next one was served %v after there was a worker", name, next.took-time.Second)
			}
			s.Suspend("demo/b")
			s.Mend()
			best.mustServe(t)
		})
	}
}

func TestAFlightThatWasHeldUpComesBackWithItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 2, 0)
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		s.Inject(controlplane.Fault{Actor: "demo/a", Code: codes.Aborted, Times: 8})
		older := send(r, "demo/a", 0, time.Hour)
		time.Sleep(10 * time.Millisecond)
		newer := send(r, "demo/b", 0, time.Hour)
		time.Sleep(10 * time.Second)
		s.AddPool(controlplane.Pool{Name: "one", IPs: addresses(1, 1)})
		older.mustServe(t)
		s.Suspend("demo/a")
		newer.mustServe(t)
		if got := resumed(s); !slices.Equal(got, []string{"demo/a", "demo/b"}) {
			t.Errorf("resumed were %v", got)
		}
	})
}

func TestG8_ALineForWorkersThatAreAllTakenHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := controlplane.New()
		cpu, gpu := map[string]string{"kind": "cpu"}, map[string]string{"kind": "gpu"}
		s.AddPool(controlplane.Pool{Name: "cpu", Labels: cpu, IPs: addresses(1, 1)})
		s.AddActor(
			controlplane.Actor{Name: "demo/cpu1", Selector: cpu}, controlplane.Actor{Name: "demo/cpu2", Selector: cpu},
			controlplane.Actor{Name: "demo/gpu", Selector: gpu},
			controlplane.Actor{Name: "demo/one", Template: "one"}, // what its template asks for is not said
			controlplane.Actor{Name: "demo/two", Template: "two"},
		)
		s.Inject(controlplane.Fault{Actor: "demo/one", Method: "ResumeActor", Times: -1, Code: codes.ResourceExhausted})
		r := newRouter(newPlane(t, s, substrate.Options{}), 10)
		send(r, "demo/cpu1", 0, time.Second).mustServe(t)
		stuck := []*request{send(r, "demo/gpu", 0, time.Hour), send(r, "demo/one", 0, time.Hour)}
		for i, actor := range []string{"demo/cpu2", "demo/two"} {
			time.Sleep(time.Second)
			q := send(r, actor, 5, time.Minute)
			time.Sleep(time.Second)
			s.Suspend([]string{"demo/cpu1", "demo/cpu2"}[i])
			q.mustServe(t)
			if q.took > 1100*time.Millisecond {
				t.Errorf("%s was served %v after its worker was free", actor, q.took-time.Second)
			}
		}
		for _, q := range stuck {
			q.cancel()
		}
		r.Wait(t.Context())
	})
}

func TestAHeadThatLeavesMakesRoomAndTheNextKeepsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 20, 0)
		r := newRouter(newPlane(t, s, substrate.Options{}), 20)
		var all []*request
		for i := range 20 { // each ends just after the one before it
			all = append(all, send(r, name(i), 0, time.Second+time.Duration(i)*110*time.Millisecond))
		}
		time.Sleep(500 * time.Millisecond)
		before := s.Count("ResumeActor")
		for _, q := range all {
			q.mustRefuse(t, router.NoWorker)
		}
		r.Wait(t.Context())
		if n := s.Count("ResumeActor") - before; n > 27 || n < 24 { // in 2.59 s
			t.Errorf("%d calls in 2.59 s, want one each 100 ms", n)
		}
	})
}

func TestWithoutASelectorTheLineIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0, 2, 0)
		p := newPlane(t, s, substrate.Options{})
		r := newRouter(p, 20)
		s.Inject(controlplane.Fault{Method: "GetActor", Actor: name(0), Hang: true})
		s.SetState(name(1), ateapi.ActorState_ACTOR_STATE_PAUSED)
		all := []*request{send(r, name(0), 0, time.Minute), send(r, name(1), 0, time.Minute)}
		time.Sleep(2 * time.Second) // GetActor is given 1 s
		if pools := p.Snapshot().Pools; len(pools) != 1 || pools[0].Name != "any worker" {
			t.Errorf("the lines are %v", pools)
		}
		for _, q := range all {
			q.cancel()
		}
		r.Wait(t.Context())
	})
}
