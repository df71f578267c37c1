package proxy

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"layover/internal/router"
)

func TestR68_R69_ARouteThatDoesNotWakeAnswersFromTheState(t *testing.T) {
	f := newFixture(t, setup{routes: []router.Route{
		{Name: "health", Host: "{actor}.test", Path: "/healthz", NoWake: true, Budget: time.Minute, MaxBudget: time.Minute}}})
	f.actorH1("a", false, hello)
	for _, version := range []int{1, 2} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			r := get(t, do(f.client(version), f.request(method, "a", "/healthz", nil)))
			want := `{"actor":"a","state":"asleep"}`
			if method == "HEAD" {
				want = ""
			}
			if r.resp.StatusCode != 200 || r.body != want || r.resp.Header.Get("Content-Type") != "application/json" || r.resp.ContentLength != 30 {
				t.Errorf("%s over HTTP/%d: %d %q, %v", method, version, r.resp.StatusCode, r.body, r.resp.Header)
			}
			if rec := f.record(); rec.Status != 200 || rec.Reason != "" || rec.Wake != router.WakeSpared || rec.Route != "health" {
				t.Errorf("record = %+v", rec)
			}
		}
	}
	if n := f.asked(); n != 0 {
		t.Errorf("the actor was wanted %d times", n)
	}
	if r := get(t, do(f.client(1), f.request("GET", "nobody", "/healthz", nil))); r.resp.StatusCode != 404 {
		t.Errorf("an unknown actor: %d, want 404", r.resp.StatusCode)
	}
	f.record()
	done := do(f.client(1), f.request("GET", "a", "/", nil))
	f.parked()
	f.wake("a")
	get(t, done)
	f.record()
	if r := get(t, do(f.client(1), f.request("GET", "a", "/healthz", nil))); r.body != "hello" {
		t.Errorf("an awake actor: %q, want its own answer", r.body)
	}
	if rec := f.record(); rec.Wake != router.WakeNone {
		t.Errorf("record = %+v", rec)
	}
}

func TestAGlanceDoesNotWakeAnActorThatFallsAsleepUnderIt(t *testing.T) {
	f := newFixture(t, setup{routes: []router.Route{
		{Name: "health", Host: "{actor}.test", Path: "/healthz", NoWake: true, Budget: time.Minute, MaxBudget: time.Minute}}})
	f.add("a", router.ProtocolH1, "127.0.0.1:1", true) // refused, and tried again
	done := do(f.client(1), f.request("GET", "a", "/healthz", nil))
	until(t, "the request is with the actor", func() bool { return f.rides() == 1 })
	f.sleep("a", "")
	if r := get(t, done); r.resp.StatusCode != 502 || r.resp.Header.Get("Layover-Reason") != string(router.ActorUnreachable) {
		t.Errorf("%d %v, want 502 actor_unreachable", r.resp.StatusCode, r.resp.Header)
	}
}

func TestR68_R69_AGRPCCallThatDoesNotWakeGetsAGRPCAnswer(t *testing.T) {
	f := newFixture(t, setup{routes: []router.Route{
		{Name: "monitor", Host: "{actor}.test", NoWake: true, Budget: time.Minute, MaxBudget: time.Minute}}})
	f.grpcActor("a", false)
	c := f.grpcClient("a")
	err := c.Invoke(t.Context(), "/test.Test/Echo", wrapperspb.String("hello"), new(wrapperspb.StringValue))
	if got := status.Convert(err); got.Code() != codes.FailedPrecondition || got.Message() != "a is asleep, and this route wakes nobody" {
		t.Errorf("a call: %v, want FailedPrecondition and the state", err)
	}
	if rec := f.record(); rec.Reason != "" || rec.Wake != router.WakeSpared {
		t.Errorf("record = %+v", rec)
	}
	health, err := grpc_health_v1.NewHealthClient(c).Check(t.Context(), new(grpc_health_v1.HealthCheckRequest))
	if err != nil || health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("a health check: %v, %v, want SERVING", health, err)
	}
	f.record()
	err = f.grpcClient("nobody").Invoke(t.Context(), "/test.Test/Echo", wrapperspb.String("hello"), new(wrapperspb.StringValue))
	if status.Code(err) != codes.NotFound {
		t.Errorf("a call to nobody: %v, want NotFound", err)
	}
	f.record()
	if n := f.asked(); n != 0 {
		t.Errorf("the actor was wanted %d times", n)
	}
}
