package admin

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"layover/internal/router"
)

// How many actors one answer shows, at most and without a wish.
const (
	maxActors     = 2000
	defaultActors = 200
)

//go:embed statusz.html configz.html refused.html statusz.css statusz.js
var files embed.FS

// status is what /statusz.json shows.
type status struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Now     time.Time `json:"now"`
	Started time.Time `json:"started"`
	State   string    `json:"state"`

	Settings []Setting `json:"settings,omitempty"`
	Config   *config   `json:"config,omitempty"`

	Lot    Lot           `json:"lot"`
	Pools  []Pool        `json:"pools"`
	Totals router.Totals `json:"totals"`

	Actors     []router.ActorSnapshot `json:"actors"` // sorted by name
	ActorCount int                    `json:"actor_count"`
	Next       string                 `json:"next,omitempty"` // value of after for the next page

	Recent []Request `json:"recent"` // newest first
}

// Lot says how full the lot is.
type Lot struct {
	Active   int           `json:"active"`
	Capacity *int          `json:"capacity"` // null: unlimited
	Rejected uint64        `json:"rejected"`
	Longest  time.Duration `json:"longest_ns"`
}

// Pool is one pool and its line.
type Pool struct {
	Name    string   `json:"name"`
	Workers int      `json:"workers"`
	Used    int      `json:"used"`
	Waiting int      `json:"waiting"`
	Line    []Waiter `json:"line"`
}

// Waiter is one wake-up in a pool's line; the next one comes first.
type Waiter struct {
	Actor     string        `json:"actor,omitempty"`
	Band      int           `json:"band"`
	Since     time.Time     `json:"since"` // when its oldest request began
	InLine    time.Duration `json:"in_line_ns"`
	Remaining time.Duration `json:"remaining_ns,omitempty"`
	Ends      bool          `json:"ends"`
}

// Request is one request that has its answer, or, if Waiting says so, one that
// still waits: of that the method, the route and what comes with an answer are
// not known.
type Request struct {
	ID      string        `json:"id"`
	At      time.Time     `json:"at"`
	Method  string        `json:"method"`
	Route   string        `json:"route,omitempty"`
	Actor   string        `json:"actor,omitempty"`
	Instead string        `json:"instead_of,omitempty"` // the actor that was asked for, if Actor is its fallback
	Band    int           `json:"band"`
	Wake    router.Wake   `json:"wake,omitempty"`
	Parked  bool          `json:"parked"`
	Waited  time.Duration `json:"waited_ns"`
	Reason  router.Reason `json:"reason,omitempty"`
	Status  int           `json:"status"`
	MovedOn bool          `json:"moved_on,omitempty"` // its waiting page's browser asked again
	Took    time.Duration `json:"took_ns"`
	Detail  string        `json:"detail,omitempty"`
	Ledger  []Phase       `json:"ledger"`

	Waiting *ParkedRequest `json:"waiting,omitempty"`
}

// Phase is a line of a request's ledger; its times count from the request's
// arrival.
type Phase struct {
	Name    string        `json:"name"`
	First   time.Duration `json:"first_ns"`
	Last    time.Duration `json:"last_ns"`
	Elapsed time.Duration `json:"elapsed_ns"`
}

func (a *Admin) statuszJSON(w http.ResponseWriter, req *http.Request) {
	s, err := a.status(req.URL.Query())
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.Encode(s) // fails only if the client has left
}

// status looks at the router. query says which part of the actors is wanted.
func (a *Admin) status(query url.Values) (*status, error) {
	limit := defaultActors
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxActors {
			return nil, fmt.Errorf("limit must be a number from 1 to %d", maxActors)
		}
		limit = n
	}
	s := &status{Name: a.options.Name, Version: a.options.Version, Settings: a.options.Settings, Config: a.configNow(), Now: time.Now(), Started: a.started, State: a.state(),
		Pools: []Pool{}, Actors: []router.ActorSnapshot{}, Recent: []Request{}}
	if a.router.Load() == nil {
		return s, nil
	}
	seen := a.look(0)
	s.Totals, s.Lot = seen.Totals, lotOf(seen)
	for _, p := range seen.Plane.Pools {
		s.Pools = append(s.Pools, poolOf(p))
	}
	for _, rec := range seen.Recent {
		s.Recent = append(s.Recent, requestOf(rec))
	}
	s.page(seen.Plane.Actors, query.Get("after"), limit)
	return s, nil
}

func (s *status) page(actors []router.ActorSnapshot, after string, limit int) {
	s.ActorCount = len(actors)
	for _, actor := range actors {
		if actor.Name <= after {
			continue
		}
		if len(s.Actors) == limit {
			s.Next = s.Actors[limit-1].Name
			return
		}
		s.Actors = append(s.Actors, actor)
	}
}

func lotOf(seen router.Snapshot) Lot {
	l := Lot{Active: seen.Lot.Active, Rejected: seen.Lot.Rejected, Longest: seen.Lot.Longest}
	if seen.Lot.Capacity >= 0 {
		l.Capacity = &seen.Lot.Capacity
	}
	return l
}

func poolOf(p router.PoolSnapshot) Pool {
	out := Pool{Name: p.Name, Workers: p.Workers, Used: p.Used, Waiting: p.Waiting, Line: []Waiter{}}
	for _, w := range p.Line {
		out.Line = append(out.Line, Waiter{Actor: w.Actor, Band: w.Claim.Priority, Since: w.Claim.Since, InLine: w.Age, Remaining: w.Remaining, Ends: w.Ends})
	}
	return out
}

func requestOf(rec router.Record) Request {
	out := Request{ID: rec.ID, At: rec.At, Method: rec.Method, Route: rec.Route, Actor: rec.Actor, Instead: rec.Instead, Band: rec.Band, Wake: rec.Wake,
		Parked: rec.Parked, Waited: rec.ParkedFor, Reason: rec.Reason, Status: rec.Status, MovedOn: rec.MovedOn, Took: rec.Took, Detail: strings.TrimPrefix(rec.Detail, "router: "), Ledger: []Phase{}}
	ledger := rec.Budget.Ledger()
	offset := time.Duration(0)
	if !ledger.Start.IsZero() {
		offset = ledger.Start.Sub(rec.At)
	}
	for _, e := range ledger.Phases {
		if e.Depth == 0 {
			out.Ledger = append(out.Ledger, Phase{Name: e.Name, First: offset + e.First, Last: offset + e.Last, Elapsed: e.Elapsed})
		}
	}
	return out
}

// short rounds a duration to what people compare.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return trimmed(d.Round(time.Second))
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// trimmed writes d without its zero parts: 5m, not 5m0s.
func trimmed(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
