package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// view is what the page shows of a router.
type view struct {
	Status
	Live     bool // text that the page's script writes is left out
	Query    url.Values
	Operable bool // something can be changed
	Reload   *config
	InForce  *Configuration // nil: there is none to show
	Refresh  int

	ActorPage Actors
	PoolPage  Pools
	Parked    []waiters
	Unseen    int // requests that wait and are in none of Parked
	Requests  Requests
}

// waiters are requests that wait one behind the other for the same: what the
// page has one entry for.
type waiters struct {
	ParkedRequest                 // the first of them
	N             int             // how many there are
	Rows          []ParkedRequest // the first of them, at most pageIDs
	Least         time.Duration   // the shortest time that one of them has left, if Ends
	Key           string          // names the group to the page's script, which keeps what is folded out
}

// grouped returns the first of the groups of neighbours that are alike, and how
// many requests are in the others.
func grouped(rows []ParkedRequest) (groups []waiters, rest int) {
	named := make(map[string]int)
	for i, row := range rows {
		last := len(groups) - 1
		if last < 0 || !alike(groups[last].ParkedRequest, row) {
			if len(groups) == pageParked {
				return groups, len(rows) - i
			}
			key := fmt.Sprintf("%s, band %d, %s", row.Actor, row.Band, row.Phase)
			named[key]++
			groups = append(groups, waiters{ParkedRequest: row, Least: row.Remaining, Key: fmt.Sprint(key, " ", named[key])})
			last++
		}
		g := &groups[last]
		g.N++
		g.Least = min(g.Least, row.Remaining)
		if len(g.Rows) < pageIDs {
			g.Rows = append(g.Rows, row)
		}
	}
	return groups, 0
}

func alike(a, b ParkedRequest) bool {
	return a.Actor == b.Actor && a.Band == b.Band && a.Phase == b.Phase && a.Ends == b.Ends
}

// More is how many of the group have no row.
func (w waiters) More() int { return w.N - len(w.Rows) }

// How many rows the page has of each list, without a wish.
const (
	pageActors   = 100
	pageParked   = 20 // groups
	pageIDs      = 20 // of each group
	pageRequests = 200
)

var pages = template.Must(template.New("statusz.html").Funcs(template.FuncMap{
	"short":   short,
	"clock":   func(t time.Time) string { return t.Format("15:04:05.000") },
	"percent": percent,
	"never":   time.Time.IsZero,
	"states":  states,
	"plus":    func(a, b int) int { return a + b },
	"segment": url.PathEscape,
}).ParseFS(files, "statusz.html", "configz.html", "refused.html"))

// Ago is an element that says how long ago t was. The page's script writes it
// anew each second, so that what else stands there need not be sent again.
func (v *view) Ago(t time.Time) template.HTML { return v.clock("ago", t, v.Now.Sub(t)) }

// Left is an element that says how long it is until d from now.
func (v *view) Left(d time.Duration) template.HTML {
	return v.clock("left", v.Now.Add(d).Round(100*time.Millisecond), d)
}

func (v *view) clock(kind string, t time.Time, d time.Duration) template.HTML {
	text := ""
	if !v.Live {
		text = short(max(0, d))
	}
	return template.HTML(fmt.Sprintf(`<time data-%s="%d">%s</time>`, kind, t.UnixMilli(), text)) // numbers and units only
}

// Next is the page's address with another part of a list.
func (v *view) Next(after string) string {
	values := url.Values{"after": {after}}
	for name, value := range v.Query {
		if name != "after" {
			values[name] = value
		}
	}
	return "/statusz?" + values.Encode()
}

// Get is a parameter of the page's address.
func (v *view) Get(name string) string { return v.Query.Get(name) }

// Rest is how much of a pool's line is not shown.
func (v *view) Rest(p Pool) int { return p.Waiting - len(p.Line) }

// maxShown is how long a configuration is that the page has; a longer one has a
// page of its own only.
const maxShown = 64 << 10

// Shown reports whether the page has a part of the configuration.
func (v *view) Shown(text string) bool { return text != "" && len(text) <= maxShown }

// view looks at the router. What it shows is at most old.
func (a *Admin) view(values url.Values, old time.Duration) (*view, error) {
	q, err := queryOf(values, pageActors, maxRows)
	if err != nil {
		return nil, err
	}
	seen := a.look(old)
	v := &view{Query: values, Operable: a.control.Load() != nil, Reload: a.configNow()}
	if show := a.configuration.Load(); show != nil {
		inForce := (*show)()
		v.InForce = &inForce
	}
	v.Status = a.statusOf(seen)
	v.ActorPage = a.actorsOf(seen, q)
	search := query{Values: url.Values{}, words: q.words, limit: pageRequests}
	all := query{Values: url.Values{}, limit: maxRows}
	v.PoolPage = poolsOf(seen, all)
	parked, err := a.parkedOf(seen, all)
	if err != nil {
		return nil, err
	}
	v.Parked, v.Unseen = grouped(parked.Rows)
	v.Unseen += parked.Total - len(parked.Rows)
	v.Requests, err = requestsOf(seen, search)
	return v, err
}

func (a *Admin) statusz(w http.ResponseWriter, req *http.Request) {
	values := req.URL.Query()
	v, err := a.view(values, 0)
	if err != nil {
		a.refusePage(w, problemOf(err))
		return
	}
	refresh, _ := strconv.Atoi(values.Get("refresh"))
	v.Refresh = min(max(refresh, 0), 3600)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	pages.ExecuteTemplate(w, "statusz.html", v) // fails only if the client has left
}

func (a *Admin) configz(w http.ResponseWriter, _ *http.Request) {
	c, err := a.configInForce(query{})
	if err != nil {
		a.refusePage(w, problemOf(err))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	pages.ExecuteTemplate(w, "configz.html", struct {
		Configuration
		Name, Version string
		Reload        *config
		Settings      []Setting
	}{c, a.options.Name, a.options.Version, a.configNow(), a.options.Settings}) // fails only if the client has left
}

// refusePage is refuse for who reads pages.
func (a *Admin) refusePage(w http.ResponseWriter, p *Problem) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(p.Status)
	pages.ExecuteTemplate(w, "refused.html", struct {
		*Problem
		Name string
	}{p, a.options.Name}) // fails only if the client has left
}

// asset answers with a file of the page.
func asset(name, kind string) http.HandlerFunc {
	text, err := files.ReadFile(name)
	if err != nil {
		panic("admin: " + err.Error()) // it is embedded
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind+"; charset=utf-8")
		w.Write(text)
	}
}

// The sections of the page that are sent again when they change, and what of
// the query each depends on.
var sections = []struct {
	name    string
	depends func(url.Values) string
}{
	{"state", func(url.Values) string { return "" }},
	{"lot", func(url.Values) string { return "" }},
	{"pools", func(url.Values) string { return "" }},
	{"actors", url.Values.Encode},
	{"requests", func(values url.Values) string { return values.Get("search") }},
	{"config", func(url.Values) string { return "" }},
}

// How the page is kept up to date.
const (
	liveEvery   = time.Second
	liveSharing = 800 * time.Millisecond // pages that look within it see the same
	liveSilence = 15 * time.Second       // something is sent at least so often
	liveWrite   = 10 * time.Second       // a client that takes nothing for so long is gone
	mostLive    = 100                    // pages at once
)

// live has what was rendered last, which pages share.
type live struct {
	mu   sync.Mutex // held while one renders for all
	open int
	at   time.Time         // when of was begun
	of   map[string]string // by section and what it depends on
}

// render returns the sections for a query, in their order, each as an event.
func (a *Admin) render(values url.Values) ([]string, error) {
	l := &a.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) >= liveSharing {
		l.at, l.of = time.Now(), make(map[string]string)
	}
	out := make([]string, len(sections))
	var v *view
	for i, section := range sections {
		key := section.name + "?" + section.depends(values)
		text, ok := l.of[key]
		if !ok {
			if v == nil {
				var err error
				if v, err = a.view(values, liveSharing); err != nil {
					return nil, err
				}
				v.Live = true
			}
			var b bytes.Buffer
			if err := pages.ExecuteTemplate(&b, section.name, v); err != nil {
				return nil, err
			}
			html, err := json.Marshal(b.String())
			if err != nil {
				return nil, err
			}
			text = fmt.Sprintf("event: section\ndata: {\"name\":%q,\"html\":%s}\n\n", section.name, html)
			l.of[key] = text
		}
		out[i] = text
	}
	return out, nil
}

func (l *live) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= mostLive {
		return false
	}
	l.open++
	return true
}

func (l *live) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open--; l.open == 0 {
		l.at, l.of = time.Time{}, nil
	}
}

// statuszLive sends the sections of the page that have changed, each second, as
// server-sent events, until the client leaves.
func (a *Admin) statuszLive(w http.ResponseWriter, req *http.Request) {
	values := req.URL.Query()
	if _, err := queryOf(values, pageActors, maxRows); err != nil {
		refuse(w, problemOf(err))
		return
	}
	if !a.live.enter() {
		refuse(w, problem(http.StatusServiceUnavailable, "%d pages are open already", mostLive))
		return
	}
	defer a.live.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	controller := http.NewResponseController(w)
	ticker := time.NewTicker(liveEvery)
	defer ticker.Stop()
	sent := make([]string, len(sections))
	last := time.Now()
	for {
		now, err := a.render(values)
		if err != nil {
			return
		}
		controller.SetWriteDeadline(time.Now().Add(liveWrite)) // where there is none, the client's leaving ends it
		for i, event := range now {
			if sent[i] == event {
				continue
			}
			sent[i], last = event, time.Now()
			if _, err := io.WriteString(w, event); err != nil {
				return
			}
		}
		if time.Since(last) >= liveSilence {
			last = time.Now()
			fmt.Fprint(w, ": still here\n\n")
		}
		if controller.Flush() != nil {
			return
		}
		select {
		case <-req.Context().Done():
			return
		case <-ticker.C:
		}
	}
}

// percent returns where d lies in whole, from 0 to 100, for the waterfalls.
func percent(d, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return math.Round(1000*min(max(float64(d)/float64(whole), 0), 1)) / 10
}

// Where names where an actor is.
func (s Actor) Where() string {
	if s.PID == 0 {
		return s.Addr
	}
	return cmp.Or(s.Addr, "no address yet") + ", pid " + strconv.Itoa(s.PID)
}
