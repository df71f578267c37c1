package extproc_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	extprocfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"

	"layover/internal/envoy"
	"layover/internal/extproc"
	"layover/internal/router"
)

func TestARequestToAnAwakeActorIsRoutedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{o: extproc.Options{ActorHeader: "ate-target-actor"}})
		x.wake(t, actorA)
		got := x.hold(t, get(actorA)).mustRoute(0)
		if got.local != actorA || got.port != "8001" || got.protocol != "" || got.cleared {
			t.Errorf("target %+v, want %s over HTTP/1.1", got, actorA)
		}
		want := map[string]string{"x-envoy-original-dst-host": actorA, "ate-target-actor": actorA}
		if !maps.Equal(got.set, want) || len(got.removed) > 0 {
			t.Errorf("headers set %v, removed %v, want set %v", got.set, got.removed, want)
		}
	})
}

func TestG1_AFullLotDoesNotConcernRequestsToAwakeActors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{lot: 1})
		x.wake(t, actorA)
		x.hold(t, get(actorB))
		synctest.Wait()
		response := x.hold(t, get(actorB)).mustRefuse(0, router.LotFull)
		if got := response.GetStatus().GetCode(); got != 503 {
			t.Errorf("status %v, want 503", got)
		}
		seconds, err := strconv.Atoi(headerOf(response, "retry-after"))
		if err != nil || seconds < 1 {
			t.Errorf("Retry-After %q, want whole seconds", headerOf(response, "retry-after"))
		}
		x.hold(t, get(actorA)).mustRoute(0)
	})
}

func TestG2_OneWakeUpForAllWhoWaitAndALateJoinerKeepsItsOwnBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{route: router.Route{Budget: 1500 * time.Millisecond, MaxBudget: 5 * time.Second}})
		x.plane.Start = taking(2 * time.Second)
		first := x.hold(t, get(actorA))
		time.Sleep(time.Second)
		late := x.hold(t, get(actorA))
		first.mustRefuse(1500*time.Millisecond, router.StillWaking)
		late.mustRoute(time.Second)
		if got := x.plane.Wakes(actorA); got != 1 {
			t.Errorf("%d wake-ups, want 1", got)
		}
	})
}

// A client that leaves Envoy shows as a stream that is reset (CANCELED) or, in
// other versions and moments, as one that is closed.
func TestG3_AClientThatLeavesFreesItsSpot(t *testing.T) {
	for name, leave := range map[string]func(*held){
		"reset":  func(q *held) { q.reset() },
		"closed": func(q *held) { q.stream.CloseSend() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newRig(t, setup{workers: 1})
				x.wake(t, actorA)
				x.hold(t, get(actorA)).mustRoute(0)
				q := x.hold(t, get(actorB))
				time.Sleep(time.Second)
				if got := x.router.Lot().Snapshot().Active; got != 1 {
					t.Fatalf("%d spots are taken, want 1", got)
				}
				leave(q)
				synctest.Wait()
				if got := x.router.Lot().Snapshot().Active; got != 0 {
					t.Errorf("%d spots are taken after the client left", got)
				}
				if with, want := x.inFlight(actorB); with+want != 0 {
					t.Errorf("the actor is still wanted by %d requests", with+want)
				}
				if got := x.server.Held(); got != 0 {
					t.Errorf("%d requests are held", got)
				}
				if got := x.last(); got.Reason != router.ClientGone || got.Took != time.Second {
					t.Errorf("recorded as %s after %v, want client_gone after 1s", got.Reason, got.Took)
				}
			})
		})
	}
}

func TestG5_R37_TheHoldEndsWithTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		x.wake(t, actorA)
		held := x.hold(t, get(actorB, "x-request-id", "id-1"))
		synctest.Wait()
		if waits := x.router.Waiting(); len(waits) != 1 || waits[0].ID != "id-1" {
			t.Errorf("who waits: %+v, want id-1", waits)
		}
		response := held.mustRefuse(5*time.Second, router.NoWorker)
		if got := envoy.DefaultPlan().MessageTimeout(); got <= 5*time.Second {
			t.Errorf("Envoy waits %v, and the refusal comes after 5s", got)
		}
		if response.GetStatus().GetCode() != 503 || headerOf(response, "retry-after") == "" {
			t.Errorf("response %v, want 503 with Retry-After", response)
		}
		var problem struct {
			Reason    string
			Actor     string
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal(response.GetBody(), &problem); err != nil {
			t.Fatal(err)
		}
		if problem.Reason != "no_worker" || problem.Actor != actorB || problem.RequestID != "id-1" {
			t.Errorf("problem %+v", problem)
		}
		rec := x.last()
		if rec.ID != "id-1" || rec.Method != "GET" || rec.Route != "r" || rec.Status != 503 || !rec.Parked || rec.ParkedFor != 5*time.Second {
			t.Errorf("record %+v", rec)
		}
	})
}

func TestG10_R71_WaitLetsTheParkedBeServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		q := x.hold(t, get(actorA))
		synctest.Wait()
		if got := x.server.Held(); got != 1 {
			t.Errorf("%d requests are held, want 1", got)
		}
		waited := make(chan time.Duration)
		start := time.Now()
		go func() {
			if err := x.server.Wait(context.Background()); err != nil {
				t.Errorf("Wait = %v", err)
			}
			waited <- time.Since(start)
		}()
		q.mustRoute(time.Second)
		time.Sleep(time.Second) // the response goes on, and Envoy may yet send of it
		if got := x.server.Held(); got != 0 {
			t.Errorf("%d requests are held after their answer", got)
		}
		q.stream.CloseSend()
		if got := <-waited; got != 2*time.Second {
			t.Errorf("Wait took %v, want 2s", got)
		}
		if err := x.server.Wait(context.Background()); err != nil {
			t.Errorf("Wait = %v without a stream", err)
		}

		x.hold(t, get(actorB))
		synctest.Wait()
		hurry := errors.New("hurry")
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, hurry)
		defer cancel()
		if err := x.server.Wait(ctx); err != hurry {
			t.Errorf("Wait = %v, want the context's cause", err)
		}
	})
}

func TestAnActorIsInUseUntilTheStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		q := x.hold(t, get(actorA))
		q.mustRoute(time.Second)
		time.Sleep(time.Hour)
		if with, _ := x.inFlight(actorA); with != 1 {
			t.Errorf("%d requests are with the actor, want 1", with)
		}
		q.stream.CloseSend()
		q.mustEnd()
		if with, _ := x.inFlight(actorA); with != 0 {
			t.Errorf("%d requests are with the actor after the stream's end", with)
		}
	})
}

// What Envoy sends when its configuration asks for more than headers, in its
// order.
func unasked() []*extprocv3.ProcessingRequest {
	return []*extprocv3.ProcessingRequest{
		{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: []byte("x")}}},
		{Request: &extprocv3.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocv3.HttpTrailers{}}},
		{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{}}},
		{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{Body: []byte("y")}}},
		{Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{}}},
	}
}

func mustPass(t *testing.T, q *held) {
	t.Helper()
	var got []string
	for range 5 {
		m, _ := q.next()
		switch m.GetResponse().(type) {
		case *extprocv3.ProcessingResponse_RequestBody:
			got = append(got, "request body")
		case *extprocv3.ProcessingResponse_RequestTrailers:
			got = append(got, "request trailers")
		case *extprocv3.ProcessingResponse_ResponseHeaders:
			got = append(got, "response headers")
		case *extprocv3.ProcessingResponse_ResponseBody:
			got = append(got, "response body")
		case *extprocv3.ProcessingResponse_ResponseTrailers:
			got = append(got, "response trailers")
		}
	}
	want := []string{"request body", "request trailers", "response headers", "response body", "response trailers"}
	if !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
	q.stream.CloseSend()
	q.mustEnd()
}

func TestR56_WhatNobodyAskedForPassesUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		q := x.hold(t, get(actorA))
		q.mustRoute(time.Second)
		for _, m := range unasked() {
			q.send(m)
		}
		mustPass(t, q)
	})
}

func TestR56_WhatNobodyAskedForIsAnsweredAfterTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		q := x.hold(t, get(actorA))
		synctest.Wait()
		for range 4 { // more than are taken while the request is held
			for _, m := range unasked() {
				q.send(m)
			}
		}
		q.mustRoute(time.Second)
		for range 4 * len(unasked()) {
			q.next()
		}
		q.stream.CloseSend()
		q.mustEnd()
	})
}

func TestAClosedStreamIsNoticedBehindAFewMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		x.wake(t, actorA)
		q := x.hold(t, get(actorB))
		synctest.Wait()
		for _, m := range unasked() {
			q.send(m)
		}
		q.stream.CloseSend()
		synctest.Wait()
		if got := x.server.Held(); got != 0 {
			t.Errorf("%d requests are held after the client left", got)
		}
	})
}

func TestMessagesThatCannotBeServedEndTheirStream(t *testing.T) {
	headers := func(change func(*extprocv3.ProcessingRequest)) *extprocv3.ProcessingRequest {
		m := get(actorA).message()
		change(m)
		return m
	}
	mode := func(request, response extprocfilterv3.ProcessingMode_BodySendMode) *extprocv3.ProcessingRequest {
		return headers(func(m *extprocv3.ProcessingRequest) {
			m.ProtocolConfig = &extprocv3.ProtocolConfiguration{RequestBodyMode: request, ResponseBodyMode: response}
		})
	}
	for _, tc := range []struct {
		name  string
		first *extprocv3.ProcessingRequest
		code  codes.Code
		says  string
	}{
		{"nothing", &extprocv3.ProcessingRequest{}, codes.InvalidArgument, "none of the parts"},
		{"observability", headers(func(m *extprocv3.ProcessingRequest) { m.ObservabilityMode = true }), codes.FailedPrecondition, "observability_mode off"},
		{"full duplex up", mode(extprocfilterv3.ProcessingMode_FULL_DUPLEX_STREAMED, 0), codes.FailedPrecondition, "set both to NONE"},
		{"full duplex down", mode(0, extprocfilterv3.ProcessingMode_FULL_DUPLEX_STREAMED), codes.FailedPrecondition, "set both to NONE"},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := newRig(t, setup{})
			q := x.hold(t, nil)
			q.mustRefuse(0, router.UnknownActor) // no headers at all are a request without an actor
			stream, err := x.client.Process(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			q = &held{t: t, stream: stream}
			q.send(tc.first)
			if got := q.mustFail(tc.code); !strings.Contains(got.Message(), tc.says) {
				t.Errorf("%s: %q, want something with %q", tc.name, got.Message(), tc.says)
			}
		})
	}
}

func TestHeadersThatComeTwiceEndTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		q := x.hold(t, get(actorA))
		q.mustRoute(time.Second)
		q.send(get(actorB).message())
		q.mustFail(codes.InvalidArgument)
		synctest.Wait()
		if with, want := x.inFlight(actorA); with+want != 0 {
			t.Errorf("%d requests are with the actor after the stream's end", with+want)
		}
	})
}

func TestAPanicIsOneRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{namer: func(r *extproc.Request) (extproc.Name, error) {
			if r.Path == "/panic" {
				panic("as asked")
			}
			return extproc.Name{Actor: r.Header("actor"), Route: router.Route{Budget: time.Minute, MaxBudget: time.Minute}}, nil
		}})
		other := x.hold(t, get(actorA))
		synctest.Wait()
		response := x.hold(t, headers{":method", "GET", ":path", "/panic"}).mustRefuse(0, router.Internal)
		if response.GetStatus().GetCode() != 500 || strings.Contains(string(response.GetBody()), "as asked") {
			t.Errorf("response %v, want 500 without the panic's text", response)
		}
		other.mustRoute(time.Second)

		x.plane.Start = func(context.Context, string) error { panic("in the plane") }
		x.plane.Sleep(actorA)
		x.hold(t, get(actorA)).mustRefuse(0, router.Internal)
		if got := x.server.Held(); got != 0 {
			t.Errorf("%d requests are held", got)
		}
	})
}

func TestAPanicOutsideTheDecisionEndsItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{o: extproc.Options{Begin: func(ctx context.Context, _ *extproc.Request) (context.Context, extproc.Trace) {
			return ctx, extproc.Trace{End: func(rec router.Record) {
				if rec.Actor == actorB {
					panic("in an observer")
				}
			}}
		}}, workers: 2})
		x.hold(t, get(actorB)).mustFail(codes.Internal)
		synctest.Wait()
		if with, want := x.inFlight(actorB); with+want+x.server.Held() != 0 {
			t.Errorf("%d requests are with the actor, %d are held", with+want, x.server.Held())
		}
		x.hold(t, get(actorA)).mustRoute(time.Second)
	})
}

func TestANamersErrorIsTheAnswer(t *testing.T) {
	for _, tc := range []struct {
		err    error
		reason router.Reason
		status int
	}{
		{router.Fail(router.NoRoute, "nothing here", nil), router.NoRoute, 404},
		{errors.New("any other"), router.Internal, 500},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := newRig(t, setup{namer: func(*extproc.Request) (extproc.Name, error) {
				return extproc.Name{Route: router.Route{Name: "of the error"}}, tc.err
			}})
			response := x.hold(t, get(actorA)).mustRefuse(0, tc.reason)
			if got := x.last().Route; got != "of the error" {
				t.Errorf("recorded under the route %q", got)
			}
			if got := int(response.GetStatus().GetCode()); got != tc.status {
				t.Errorf("status %d, want %d", got, tc.status)
			}
		})
	}
}

func TestARefusalHasTheFormThatItsCallerReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		page := x.hold(t, get("nobody", "accept", "text/html")).mustRefuse(0, router.UnknownActor)
		if got := headerOf(page, "content-type"); got != "text/html; charset=utf-8" || !strings.Contains(string(page.GetBody()), "<html") {
			t.Errorf("%s %.40q, want a page", got, page.GetBody())
		}
		if page.GetGrpcStatus() != nil {
			t.Errorf("gRPC status %v for a browser", page.GetGrpcStatus())
		}
		call := x.hold(t, headers{":method", "POST", "actor", "nobody%20", "content-type", "application/grpc+proto"}).mustRefuse(0, router.UnknownActor)
		if got := call.GetGrpcStatus().GetStatus(); got != uint32(codes.NotFound) {
			t.Errorf("gRPC status %v, want %d", got, codes.NotFound)
		}
		if got := string(call.GetBody()); got != "unknown_actor: not in the script" {
			t.Errorf("gRPC message %q", got)
		}
		if got := headerOf(call, "content-type") + headerOf(call, "grpc-message"); got != "" {
			t.Errorf("headers %q that Envoy writes by itself", got)
		}
	})
}

func TestR53_AConnectMayNameThePort(t *testing.T) {
	for _, tc := range []struct{ method, host, want string }{
		{"CONNECT", "a.example:9000", "127.0.0.1:9000"},
		{"CONNECT", "a.example", actorA},
		{"CONNECT", "[::1]:443", "127.0.0.1:443"},
		{"GET", "a.example:9000", actorA},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := newRig(t, setup{})
			got := x.hold(t, headers{":method", tc.method, ":authority", tc.host, "actor", actorA}).mustRoute(time.Second)
			if got.local != tc.want || got.set["x-envoy-original-dst-host"] != tc.want {
				t.Errorf("%s %s goes to %s (header %s), want %s", tc.method, tc.host, got.local, got.set["x-envoy-original-dst-host"], tc.want)
			}
		})
	}
}

func TestAHostThatIsNoneIsRefusedBeforeAnybodyIsWoken(t *testing.T) {
	for method, host := range map[string]string{"CONNECT": "a.example:99999", "GET": "user@a.example"} {
		synctest.Test(t, func(t *testing.T) {
			x := newRig(t, setup{})
			response := x.hold(t, headers{":method", method, ":authority", host, "actor", actorA}).mustRefuse(0, router.BadHost)
			if got := response.GetStatus().GetCode(); got != 400 {
				t.Errorf("%s %s: status %v, want 400", method, host, got)
			}
			if _, want := x.inFlight(actorA); want != 0 {
				t.Errorf("%s %s wakes the actor", method, host)
			}
		})
	}
}

// withTarget is a plane whose actors are all at one target.
type withTarget struct {
	router.Plane
	target router.Target
}

func (p withTarget) Resume(ctx context.Context, actor string, f *router.Flight) (router.Target, error) {
	_, err := p.Plane.Resume(ctx, actor, f)
	return p.target, err
}

func (p withTarget) Want(actor string) (router.Use, error) {
	use, err := p.Plane.Want(actor)
	return anyTarget{use}, err
}

type anyTarget struct{ router.Use }

func (anyTarget) Take(router.Target) bool { return true }

func TestATargetThatIsNoAddressIsAFault(t *testing.T) {
	for _, addr := range []string{"", "worker-1:80", "10.0.0.1", "10.0.0.1:0", "[fe80::1%eth0]:80"} {
		synctest.Test(t, func(t *testing.T) {
			x := newRig(t, setup{})
			x.server = extproc.New(router.New(withTarget{x.plane, router.Target{Addr: addr}}, x.router.Lot(), router.Options{}),
				func(r *extproc.Request) (extproc.Name, error) {
					return extproc.Name{Actor: actorA, Route: router.Route{Budget: time.Minute, MaxBudget: time.Minute}}, nil
				}, extproc.Options{})
			x.serve(t)
			response := x.hold(t, get(actorA)).mustRefuse(time.Second, router.Internal)
			if got := response.GetStatus().GetCode(); got != 500 {
				t.Errorf("target %q: status %v, want 500", addr, got)
			}
		})
	}
}

func TestAnActorThatSpeaksH2CIsSaidToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		x.server = extproc.New(router.New(withTarget{x.plane, router.Target{Addr: "[fd00::1]:80", Protocol: router.ProtocolH2C}}, x.router.Lot(), router.Options{}),
			func(r *extproc.Request) (extproc.Name, error) {
				return extproc.Name{Actor: actorA, Route: router.Route{Budget: time.Minute, MaxBudget: time.Minute}}, nil
			}, extproc.Options{})
		x.serve(t)
		got := x.hold(t, get(actorA)).mustRoute(time.Second)
		if got.local != "[fd00::1]:80" || got.port != "80" || got.protocol != "h2c" || !got.cleared {
			t.Errorf("target %+v, want h2c at [fd00::1]:80 and the route chosen again", got)
		}
	})
}

func TestAFallbackIsNamedForWhatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{o: extproc.Options{ActorHeader: "actor-name"},
			route: router.Route{Budget: 5 * time.Second, MaxBudget: 5 * time.Second, Fallback: actorA, FallbackAfter: 2 * time.Second}})
		x.wake(t, actorA)
		got := x.hold(t, get(actorB)).mustRoute(2 * time.Second)
		if got.local != actorA || got.set["actor-name"] != actorA {
			t.Errorf("goes to %s as %s, want the fallback %s", got.local, got.set["actor-name"], actorA)
		}
		if rec := x.last(); rec.Actor != actorA || rec.Instead != actorB {
			t.Errorf("recorded as %s instead of %s", rec.Actor, rec.Instead)
		}
	})
}

func TestR68_ARouteThatWakesNobodyIsAnsweredWithTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{route: router.Route{Name: "look", Budget: time.Minute, MaxBudget: time.Minute, NoWake: true}})
		m, _ := x.hold(t, get(actorA)).next()
		response := m.GetImmediateResponse()
		if response.GetStatus().GetCode() != 200 || string(response.GetBody()) != `{"actor":"127.0.0.1:8001","state":"asleep"}` ||
			headerOf(response, "content-type") != "application/json" {
			t.Errorf("answer %v, want the state as JSON", m)
		}
		if rec := x.last(); rec.Wake != router.WakeSpared || rec.Status != 200 || rec.Reason != "" {
			t.Errorf("record %+v", rec)
		}
		m, _ = x.hold(t, get(actorA, "content-type", "application/grpc")).next()
		response = m.GetImmediateResponse()
		if got := response.GetGrpcStatus().GetStatus(); got != uint32(codes.FailedPrecondition) || !strings.Contains(string(response.GetBody()), "asleep") {
			t.Errorf("answer %v, want FAILED_PRECONDITION with the state", m)
		}
		if got := x.plane.Wakes(actorA); got != 0 {
			t.Errorf("%d wake-ups", got)
		}
		ride, err := x.router.Route(context.Background(), router.Ask{Actor: actorA})
		if err != nil {
			t.Fatal(err)
		}
		defer ride.Done()
		x.hold(t, get(actorA)).mustRoute(0)
	})
}

func TestByRoutesFindsActorsAsTheRoutesSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		names, err := router.NewNames([]router.Route{{Name: "one", Host: "a.example", Path: "/x", Header: "team", Value: "red",
			Actor: actorA, Budget: time.Minute, MaxBudget: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		x.router.SetNames(names)
		x.server = extproc.New(x.router, extproc.ByRoutes(x.router), extproc.Options{})
		x.serve(t)
		x.hold(t, headers{":method", "GET", ":authority", "A.Example:80", ":path", "/x?y", "team", "red"}).mustRoute(time.Second)
		connect := x.hold(t, headers{":method", "CONNECT", ":authority", "a.example:22", ":path", "/x", "team", "red"}).mustRoute(0)
		if connect.local != actorA {
			t.Errorf("a CONNECT goes to %s, want %s", connect.local, actorA)
		}
		if got := x.last().Route; got != "one" {
			t.Errorf("recorded under the route %q", got)
		}
		x.hold(t, headers{":method", "GET", ":authority", "a.example", ":path", "/x", "team", "blue"}).mustRefuse(0, router.NoRoute)
	})
}

type traceKey struct{}

func TestBeginSeesEachRequestAndItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paths []string
		var records []router.Record
		x := newRig(t, setup{
			o: extproc.Options{Begin: func(ctx context.Context, r *extproc.Request) (context.Context, extproc.Trace) {
				paths = append(paths, r.Path)
				return context.WithValue(ctx, traceKey{}, r.Path), extproc.Trace{End: func(rec router.Record) { records = append(records, rec) }}
			}},
		})
		x.hold(t, get(actorA)).mustRoute(time.Second)
		x.hold(t, get("nobody")).mustRefuse(0, router.UnknownActor)
		if !slices.Equal(paths, []string{"/", "/"}) || len(records) != 2 || records[0].Reason != "" || records[1].Reason != router.UnknownActor {
			t.Errorf("saw %q and the records %+v", paths, records)
		}
	})
}

func TestARecordSaysHostAndPathAndNoQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var records []router.Record
		x := newRig(t, setup{o: extproc.Options{Begin: func(ctx context.Context, _ *extproc.Request) (context.Context, extproc.Trace) {
			return ctx, extproc.Trace{End: func(rec router.Record) { records = append(records, rec) }}
		}}})
		x.hold(t, headers{":method", "GET", ":authority", "nobody.example:8080", ":path", "/a%2fb?key=secret"}).mustRefuse(0, router.UnknownActor)
		x.hold(t, headers{":method", "CONNECT", ":authority", "nobody.example:443"}).mustRefuse(0, router.UnknownActor)
		if len(records) != 2 || records[0].Host != "nobody.example:8080" || records[0].Path != "/a%2fb" || records[1].Host != "nobody.example:443" || records[1].Path != "" {
			t.Errorf("the records are %+v", records)
		}
	})
}

// As in the built-in proxy: what the actor is told of the trace is the span's,
// and without one the client's own.
func TestTheActorIsToldTheSpanOfItsRequest(t *testing.T) {
	for _, tc := range []struct {
		name    string
		header  http.Header
		set     map[string]string
		removed []string
	}{
		{"traces are off", nil, map[string]string{}, nil},
		{"a span", http.Header{"Traceparent": {"00-1-2-01"}, "Tracestate": {"a=b"}}, map[string]string{"traceparent": "00-1-2-01", "tracestate": "a=b"}, nil},
		{"a span of another trace", http.Header{"Traceparent": {"00-1-2-01"}, "Tracestate": nil}, map[string]string{"traceparent": "00-1-2-01"}, []string{"tracestate"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := newRig(t, setup{o: extproc.Options{Begin: func(ctx context.Context, _ *extproc.Request) (context.Context, extproc.Trace) {
				return ctx, extproc.Trace{Header: tc.header}
			}}})
			got := x.hold(t, get(actorA, "traceparent", "00-9-9-00", "tracestate", "c=d")).mustRoute(time.Second)
			delete(got.set, "x-envoy-original-dst-host")
			if !maps.Equal(got.set, tc.set) || !slices.Equal(got.removed, tc.removed) {
				t.Errorf("%s: set %v, removed %v, want %v, %v", tc.name, got.set, got.removed, tc.set, tc.removed)
			}
		})
	}
}

func TestEnvoyMayProbeASilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{route: router.Route{Budget: 10 * time.Minute, MaxBudget: 10 * time.Minute}})
		x.serve(t, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}))
		x.plane.Start = taking(5 * time.Minute)
		x.hold(t, get(actorA)).mustRoute(5 * time.Minute)
	})
}

func TestEnvoysConfigurationFitsTheAnswers(t *testing.T) {
	if extproc.PeerMetadata != envoy.PeerMetadata || extproc.PeerTrusted != envoy.PeerTrusted {
		t.Errorf("the processor trusts %s: %s, Envoy writes %s: %s", extproc.PeerMetadata, extproc.PeerTrusted, envoy.PeerMetadata, envoy.PeerTrusted)
	}
	if extproc.TargetNamespace != envoy.TargetNamespace || extproc.TargetAddress != envoy.TargetAddress || extproc.TargetProtocol != envoy.TargetProtocol {
		t.Errorf("the processor writes %s: %s, %s; Envoy reads %s: %s, %s", extproc.TargetNamespace, extproc.TargetAddress, extproc.TargetProtocol,
			envoy.TargetNamespace, envoy.TargetAddress, envoy.TargetProtocol)
	}
}
