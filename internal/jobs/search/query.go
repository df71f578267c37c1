package search

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

// Query is what a listing asks for. The zero Query lists the newest jobs of all
// boards that need no company.
type Query struct {
	// Sources are "board:company", or "board" for a board without companies.
	Sources []string `json:",omitempty"`
	// Boards and Companies add every company on every one of these boards.
	// Boards without companies are listed once, and filtered by the companies'
	// names if there are any. Companies without Boards are looked for on all
	// boards that can have such a company.
	Boards    []string `json:",omitempty"`
	Companies []string `json:",omitempty"`

	// Text is words that a job must have: all of them, anywhere in title,
	// company, team, places or description. "several words" is a phrase, a OR b
	// either, -a not; go* begins a word and *sql ends one.
	Text string `json:",omitempty"`
	// Location is words of a place, "remote", or both: "remote germany".
	Location string `json:",omitempty"`

	Workplace []string `json:",omitempty"` // any of posting's Workplace values
	Type      []string `json:",omitempty"` // any of posting's Type values
	Seniority []string `json:",omitempty"` // any of posting's Seniority values

	// Since is the earliest posting date: "2026-11-01", RFC 3339, or an age such
	// as "36h", "7d", "2w".
	Since string `json:",omitempty"`

	// PayMin is a floor for the upper end of the salary, in PayCurrency (ISO
	// 4217) per PayPeriod (default "year"). Other periods are converted at 2,080
	// hours or 260 days a year; other currencies are not.
	PayMin      float64 `json:",omitempty"`
	PayCurrency string  `json:",omitempty"`
	PayPeriod   string  `json:",omitempty"`

	// Unstated says what becomes of jobs that do not state what a filter asks:
	// "keep" them, and name the filters in Item.Unverified, or "drop" them.
	// Default: keep those that lack the pay only.
	Unstated string `json:",omitempty"`

	Limit  int    `json:",omitempty"` // most items of the answer; 0: 20; at most 100
	Size   int    `json:",omitempty"` // most bytes of its items, by Options.Cost; 0: any; the first item always fits
	Cursor string `json:",omitempty"` // goes on where an answer ended; everything but Limit and Size may then be left out
}

// Invalid is a value that cannot be asked for. Its Want says what can.
type Invalid struct {
	Field string // as in Query, in lower case with underscores: "pay_min"
	Value string
	Want  string
}

func (e *Invalid) Error() string {
	return fmt.Sprintf("search: %s %q: %s", e.Field, short(e.Value), e.Want)
}

// short is as much of a value as a message needs.
func short(s string) string {
	if len(s) <= 100 {
		return s
	}
	return strings.ToValidUTF8(s[:100], "") + "..."
}

// target is one thing to be read.
type target struct {
	board   *board.Board
	company board.Company
	name    string // "greenhouse:acme", "remotive"
}

// plan is a query that was understood.
type plan struct {
	query     Query // without cursor, limit and size, in one spelling
	targets   []target
	limit     int
	size      int
	text      words
	place     place
	workplace []posting.Workplace
	types     []posting.Type
	seniority []posting.Seniority
	since     time.Time
	pay       floor
	employers []term // names asked for, for boards without companies
}

const maxText = 500 // bytes of a field of words

// plan understands q. since is the instant that q.Since stood for when the
// listing began; zero: it begins now.
func (e *Engine) plan(q Query, since time.Time) (*plan, error) {
	p := &plan{query: canonical(q), limit: q.Limit, size: q.Size, since: since}
	q = p.query
	if p.limit == 0 {
		p.limit = usualLimit
	}
	if p.limit < 1 || p.limit > maxLimit {
		return nil, &Invalid{"limit", strconv.Itoa(p.limit), fmt.Sprintf("1 to %d", maxLimit)}
	}
	if p.size < 0 {
		return nil, &Invalid{"size", strconv.Itoa(p.size), "a number of bytes, or 0 for no bound"}
	}
	for field, text := range map[string]string{"text": q.Text, "location": q.Location} {
		if len(text) > maxText {
			return nil, &Invalid{field, text, fmt.Sprintf("at most %d bytes", maxText)}
		}
	}
	for field, list := range map[string][]string{"sources": q.Sources, "boards": q.Boards, "companies": q.Companies} {
		if len(list) > maxSources {
			return nil, &Invalid{field, strconv.Itoa(len(list)), fmt.Sprintf("at most %d", maxSources)}
		}
	}
	var err error
	if p.text, err = parseWords(q.Text); err != nil {
		return nil, err
	}
	p.place = parsePlace(q.Location)
	if p.workplace, err = oneOf("workplace", q.Workplace, posting.Remote, posting.Hybrid, posting.OnSite); err != nil {
		return nil, err
	}
	if p.types, err = oneOf("type", q.Type, posting.FullTime, posting.PartTime, posting.Contract, posting.Temporary,
		posting.Internship, posting.Other); err != nil {
		return nil, err
	}
	if p.seniority, err = oneOf("seniority", q.Seniority, posting.Intern, posting.Junior, posting.Mid, posting.Senior,
		posting.Lead, posting.Executive); err != nil {
		return nil, err
	}
	if _, err := oneOf("unstated", strings.Fields(q.Unstated), "keep", "drop"); err != nil {
		return nil, err
	}
	if p.since.IsZero() && q.Since != "" {
		if p.since, err = parseSince(q.Since, e.o.Now()); err != nil {
			return nil, err
		}
	}
	if p.pay, err = parseFloor(q); err != nil {
		return nil, err
	}
	return p, e.aim(p)
}

// canonical is q in the spelling in which equal queries are equal.
func canonical(q Query) Query {
	set := func(list []string) []string {
		var out []string
		for _, s := range list {
			if s = strings.TrimSpace(s); s != "" {
				out = append(out, s)
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return Query{
		Sources: set(q.Sources), Boards: set(q.Boards), Companies: set(q.Companies),
		Text: strings.Join(strings.Fields(q.Text), " "), Location: strings.Join(strings.Fields(q.Location), " "),
		Workplace: set(q.Workplace), Type: set(q.Type), Seniority: set(q.Seniority),
		Since:  strings.TrimSpace(q.Since),
		PayMin: q.PayMin, PayCurrency: strings.TrimSpace(q.PayCurrency), PayPeriod: strings.TrimSpace(q.PayPeriod),
		Unstated: strings.TrimSpace(q.Unstated),
	}
}

// equal reports whether two canonical queries are the same.
func equal(a, b Query) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func oneOf[T ~string](field string, values []string, allowed ...T) ([]T, error) {
	var out []T
	for _, v := range values {
		if !slices.Contains(allowed, T(v)) {
			var names []string
			for _, a := range allowed {
				names = append(names, string(a))
			}
			return nil, &Invalid{field, v, "one of " + strings.Join(names, ", ")}
		}
		out = append(out, T(v))
	}
	return out, nil
}

// aim finds the sources of p.
func (e *Engine) aim(p *plan) error {
	for _, s := range p.query.Sources {
		name, company, _ := strings.Cut(s, ":")
		b := e.board(strings.ToLower(strings.TrimSpace(name)))
		if b == nil {
			return &Invalid{"sources", s, "board:company, where board is one of " + e.names()}
		}
		if err := p.add("sources", b, strings.TrimSpace(company)); err != nil {
			return err
		}
	}
	if err := e.cross(p); err != nil {
		return err
	}
	if len(p.targets) == 0 {
		return &Invalid{"sources", "", "none of the boards can be listed without a company: name one, as in " + e.example()}
	}
	if len(p.targets) > maxSources {
		return &Invalid{"sources", strconv.Itoa(len(p.targets)), fmt.Sprintf("at most %d companies and boards in one listing", maxSources)}
	}
	return nil
}

// cross adds boards times companies.
func (e *Engine) cross(p *plan) error {
	q := p.query
	for _, c := range q.Companies {
		key := posting.Key(c)
		if key == "" || len(c) > 200 {
			return &Invalid{"companies", c, "a company's name in the address of its job board, at most 200 bytes"}
		}
		p.employers = append(p.employers, term{key: key})
	}
	for _, name := range q.Boards {
		b := e.board(strings.ToLower(name))
		if b == nil {
			return &Invalid{"boards", name, "one of " + e.names()}
		}
		if b.Parse == nil {
			if err := p.add("boards", b, ""); err != nil {
				return err
			}
			continue
		}
		if len(q.Companies) == 0 {
			return &Invalid{"boards", name, "this board is one per company: name companies too, as in " + b.Name + ":acme"}
		}
		for _, c := range q.Companies {
			if err := p.add("companies", b, c); err != nil {
				return err
			}
		}
	}
	if len(q.Boards) > 0 || len(q.Sources) > 0 && len(q.Companies) == 0 {
		return nil
	}
	for _, b := range e.boards {
		if b.Parse == nil {
			if len(q.Companies) == 0 {
				p.targets = append(p.targets, target{b, board.Company{}, b.Name})
			}
			continue
		}
		for _, c := range q.Companies {
			_ = p.add("companies", b, c) // a board that cannot have such a company is not meant
		}
	}
	if len(q.Companies) > 0 && len(p.targets) == 0 {
		return &Invalid{"companies", strings.Join(q.Companies, ", "), "no board can have a company of that name in its addresses"}
	}
	return nil
}

// add adds a company of a board, once.
func (p *plan) add(field string, b *board.Board, company string) error {
	t := target{board: b, name: b.Name}
	switch {
	case b.Parse == nil && company != "":
		return &Invalid{field, b.Name + ":" + company, b.Name + " lists many companies and takes no name: use " + b.Name}
	case b.Parse != nil && company == "":
		return &Invalid{field, b.Name, "this board is one per company: " + b.Name + ":acme"}
	case b.Parse != nil:
		c, err := b.Parse(company)
		if err != nil {
			return &Invalid{field, company, fmt.Sprintf("%s: %v", b.Name, err)}
		}
		t.company, t.name = c, b.Name+":"+c.Slug
	}
	if !slices.ContainsFunc(p.targets, func(other target) bool { return other.name == t.name }) {
		p.targets = append(p.targets, t)
	}
	return nil
}

func (e *Engine) names() string {
	var names []string
	for _, b := range e.boards {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// example is a source that a user may write.
func (e *Engine) example() string {
	for _, b := range e.boards {
		if b.Parse != nil {
			return b.Name + ":acme"
		}
	}
	return "board:acme"
}

const sinceWant = `a day that has been ("2026-11-01"), an instant (RFC 3339) or an age ("36h", "7d", "2w")`

func parseSince(s string, now time.Time) (time.Time, error) {
	bad := &Invalid{"since", s, sinceWant}
	var at time.Time
	units := map[byte]time.Duration{'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	if unit := units[s[len(s)-1]]; unit > 0 {
		n, err := strconv.ParseUint(s[:len(s)-1], 10, 16)
		if err != nil || n == 0 {
			return at, bad
		}
		return now.Add(-time.Duration(n) * unit).Round(0), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		if at, err = time.Parse(time.DateOnly, s); err != nil {
			return at, bad
		}
	}
	if at.After(now) {
		return at, bad
	}
	return at, nil
}

// floor is a least salary, by the year.
type floor struct {
	least    float64 // 0: none
	currency string
}

// perYear is how many of a period a year of full-time work has.
var perYear = map[string]float64{"hour": 2080, "day": 260, "week": 52, "month": 12, "year": 1}

func parseFloor(q Query) (floor, error) {
	value := strconv.FormatFloat(q.PayMin, 'f', -1, 64)
	if q.PayMin < 0 || math.IsNaN(q.PayMin) || q.PayMin > 1e12 {
		return floor{}, &Invalid{"pay_min", value, "a sum of money above 0, or 0 for any"}
	}
	factor, ok := perYear[cmp.Or(q.PayPeriod, "year")]
	if !ok {
		return floor{}, &Invalid{"pay_period", q.PayPeriod, "one of hour, day, week, month, year"}
	}
	currency := strings.ToUpper(q.PayCurrency)
	if currency != "" && (len(currency) != 3 || strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "") {
		return floor{}, &Invalid{"pay_currency", q.PayCurrency, `a code of ISO 4217, such as "EUR"`}
	}
	if q.PayMin > 0 && currency == "" {
		return floor{}, &Invalid{"pay_currency", "", `needed with pay_min: a code of ISO 4217, such as "EUR"`}
	}
	return floor{q.PayMin * factor, currency}, nil
}
