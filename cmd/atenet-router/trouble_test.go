package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"layover/internal/sampled"
	"layover/internal/substrate/controlplane"
)

func TestATroubleOfTheControlPlaneIsLoggedOnceThenCountedThenWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := new(logBuffer)
		s := newTrouble(slog.New(slog.NewTextHandler(text, nil)))
		mustSay := func(want ...string) {
			t.Helper()
			synctest.Wait()
			lines := strings.Split(strings.TrimSpace(text.String()), "\n")
			text.Reset()
			if len(lines) != len(want) {
				t.Fatalf("said\n%s\nwant %q", strings.Join(lines, "\n"), want)
			}
			for i, line := range lines {
				for part := range strings.SplitSeq(want[i], "|") {
					if !strings.Contains(line, part) {
						t.Errorf("said\n%s\nwant %q", line, part)
					}
				}
			}
		}
		for i := range 1000 {
			s.observe("ResumeActor", status.Error(codes.Unavailable, fmt.Sprintf("refused %d", i)))
			s.observe("ResumeActor", status.Error(codes.Canceled, "the caller left"))
		}
		mustSay("level=WARN|the control plane fails|method=ResumeActor|code=Unavailable|refused 0")
		s.observe("GetActor", status.Error(codes.PermissionDenied, "not you"))
		mustSay("method=GetActor|code=PermissionDenied|not you|stand in one line")
		time.Sleep(sampled.Every - 1)
		s.observe("ResumeActor", status.Error(codes.ResourceExhausted, "no free workers")) // it does its work
		time.Sleep(time.Nanosecond)
		mustSay("method=ResumeActor|refused 999|calls=999")
		time.Sleep(sampled.Every)
		mustSay("level=INFO|the control plane is well again|method=ResumeActor|code=Unavailable")
		for range 1000 {
			s.observe("ResumeActor", nil)
		}
		time.Sleep(time.Hour)
		mustSay("")
		s.observe("GetActor", nil)
		mustSay("the control plane is well again|method=GetActor|code=PermissionDenied")
	})
}

func TestWhatTheControlPlaneSaysAboutActorsIsNoTrouble(t *testing.T) {
	for code, want := range map[codes.Code]bool{
		codes.OK: false, codes.ResourceExhausted: false, codes.NotFound: false, codes.Aborted: false, codes.FailedPrecondition: false,
		codes.InvalidArgument: false, codes.PermissionDenied: false,
		codes.Unavailable: true, codes.Internal: true, codes.Unauthenticated: true, codes.DeadlineExceeded: true, codes.Unimplemented: true, codes.Unknown: true,
	} {
		if got := isTrouble("ResumeActor", code); got != want {
			t.Errorf("isTrouble(ResumeActor, %v) = %v", code, got)
		}
	}
	if !isTrouble("GetActor", codes.PermissionDenied) {
		t.Error("a GetActor that is denied is no trouble")
	}
}

// The whole router: a storm of failures is a line for the calls and one for the
// requests, and a denied GetActor has one, too.
func TestAStormOfFailuresIsAFewLines(t *testing.T) {
	text := new(logBuffer)
	c, _, plane := ownFrontLogging(t, text, "--parked-request-budget=300ms", "--envoy-admin=off")
	plane.Inject(controlplane.Fault{Method: "ResumeActor", Code: codes.Internal, Message: "disk full", Times: 50})
	for range 50 {
		if status, _ := ask(t, c.listen, "a"+suffix); status != 500 {
			t.Fatalf("the answer is %d, want 500", status)
		}
	}
	ask(t, c.listen, "a"+suffix)
	plane.Inject(controlplane.Fault{Method: "GetActor", Code: codes.PermissionDenied, Message: "not you", Times: 50})
	for range 3 {
		if status, _ := ask(t, c.listen, "b"+suffix); status != 503 {
			t.Fatalf("the answer is %d, want 503", status)
		}
	}
	for what, want := range map[string]int{
		`msg="the control plane fails" method=ResumeActor code=Internal err="disk full"`:    1,
		`msg="request not served" reason=plane_failed route=actors actor=demo/a status=500`: 1,
		`msg="the control plane fails" method=GetActor code=PermissionDenied err="not you"`: 1,
		`msg="request not served" reason=no_worker route=actors actor=demo/b`:               1,
	} {
		if n := strings.Count(text.String(), what); n != want {
			t.Errorf("%d lines with %s, want %d:\n%s", n, what, want, text)
		}
	}
}
