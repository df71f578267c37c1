package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"layover/internal/router"
)

// Control is what can be done to a plane besides waking, which the router does.
// Its methods may be called from any goroutine; an error about a name that does
// not exist is an *router.Error of reason UnknownActor.
type Control interface {
	// Sleep puts an actor to sleep and returns when it is, or with ctx's cause.
	Sleep(ctx context.Context, actor string) error
	// Resize gives a pool another number of workers.
	Resize(pool string, workers int) error
	// Output returns the lines that an actor printed after a position, and the
	// position behind them.
	Output(actor string, from router.Position) ([]string, router.Position, error)
	// Follow calls print with the lines after a position, at once, and then with
	// each that is printed, until ctx ends, print fails or the actor is removed.
	Follow(ctx context.Context, actor string, from router.Position, print func([]string) error) error
}

// control is a Control and what opens it.
type control struct {
	Control
	token [sha256.Size]byte // digest
}

// SetControl lets those who know token wake actors, and do what c can. c may be
// nil: then they can only wake. An empty token lets nobody. Before it is called,
// nothing can be changed.
func (a *Admin) SetControl(c Control, token string) {
	if token == "" {
		a.control.Store(nil)
		return
	}
	a.control.Store(&control{Control: c, token: sha256.Sum256([]byte(token))})
}

// How long a change is waited for.
const (
	defaultChange = 30 * time.Second
	LongestChange = 5 * time.Minute // the most that can be asked for
)

// maxBody bounds what is read of a request's body.
const maxBody = 4 << 10

// Problem is the body of an answer that is an error (RFC 9457).
type Problem struct {
	Title  string        `json:"title"`
	Status int           `json:"status"`
	Detail string        `json:"detail"`
	Reason router.Reason `json:"reason,omitempty"`
	Output []string      `json:"output,omitempty"` // last lines of an actor that did not start
}

func (p *Problem) Error() string { return p.Detail }

func problem(status int, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

func refuse(w http.ResponseWriter, p *Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p) // fails only if the client has left
}

// problemOf says of a failed change what its caller must know.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	e, ok := errors.AsType[*router.Error](err)
	if !ok {
		return problem(http.StatusBadRequest, "%s", strings.TrimPrefix(err.Error(), "local: "))
	}
	status := http.StatusServiceUnavailable
	switch e.Reason {
	case router.UnknownActor:
		status = http.StatusNotFound
	case router.StartFailed:
		status = http.StatusBadGateway
	case router.Internal, router.PlaneFailed:
		status = http.StatusInternalServerError
	}
	p := problem(status, "%s", cmp.Or(e.Detail, string(e.Reason)))
	p.Reason, p.Output = e.Reason, e.Output
	switch {
	case e.Err == nil || e.Err.Error() == "":
	case e.Reason == router.StartFailed: // Detail is what clients may know of it
		p.Detail = "it did not start: " + strings.TrimPrefix(e.Err.Error(), "local: ")
	case e.Reason == router.BackingOff:
		p.Detail += ": " + e.Err.Error()
	}
	if e.Reason == router.StartFailed && e.RetryAfter > 0 {
		p.Detail += fmt.Sprintf("; the next start is possible in %s", short(e.RetryAfter))
	}
	return p
}

// allowed returns what may be changed by a request, or why nothing may.
func (a *Admin) allowed(req *http.Request) (*control, *Problem) {
	c := a.control.Load()
	if c == nil {
		return nil, problem(http.StatusForbidden, "this router lets nobody change anything over its admin address")
	}
	if origin := req.Header.Get("Origin"); origin != "" {
		from, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(from.Host, req.Host) {
			return nil, problem(http.StatusForbidden, "requests that a page elsewhere makes are not answered here")
		}
	}
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	digest := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(digest[:], c.token[:]) != 1 {
		return nil, problem(http.StatusUnauthorized, "the token is missing or wrong; send 'Authorization: Bearer TOKEN', with the token that 'layover token' prints")
	}
	return c, nil
}

// change answers a request that changes something called name: act does it, and
// returns what to show. It is logged, whatever comes of it.
func (a *Admin) change(what, name string, act func(*control, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		c, wrong := a.allowed(req)
		if wrong != nil {
			a.options.Log.Warn("operator refused", "change", what, "of", req.PathValue(name), "from", req.RemoteAddr, "status", wrong.Status)
			if wrong.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			refuse(w, wrong)
			return
		}
		shown, err := act(c, req)
		log := a.options.Log.With("change", what, "of", req.PathValue(name), "from", req.RemoteAddr)
		if err == nil {
			log.Info("operator")
		} else {
			log.Warn("operator", "err", problemOf(err))
			refuse(w, problemOf(err))
			return
		}
		answer(w, shown)
	}
}

func (a *Admin) wake(_ *control, req *http.Request) (any, error) {
	wait, err := waitOf(req)
	if err != nil {
		return nil, err
	}
	r := a.router.Load()
	if r == nil {
		return nil, errStarting
	}
	if err := r.Wake(req.Context(), req.PathValue("actor"), wait); err != nil {
		p := problemOf(err)
		if row, err := a.actorNow(req.PathValue("actor")); err == nil && p.Reason == router.StillWaking && row.Lacks != "" {
			p.Detail += ": " + row.Lacks
		}
		return nil, p
	}
	return a.actorNow(req.PathValue("actor"))
}

func (a *Admin) sleep(c *control, req *http.Request) (any, error) {
	wait, err := waitOf(req)
	if err != nil {
		return nil, err
	}
	if c.Control == nil {
		return nil, errCannot
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), wait, problem(http.StatusServiceUnavailable, "it is still going to sleep after %v: requests are with it, or its program takes its grace", wait))
	defer cancel()
	name := req.PathValue("actor")
	if err := c.Sleep(ctx, name); err != nil {
		return nil, err
	}
	if s, err := a.actorNow(name); err == nil {
		return s, nil
	}
	return Actor{ActorSnapshot: router.ActorSnapshot{Name: name, State: router.Asleep}}, nil // a template's, which is gone with that
}

func (a *Admin) resize(c *control, req *http.Request) (any, error) {
	var body struct {
		Workers *int `json:"workers"`
	}
	decoder := json.NewDecoder(io.LimitReader(req.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil || body.Workers == nil {
		return nil, problem(http.StatusBadRequest, `the body must be JSON such as {"workers": 4}`)
	}
	if c.Control == nil {
		return nil, errCannot
	}
	if err := c.Resize(req.PathValue("pool"), *body.Workers); err != nil {
		if router.ReasonOf(err) == router.UnknownActor {
			return nil, noPool(a.look(0), req.PathValue("pool"))
		}
		return nil, err
	}
	for _, p := range a.look(0).Plane.Pools {
		if p.Name == req.PathValue("pool") {
			return poolOf(p), nil
		}
	}
	return nil, noPool(a.look(0), req.PathValue("pool"))
}

var (
	errStarting = problem(http.StatusServiceUnavailable, "the router is starting")
	errCannot   = problem(http.StatusNotImplemented, "what wakes this router's actors cannot be told to do that")
)

// waitOf is how long a request wants to wait for its change.
func waitOf(req *http.Request) (time.Duration, error) {
	text := req.URL.Query().Get("wait")
	if text == "" {
		return defaultChange, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > LongestChange {
		return 0, problem(http.StatusBadRequest, "wait must be a duration such as 30s, at most %v", LongestChange)
	}
	return d, nil
}
