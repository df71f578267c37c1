package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"layover/internal/router"
)

// How many rows one answer has, at most and without a wish.
const (
	maxRows     = 500
	defaultRows = 100
)

// Status is the answer of GET /api/v1/status.
type Status struct {
	Name     string               `json:"name"`
	Version  string               `json:"version"`
	State    string               `json:"state"`
	Now      time.Time            `json:"now"`
	Started  time.Time            `json:"started"`
	Settings []Setting            `json:"settings"`
	Lot      Lot                  `json:"lot"`
	Totals   router.Totals        `json:"totals"`
	Actors   map[router.State]int `json:"actors"`  // by state
	Failing  int                  `json:"failing"` // of them, whatever state they are in: their last start failed
	Pools    int                  `json:"pools"`
	// What is wrong with a newer text of the configuration file, which was refused.
	ConfigProblems []string `json:"config_problems,omitempty"`
}

// Actor is one actor.
type Actor struct {
	router.ActorSnapshot
	WakeP50   time.Duration `json:"wake_p50_ns,omitempty"` // of its last wake-ups
	WakeP99   time.Duration `json:"wake_p99_ns,omitempty"`
	WakesSeen int           `json:"wakes_seen,omitempty"` // how many those are, at most 16
}

// Actors is a page of them, by name.
type Actors struct {
	Total int     `json:"total"` // that match
	Next  string  `json:"next,omitempty"`
	Rows  []Actor `json:"rows"`
}

// Pools is a page of them, by name.
type Pools struct {
	Total int    `json:"total"`
	Next  string `json:"next,omitempty"`
	Rows  []Pool `json:"rows"`
}

// Parked is a page of the requests that wait now, in order of band and age.
type Parked struct {
	Lot
	Total int             `json:"total"`
	Next  string          `json:"next,omitempty"`
	Rows  []ParkedRequest `json:"rows"`
}

// ParkedRequest is one of them.
type ParkedRequest struct {
	ID        string        `json:"id"`
	Actor     string        `json:"actor"`
	Band      int           `json:"band"`
	Phase     string        `json:"waits_for,omitempty"` // turn, line, sleep or wake; empty: none of them
	Place     int           `json:"place,omitempty"`     // in the line for that, from 1
	Since     time.Time     `json:"since"`               // when it, or the job that it is a part of, began
	Remaining time.Duration `json:"remaining_ns,omitempty"`
	Ends      bool          `json:"ends"`
}

// Requests is a page of the last requests that have their answer, newest first.
type Requests struct {
	Total int       `json:"total"`
	Next  string    `json:"next,omitempty"`
	Rows  []Request `json:"rows"`
}

// Configuration is the answer of GET /api/v1/config.
type Configuration struct {
	File    string   `json:"file"`
	Text    string   `json:"text"`              // of the file in force, without its secrets
	Plan    string   `json:"plan"`              // the times that follow from it
	Restart []string `json:"restart,omitempty"` // settings that the text has and that need a restart
}

// Output is the answer of GET /api/v1/actors/{actor}/logs.
type Output struct {
	Lines []string        `json:"lines"`
	Next  router.Position `json:"next"`
}

// routes are the paths of the API, as docs/openapi.yaml has them.
func (a *Admin) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /api/v1/status":                rows(a.statusNow),
		"GET /api/v1/actors":                rows(a.actors),
		"GET /api/v1/actors/{actor}":        a.actor,
		"GET /api/v1/actors/{actor}/logs":   a.logs,
		"POST /api/v1/actors/{actor}/wake":  a.change("wake", "actor", a.wake),
		"POST /api/v1/actors/{actor}/sleep": a.change("sleep", "actor", a.sleep),
		"GET /api/v1/pools":                 rows(a.pools),
		"POST /api/v1/pools/{pool}/resize":  a.change("resize", "pool", a.resize),
		"GET /api/v1/lot":                   rows(a.parked),
		"GET /api/v1/requests":              rows(a.requests),
		"GET /api/v1/requests/{id}":         a.request,
		"GET /api/v1/config":                rows(a.configInForce),
	}
}

// look returns the router at a moment that is at most so long before the call.
// Those who ask at the same time share one look: nothing in it may be changed.
func (a *Admin) look(old time.Duration) router.Snapshot {
	since := time.Now().Add(-old)
	a.seenMu.Lock()
	defer a.seenMu.Unlock()
	r := a.router.Load()
	if r == nil {
		return router.Snapshot{}
	}
	if !a.seenAt.After(since) {
		a.seenAt = time.Now()
		a.seen = r.Snapshot()
	}
	return a.seen
}

// query is what part of a list is wanted.
type query struct {
	url.Values
	limit int
	words []string // of search, in lower case
}

func queryOf(values url.Values, fallback, most int) (q query, err error) {
	q = query{Values: values, limit: fallback, words: strings.Fields(strings.ToLower(values.Get("search")))}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return q, problem(http.StatusBadRequest, "limit must be a number from 1 to %d", most)
		}
		q.limit = n
	}
	if len(values.Get("search")) > 200 {
		return q, problem(http.StatusBadRequest, "search may have 200 bytes")
	}
	return q, nil
}

// matches reports whether each word of the search is in one of the texts.
func (q query) matches(texts ...string) bool {
	for _, word := range q.words {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), word) }) {
			return false
		}
	}
	return true
}

// is reports whether the parameter is absent or is value.
func (q query) is(name, value string) bool {
	want := q.Get(name)
	return want == "" || want == value
}

// named returns the part of rows, which are sorted by name, that comes after the
// wanted one.
func named[T any](all []T, q query, name func(T) string) (rows []T, next string) {
	after := q.Get("after")
	for _, row := range all {
		if name(row) <= after {
			continue
		}
		if len(rows) == q.limit {
			return rows, name(rows[q.limit-1])
		}
		rows = append(rows, row)
	}
	return rows, ""
}

// numbered returns the part of rows that begins with the wanted number.
func numbered[T any](all []T, q query) (rows []T, next string, err error) {
	from := 0
	if text := q.Get("after"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, "", problem(http.StatusBadRequest, "after must be the next of the page before")
		}
		from = n
	}
	rows = all[min(from, len(all)):]
	if len(rows) > q.limit {
		return rows[:q.limit], strconv.Itoa(from + q.limit), nil
	}
	return rows, "", nil
}

// rows answers with what list returns for the request's query.
func rows[T any](list func(query) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		q, err := queryOf(req.URL.Query(), defaultRows, maxRows)
		if err != nil {
			refuse(w, problemOf(err))
			return
		}
		shown, err := list(q)
		if err != nil {
			refuse(w, problemOf(err))
			return
		}
		answer(w, shown)
	}
}

func answer(w http.ResponseWriter, shown any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.Encode(shown) // fails only if the client has left
}

func (a *Admin) statusNow(query) (Status, error) { return a.statusOf(a.look(0)), nil }

func (a *Admin) statusOf(seen router.Snapshot) Status {
	s := Status{Name: a.options.Name, Version: a.options.Version, State: a.state(), Now: time.Now(), Started: a.started,
		Settings: append([]Setting{}, a.options.Settings...), Lot: lotOf(seen), Totals: seen.Totals,
		Actors: make(map[router.State]int), Pools: len(seen.Plane.Pools)}
	for _, actor := range seen.Plane.Actors {
		s.Actors[actor.State]++
		if actor.Failing {
			s.Failing++
		}
	}
	if c := a.configNow(); c != nil {
		s.ConfigProblems = c.Problems
	}
	return s
}

func (a *Admin) actors(q query) (Actors, error) {
	seen := a.look(0)
	if err := known("state", q.Get("state"), states()); err != nil {
		return Actors{}, err
	}
	if err := known("value of failing", q.Get("failing"), []string{"true", "false"}); err != nil {
		return Actors{}, err
	}
	return a.actorsOf(seen, q), known("pool", q.Get("pool"), poolNames(seen))
}

func poolNames(seen router.Snapshot) (names []string) {
	for _, p := range seen.Plane.Pools {
		names = append(names, p.Name)
	}
	return names
}

// noPool says which pools there are.
func noPool(seen router.Snapshot, name string) *Problem {
	return problem(http.StatusNotFound, "there is no pool %q; use one of %s", name, strings.Join(poolNames(seen), ", "))
}

// states are those of an actor, the ones that people look for first.
func states() []string {
	return []string{string(router.Awake), string(router.Waking), string(router.GoingToSleep), string(router.Failed), string(router.Asleep)}
}

// known refuses a value that nothing can have: no answer would look as if all
// was well.
func known(what, value string, all []string) error {
	if value == "" || slices.Contains(all, value) {
		return nil
	}
	if len(all) == 0 {
		return problem(http.StatusBadRequest, "there is no %s %q, nor any other now", what, value)
	}
	return problem(http.StatusBadRequest, "there is no %s %q; use one of %s", what, value, strings.Join(all, ", "))
}

func (a *Admin) actorsOf(seen router.Snapshot, q query) Actors {
	var found []*router.ActorSnapshot
	for i := range seen.Plane.Actors {
		actor := &seen.Plane.Actors[i]
		if q.is("pool", actor.Pool) && q.is("state", string(actor.State)) && q.is("failing", strconv.FormatBool(actor.Failing)) && q.matches(actor.Name, actor.Pool, string(actor.State), actor.Lacks, actor.LastError) {
			found = append(found, actor)
		}
	}
	page, next := named(found, q, func(s *router.ActorSnapshot) string { return s.Name })
	out := Actors{Total: len(found), Next: next, Rows: []Actor{}}
	for _, actor := range page {
		out.Rows = append(out.Rows, a.actorOf(*actor))
	}
	return out
}

// actorOf adds to an actor what the router knows of its wake-ups.
func (a *Admin) actorOf(s router.ActorSnapshot) Actor {
	row := Actor{ActorSnapshot: s}
	row.WakeP50, row.WakeP99, row.WakesSeen = a.router.Load().WakeTimes(s.Name)
	return row
}

func (a *Admin) actor(w http.ResponseWriter, req *http.Request) {
	shown, err := a.actorNow(req.PathValue("actor"))
	if err != nil {
		refuse(w, problemOf(err))
		return
	}
	answer(w, shown)
}

func (a *Admin) actorNow(name string) (Actor, error) {
	all := a.look(0).Plane.Actors
	i, ok := slices.BinarySearchFunc(all, name, func(s router.ActorSnapshot, name string) int { return cmp.Compare(s.Name, name) })
	if !ok {
		return Actor{}, problem(http.StatusNotFound, "there is no actor of this name; one of a template exists while it is wanted or awake")
	}
	return a.actorOf(all[i]), nil
}

func (a *Admin) pools(q query) (Pools, error) { return poolsOf(a.look(0), q), nil }

func poolsOf(seen router.Snapshot, q query) Pools {
	var found []Pool
	for _, p := range seen.Plane.Pools {
		if q.matches(p.Name) {
			found = append(found, poolOf(p))
		}
	}
	page, next := named(found, q, func(p Pool) string { return p.Name })
	return Pools{Total: len(found), Next: next, Rows: append([]Pool{}, page...)}
}

func (a *Admin) parked(q query) (Parked, error) { return a.parkedOf(a.look(0), q) }

func (a *Admin) parkedOf(seen router.Snapshot, q query) (Parked, error) {
	out := Parked{Lot: lotOf(seen), Rows: []ParkedRequest{}}
	r := a.router.Load()
	if r == nil {
		return out, nil
	}
	var found []router.Waiting
	for _, w := range r.Waiting() {
		if q.is("actor", w.Actor) && q.matches(w.ID, w.Actor) {
			found = append(found, w)
		}
	}
	page, next, err := numbered(found, q)
	out.Total, out.Next = len(found), next
	now := time.Now()
	for _, w := range page {
		out.Rows = append(out.Rows, parkedRequest(w, r.OutlookOf(w), now))
	}
	return out, err
}

func parkedRequest(w router.Waiting, o router.Outlook, now time.Time) ParkedRequest {
	row := ParkedRequest{ID: w.ID, Actor: w.Actor, Band: w.Claim.Priority, Phase: o.Phase, Place: o.Place, Since: w.Claim.Since, Ends: !w.End.IsZero()}
	if row.Ends {
		row.Remaining = max(0, w.End.Sub(now))
	}
	return row
}

func (a *Admin) requests(q query) (Requests, error) { return requestsOf(a.look(0), q) }

func requestsOf(seen router.Snapshot, q query) (Requests, error) {
	var found []router.Record
	for _, rec := range seen.Recent {
		if q.is("actor", rec.Actor) && q.is("route", rec.Route) && q.is("reason", string(rec.Reason)) &&
			q.matches(rec.ID, rec.Method, rec.Route, rec.Actor, rec.Instead, string(rec.Reason), strconv.Itoa(rec.Status)) {
			found = append(found, rec)
		}
	}
	page, next, err := numbered(found, q)
	out := Requests{Total: len(found), Next: next, Rows: []Request{}}
	for _, rec := range page {
		out.Rows = append(out.Rows, requestOf(rec))
	}
	return out, err
}

func (a *Admin) request(w http.ResponseWriter, req *http.Request) {
	id := req.PathValue("id")
	if r := a.router.Load(); r != nil { // first, or one that ends meanwhile would be in neither
		for _, waiting := range r.Waiting() {
			if waiting.ID == id {
				answer(w, waitingRequest(waiting, r.OutlookOf(waiting), time.Now()))
				return
			}
		}
	}
	recent := a.look(0).Recent
	for _, rec := range recent {
		if rec.ID == id {
			answer(w, requestOf(rec))
			return
		}
	}
	refuse(w, problem(http.StatusNotFound, "no request of this id waits, and none is among the last ones that have their answer, which are %d: it may be with its actor; the log has all that ended at level debug", len(recent)))
}

// waitingRequest is what is known of a request before its answer. Of the flight
// that it is in, it has what came after the last entry of its own ledger.
func waitingRequest(w router.Waiting, o router.Outlook, now time.Time) Request {
	began := w.Budget.Ledger().Start
	if began.IsZero() {
		began = w.Claim.Since
	}
	out := requestOf(router.Record{ID: w.ID, At: began, Actor: w.Actor, Band: w.Claim.Priority, Took: now.Sub(began), Budget: w.Budget})
	parked := parkedRequest(w, o, now)
	out.Waiting = &parked
	if o.Phase == router.PhaseTurn {
		return out
	}
	booked := time.Duration(0)
	for _, p := range out.Ledger {
		booked = max(booked, p.Last)
	}
	for _, span := range w.Flight {
		to := span.To
		if to.IsZero() {
			to = now
		}
		if first, last := max(booked, span.From.Sub(out.At)), to.Sub(out.At); last > first {
			out.Ledger = append(out.Ledger, Phase{Name: span.Name, First: first, Last: last, Elapsed: last - first})
		}
	}
	return out
}

func (a *Admin) configInForce(query) (Configuration, error) {
	show := a.configuration.Load()
	if show == nil {
		return Configuration{}, problem(http.StatusNotFound, "this router shows no configuration")
	}
	return (*show)(), nil
}

// MaxLines is how many lines of an actor's output one answer has at most.
const MaxLines = 2000

// logs answers with an actor's last lines. With follow it goes on with what the
// actor prints, as plain text, until the client leaves.
func (a *Admin) logs(w http.ResponseWriter, req *http.Request) {
	c := a.control.Load()
	if c == nil || c.Control == nil {
		refuse(w, problem(http.StatusNotImplemented, "this router does not see what its actors print"))
		return
	}
	values := req.URL.Query()
	q, err := queryOf(values, defaultRows, MaxLines)
	var from router.Position
	if err == nil {
		from, err = positionOf(values)
	}
	if err == nil && values.Get("follow") == "true" {
		err = followed(w, req, c, from, q.limit)
	} else if err == nil {
		var out Output
		if out.Lines, out.Next, err = c.Output(req.PathValue("actor"), from); err == nil {
			out.Lines = append([]string{}, out.Lines[max(0, len(out.Lines)-q.limit):]...)
			answer(w, out)
		}
	}
	if err != nil {
		refuse(w, problemOf(err))
	}
}

// followed prints what an actor prints, of what it has printed at most so many
// lines. The error is that nothing could be printed.
func followed(w http.ResponseWriter, req *http.Request, c Control, from router.Position, begin int) error {
	begun := false
	controller := http.NewResponseController(w)
	err := c.Follow(req.Context(), req.PathValue("actor"), from, func(lines []string) error {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			lines = lines[max(0, len(lines)-begin):]
		}
		for _, line := range lines {
			fmt.Fprintln(w, line)
		}
		return controller.Flush()
	})
	if begun { // it was removed, or the client left
		return nil
	}
	return err
}

func positionOf(values url.Values) (from router.Position, err error) {
	for name, to := range map[string]*uint64{"wake": &from.Wake, "line": &from.Line} {
		if text := values.Get(name); text != "" {
			if *to, err = strconv.ParseUint(text, 10, 64); err != nil {
				return from, problem(http.StatusBadRequest, "%s must be what next of the answer before has", name)
			}
		}
	}
	return from, nil
}
