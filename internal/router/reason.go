package router

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Reason names why a request was refused. The set is closed: answer's table
// has exactly one row for each, and metrics use these words as labels.
type Reason string

// The reasons. Which status each becomes is decided in package answer.
const (
	BadRequest       Reason = "bad_request"       // something in the request cannot be passed on
	BadHost          Reason = "bad_host"          // the host or authority is none, or has a port that none can have
	BadDeadline      Reason = "bad_deadline"      // a deadline header that cannot be read
	DeadlinePast     Reason = "deadline_past"     // the caller's deadline was over on arrival
	NoRoute          Reason = "no_route"          // no route matches
	UnknownActor     Reason = "unknown_actor"     // the route names an actor that does not exist
	Forbidden        Reason = "forbidden"         // the plane refuses this caller
	Unauthenticated  Reason = "unauthenticated"   // the plane does not know this caller
	LotFull          Reason = "lot_full"          // it had to park, and there was no spot
	ActorBusy        Reason = "actor_busy"        // the actor has as many requests as it may; no turn in time, or too many wait
	NoWorker         Reason = "no_worker"         // the budget ended in the pool's line
	StillWaking      Reason = "still_waking"      // the budget ended while the actor was starting
	StartFailed      Reason = "start_failed"      // the wake-up failed
	BackingOff       Reason = "backing_off"       // wake-ups failed lately; the next try is not due yet
	WakeTimeout      Reason = "wake_timeout"      // an attempt to wake the actor took longer than it may
	PlaneUnavailable Reason = "plane_unavailable" // what wakes actors cannot be reached
	PlaneFailed      Reason = "plane_failed"      // what wakes actors gave an answer that is of no use
	ActorUnreachable Reason = "actor_unreachable" // awake, but no connection to it can be had
	ActorFailed      Reason = "actor_failed"      // the connection broke before an answer
	AttemptTimeout   Reason = "attempt_timeout"   // the budget ended before the actor answered
	ClientGone       Reason = "client_gone"       // the client left; nobody reads the answer
	Internal         Reason = "internal"          // a fault of ours
)

// Reasons lists every reason once.
var Reasons = []Reason{
	BadRequest, BadHost, BadDeadline, DeadlinePast, NoRoute, UnknownActor, Forbidden, Unauthenticated,
	LotFull, ActorBusy, NoWorker, StillWaking, StartFailed, BackingOff, WakeTimeout, PlaneUnavailable, PlaneFailed,
	ActorUnreachable, ActorFailed, AttemptTimeout, ClientGone, Internal,
}

// Error is a refused request: what package answer turns into a response.
type Error struct {
	Reason Reason
	Actor  string // empty when no actor was chosen yet
	Detail string // one line for people; safe to show to the client

	// RetryAfter is when a retry makes sense, counted from now; zero means
	// that no better guess than the shortest one exists.
	RetryAfter time.Duration

	// Output holds the last lines that the actor printed, for the operator's
	// page and log. It is never sent to a client.
	Output []string

	Wait Wait  // what the request went through; zero if it never waited
	Err  error // the cause; may be nil
}

// Fail returns an *Error of the given reason. Planes use it for everything
// that Resume reports.
func Fail(reason Reason, detail string, err error) *Error {
	return &Error{Reason: reason, Detail: detail, Err: err}
}

func (e *Error) Error() string {
	s := "router: " + string(e.Reason)
	if e.Actor != "" {
		s += fmt.Sprintf(": actor %q", e.Actor)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil && !strings.Contains(e.Detail, e.Err.Error()) {
		s += continued(e.Detail, e.Err.Error())
	}
	return s
}

// continued returns what cause adds to detail: a cause that begins with the
// last words of the detail goes on from there.
func continued(detail, cause string) string {
	for i := range detail {
		rest, goesOn := strings.CutPrefix(cause, detail[i:])
		if goesOn && (i == 0 || detail[i-1] == ' ') && (rest == "" || strings.ContainsRune(" :;,(", rune(rest[0]))) {
			return rest
		}
	}
	return ": " + cause
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason that err carries, Internal if it carries none,
// and "" for nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return Internal
}
