package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
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

// probing counts what flights in line cost a control plane, and the workers
// that went to another than the best claim, beside a plane whose flights ask
// on timers of their own with the same pauses.
func probing(r *report) error {
	const inLine = 100
	ours, err := probeArm(inLine, func(p *substrate.Plane, _ ateapi.ControlClient) router.Plane { return p })
	if err != nil {
		return err
	}
	timers, err := probeArm(inLine, func(p *substrate.Plane, client ateapi.ControlClient) router.Plane {
		return &timerPlane{Plane: p, client: client}
	})
	if err != nil {
		return err
	}
	r.figure("calls per second while %d flights wait", ours.perSecond, atMost, 11, inLine)
	r.line("  the same, with a timer for each flight", number(timers.perSecond), true, "")
	r.figure("workers of %d that went to another than the best claim", float64(ours.inversions), atMost, 0, inLine)
	r.line("  the same, with a timer for each flight", number(float64(timers.inversions)), true, "")
	r.duration("from a worker's release to the next resume, median", ours.took.quantile(0.5), 150*time.Millisecond)
	r.duration("  the same, with a timer for each flight", timers.took.quantile(0.5), 0)
	return nil
}

// timerPlane asks again for each flight alone.
type timerPlane struct {
	*substrate.Plane
	client ateapi.ControlClient
}

func (p *timerPlane) Resume(ctx context.Context, actor string, f *router.Flight) (router.Target, error) {
	ref, err := substrate.ParseRef(actor)
	if err != nil {
		return router.Target{}, err
	}
	pause := 100 * time.Millisecond
	for f.Commit() {
		resp, err := p.client.ResumeActor(ctx, &ateapi.ResumeActorRequest{Actor: &ateapi.ObjectRef{Atespace: ref.Atespace, Name: ref.Name}})
		if err == nil {
			return router.Target{Addr: resp.Actor.Status.WorkerAssignment.WorkerPodIp}, nil
		}
		f.Park("no worker")
		if !f.Uncommit() {
			break
		}
		select {
		case <-time.After(time.Duration(float64(pause) * (0.9 + 0.2*rand.Float64()))):
		case <-ctx.Done():
		}
		pause = min(pause*11/10, time.Second)
	}
	return router.Target{}, context.Cause(ctx)
}

type probed struct {
	perSecond  float64
	inversions int
	took       samples
}

// probeArm lets flights wait for a control plane's only worker, which is then
// freed for one after the other.
func probeArm(inLine int, choose func(*substrate.Plane, ateapi.ControlClient) router.Plane) (probed, error) {
	s := controlplane.New()
	s.AddPool(controlplane.Pool{Name: "one", IPs: []string{"10.0.0.1"}})
	s.AddActor(controlplane.Actor{Name: "demo/holder"})
	if _, err := s.Start(""); err != nil {
		return probed{}, err
	}
	defer s.Stop()
	conn, err := substrate.Dial("passthrough:///memory", substrate.Access{Insecure: true}, grpc.WithContextDialer(s.Dial))
	if err != nil {
		return probed{}, err
	}
	defer conn.Close()
	client := ateapi.NewControlClient(conn)
	plane, err := substrate.New(client, substrate.Options{Jitter: 0.1})
	if err != nil {
		return probed{}, err
	}
	rt := router.New(choose(plane, client), parking.NewLot(parking.Unlimited), router.Options{})
	ctx, cancel := budget.For(context.Background(), time.Hour)
	defer cancel()
	if _, err := rt.Route(ctx, router.Ask{Actor: "demo/holder"}); err != nil {
		return probed{}, err
	}

	claims := make(map[string]turnstile.Claim)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel() // before the flights are waited for
	for i := range inLine {
		actor := fmt.Sprintf("demo/actor-%d", i)
		s.AddActor(controlplane.Actor{Name: actor})
		job := turnstile.Begin(ctx, rand.IntN(5))
		claims[actor], _ = turnstile.ClaimFrom(job)
		all.Go(func() { rt.Route(job, router.Ask{Actor: actor}) })
	}
	waitFor(func() bool { return rt.Lot().Snapshot().Active == inLine })
	time.Sleep(2 * time.Second) // pauses grow to their longest
	var out probed
	calls, from := s.Count("ResumeActor"), time.Now()
	time.Sleep(5 * time.Second)
	out.perSecond = float64(s.Count("ResumeActor")-calls) / time.Since(from).Seconds()

	for awake := "demo/holder"; len(claims) > 0; {
		from := time.Now()
		s.Suspend(awake)
		for awake = ""; awake == ""; time.Sleep(time.Millisecond) {
			if running := s.Running(); len(running) > 0 {
				awake = running[0]
			}
		}
		out.took.add(time.Since(from))
		claim := claims[awake]
		delete(claims, awake)
		for _, other := range claims {
			if before(other, claim) {
				out.inversions++
				break
			}
		}
	}
	return out, nil
}

func before(a, b turnstile.Claim) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	return a.Since.Before(b.Since)
}
