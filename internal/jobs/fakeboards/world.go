package fakeboards

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// World is what the boards know. Make one with Generate, or by hand.
type World struct {
	// Boards has the companies of each board by the board's name. A board that
	// has no companies lists the jobs of all of them.
	Boards map[string][]Company

	seed uint64 // of further jobs
}

// Company is one company on one board.
type Company struct {
	Slug string // as the board's users write it
	Name string // for people
	Jobs []Job  // newest first
	Odd  int    // rows that nobody can read, beside the jobs
}

// Job is a job as its company thinks of it; each board has its own form of it.
type Job struct {
	Key       string // equal keys: the same job on several boards
	Local     string // the board's own id of it
	Title     string // plain text
	Company   string // name
	Slug      string // of the company
	Team      string
	Places    []Place // at least one
	Workplace posting.Workplace
	Type      posting.Type
	Level     posting.Seniority
	Pay       *Pay // nil: not stated
	Posted    time.Time
	Updated   time.Time
	Language  string // BCP 47
	HTML      string
	Unlisted  bool // known by its link only, on boards that have such
}

// Place is where a job is done.
type Place struct{ City, Region, Country, Code string }

func (p Place) String() string { return p.City + ", " + p.Country }

// Pay is a yearly, monthly or hourly range.
type Pay struct {
	Min, Max int // Max 0: open
	Currency string
	Period   string // "year", "month", "hour"
}

// Plan says what Generate makes. Its zero value makes a small world.
type Plan struct {
	Seed      uint64
	Boards    []string  // default: all
	Now       time.Time // the first job is a little older; default: time.Now()
	Companies int       // of each board; default 3
	Jobs      int       // of each company; default 20, at most 9000
	Shared    int       // of these, jobs that the company has on every board; default: a fifth
	Odd       int       // unreadable rows of each company; default 0
}

// Generate makes a world after a plan: many languages, the same job on several
// boards, all forms of pay and places. Equal plans make equal worlds.
func Generate(p Plan) World {
	if p.Now.IsZero() {
		p.Now = time.Now()
	}
	p.Now = p.Now.UTC().Truncate(time.Second)
	p.Companies = cmp.Or(p.Companies, 3)
	p.Jobs = min(cmp.Or(p.Jobs, 20), 9000)
	p.Shared = cmp.Or(p.Shared, p.Jobs/5)
	w := World{Boards: make(map[string][]Company), seed: p.Seed}
	if p.Boards == nil {
		p.Boards = Boards()
	}
	for _, board := range p.Boards {
		for i := range p.Companies {
			c := newCompany(board, i)
			c.Odd = p.Odd
			for n := range p.Jobs {
				key := fmt.Sprintf("%d-%s-%d", i, board, n)
				if n < p.Shared {
					key = fmt.Sprintf("%d--%d", i, n)
				}
				posted := p.Now.Add(-time.Duration(n*p.Companies+i+1) * 37 * time.Minute)
				c.Jobs = append(c.Jobs, w.newJob(board, c, key, n, posted))
			}
			w.Boards[board] = append(w.Boards[board], c)
		}
	}
	return w
}

// Jobs returns all jobs of a board, newest first.
func (w World) Jobs(board string) []Job {
	var all []Job
	for _, c := range w.Boards[board] {
		all = append(all, c.Jobs...)
	}
	slices.SortStableFunc(all, func(a, b Job) int {
		return cmp.Or(b.Posted.Compare(a.Posted), strings.Compare(a.Local, b.Local))
	})
	return all
}

// clone copies as much as shift changes.
func (w World) clone() World {
	w.Boards = maps.Clone(w.Boards)
	for board, companies := range w.Boards {
		w.Boards[board] = slices.Clone(companies)
	}
	return w
}

// shift puts n new jobs on top of each company of a board, or takes the first
// -n away.
func (w World) shift(board string, n int, now time.Time) {
	for i, c := range w.Boards[board] {
		if n < 0 {
			c.Jobs = c.Jobs[min(-n, len(c.Jobs)):]
		}
		for range n {
			number := len(c.Jobs)
			for slices.ContainsFunc(c.Jobs, func(j Job) bool { return j.Local == localID(board, c, number, j) }) {
				number++
			}
			job := w.newJob(board, c, fmt.Sprintf("new-%s-%s-%d", board, c.Slug, number), number, now.UTC().Truncate(time.Second))
			c.Jobs = append([]Job{job}, c.Jobs...)
		}
		w.Boards[board][i] = c
	}
}

// newCompany is the i-th company of a board: the same one on every board, with
// the slug that the board would give it.
func newCompany(board string, i int) Company {
	name := companyNames[i%len(companyNames)]
	if round := i / len(companyNames); round > 0 {
		name += fmt.Sprintf(" %d", round+1)
	}
	slug := cmp.Or(slugOf(name), fmt.Sprintf("company-%d", i+1))
	switch board {
	case "lever":
		if i%3 == 2 {
			slug = "eu:" + slug
		}
	case "personio":
		if i%3 == 1 {
			slug = "com:" + slug
		}
	case "workday":
		slug = fmt.Sprintf("%s.wd%d.External", strings.ReplaceAll(slug, "-", ""), 1+i%5)
	case "smartrecruiters":
		slug = strings.ToUpper(slug[:1]) + strings.ReplaceAll(slug[1:], "-", "") + "1"
	case "ashby":
		slug = strings.ToUpper(slug[:1]) + strings.ReplaceAll(slug[1:], "-", " ")
	}
	return Company{Slug: slug, Name: name}
}

func (w World) newJob(board string, c Company, key string, number int, posted time.Time) Job {
	h := fnv.New64a()
	h.Write([]byte(key)) // a hash takes everything
	rnd := rand.New(rand.NewPCG(w.seed, h.Sum64()))
	word := wordings[rnd.IntN(len(wordings))]
	j := Job{
		Key:       key,
		Title:     fmt.Sprintf("%s (%d)", pick(rnd, word.titles), h.Sum64()%100_000),
		Company:   c.Name,
		Slug:      c.Slug,
		Team:      pick(rnd, teams),
		Workplace: pick(rnd, []posting.Workplace{posting.Remote, posting.Hybrid, posting.OnSite}),
		Type:      pick(rnd, []posting.Type{posting.FullTime, posting.FullTime, posting.PartTime, posting.Contract, posting.Temporary, posting.Internship}),
		Level:     pick(rnd, []posting.Seniority{posting.Junior, posting.Mid, posting.Senior, posting.Lead}),
		Posted:    posted,
		Updated:   posted.Add(time.Duration(rnd.IntN(30)) * time.Minute),
		Language:  word.language,
	}
	first := rnd.IntN(len(places))
	for n := range 1 + rnd.IntN(3)/2 { // two of three have one
		j.Places = append(j.Places, places[(first+n)%len(places)])
	}
	if rnd.IntN(5) < 3 {
		j.Pay = &payForms[rnd.IntN(len(payForms))]
	}
	j.HTML = description(word, rnd.IntN(6))
	j.Local = localID(board, c, number, j)
	return j
}

func pick[T any](rnd *rand.Rand, from []T) T { return from[rnd.IntN(len(from))] }

func description(word wording, points int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<p>%s</p>", word.intro)
	if points > 0 {
		b.WriteString("<ul>")
		for i := range points {
			fmt.Fprintf(&b, "<li>%s</li>", word.points[i%len(word.points)])
		}
		b.WriteString("</ul>")
	}
	return b.String()
}

// localID is the id that a board gives to the job with a number in a company.
func localID(board string, c Company, number int, j Job) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s/%d", board, c.Slug, number)
	sum := h.Sum64()
	id := sum % 100_000_000
	switch board {
	case "greenhouse":
		if number%7 == 3 {
			return fmt.Sprint(uint64(1)<<53 + 1 + 2*id) // no float64 can hold it
		}
		return fmt.Sprint(4_000_000_000 + id)
	case "lever", "ashby":
		return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", uint32(sum), uint16(sum>>32), sum>>52, sum&0xfff, sum>>16)
	case "smartrecruiters":
		return fmt.Sprint(744_000_000_000_000 + id)
	case "workable":
		return fmt.Sprintf("%010X", sum>>24)
	case "workday":
		city := "Anywhere"
		if len(j.Places) > 0 {
			city = cmp.Or(slugOf(j.Places[0].City), city)
		}
		return fmt.Sprintf("job/%s/%s_R-%d", city, cmp.Or(slugOf(j.Title), "Job"), id)
	case "arbeitnow":
		return fmt.Sprintf("%s-%d", cmp.Or(slugOf(j.Title), "job"), id)
	case "himalayas":
		return fmt.Sprintf("%s/%s-%d", c.Slug, cmp.Or(slugOf(j.Title), "job"), id)
	case "hn":
		return fmt.Sprint(40_000_000 + id%9_000_000)
	}
	return fmt.Sprint(1_000_000 + id)
}

// slugOf keeps the ASCII letters and digits of a text.
func slugOf(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-")
}
