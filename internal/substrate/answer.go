package substrate

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"layover/internal/router"
	"layover/internal/substrate/ateapi"
)

// retryable reports whether an answer says that another attempt may succeed.
// Only codes are looked at: they survive every interceptor and proxy on the way,
// details do not.
func retryable(code codes.Code, failFast bool) bool {
	switch code {
	case codes.Aborted: // another operation on the actor is under way
		return true
	case codes.ResourceExhausted, // no free worker
		codes.FailedPrecondition, // a state that passes
		codes.Unavailable:        // the control plane restarts
		return !failFast
	}
	return false
}

// refusal is what a client is told of the control plane's answer err. The
// control plane's own words are passed on where they are about the actor; else
// they may tell addresses and internals, and stay in the cause.
func refusal(ref Ref, err error) *router.Error {
	said := status.Convert(err)
	switch said.Code() {
	case codes.ResourceExhausted:
		return router.Fail(router.NoWorker, words(said, "there is no free worker"), err)
	case codes.Aborted, codes.FailedPrecondition:
		return router.Fail(router.StillWaking, words(said, "the actor cannot be resumed at this moment"), err)
	case codes.Unavailable:
		return router.Fail(router.PlaneUnavailable, "the control plane is not available", err)
	case codes.NotFound:
		return router.Fail(router.UnknownActor, fmt.Sprintf("actor %s not found", ref), err)
	case codes.PermissionDenied:
		return router.Fail(router.Forbidden, fmt.Sprintf("access to actor %s is denied", ref), err)
	case codes.Unauthenticated:
		return router.Fail(router.Unauthenticated, fmt.Sprintf("actor %s asks for authentication", ref), err)
	case codes.DeadlineExceeded:
		return router.Fail(router.WakeTimeout, fmt.Sprintf("actor %s was not resumed in time", ref), err)
	case codes.InvalidArgument:
		return router.Fail(router.BadRequest, words(said, "the control plane refuses the request"), err)
	}
	return router.Fail(router.PlaneFailed, fmt.Sprintf("actor %s could not be resumed", ref), err)
}

// words are the control plane's, in one short line; none are replaced.
func words(said *status.Status, none string) string {
	const most = 200
	s := strings.Join(strings.Fields(strings.ToValidUTF8(said.Message(), "\uFFFD")), " ")
	if s == "" {
		return none
	}
	if len(s) > most {
		s = s[:most]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "..."
	}
	return s
}

// target is where a runs. Its address is not to be kept: workers are given to
// other actors.
func (p *Plane) target(ref Ref, a *ateapi.Actor) (router.Target, error) {
	said := a.GetStatus().GetWorkerAssignment().GetWorkerPodIp()
	ip, err := netip.ParseAddr(said)
	if err != nil || ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" {
		return router.Target{}, router.Fail(router.PlaneFailed, fmt.Sprintf("actor %s routing failed", ref),
			fmt.Errorf("the control plane says that it runs at %q, which is no worker's address", said))
	}
	return router.Target{
		Addr:     net.JoinHostPort(ip.Unmap().String(), strconv.Itoa(int(p.o.Port))),
		Protocol: router.ProtocolH1,
		Wake:     uint64(a.GetMetadata().GetVersion()), // which grows with each resume, and stays while it runs undisturbed
	}, nil
}
