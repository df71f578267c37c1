package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// Workable has a widget that sends a company's whole board at once, which is
// the least that one can ask of a site that blocks whoever asks often. Where the
// widget is off or says nothing, the pages of its third version say whether
// there is anything, ten jobs at a time and without their descriptions.
var workable = Board{
	Name:  "workable",
	Title: "Workable",
	Parse: func(company string) (Company, error) {
		name, _, err := slug("Workable", company, plainSlug, workableHost)
		return Company{Slug: name, Host: workableHost}, err
	},
	Where:  "it is the part after apply.workable.com/ in the address of the company's job pages",
	Home:   func(c Company) string { return "https://" + workableHost + "/" + url.PathEscape(c.Slug) + "/" },
	Hosts:  []string{workableHost},
	Every:  3 * time.Second,
	AtOnce: 1,
	Fresh:  time.Hour,
	Terms:  "no terms for its public pages; some twenty requests in a row are answered by a block of up to hours",
	Text:   true,

	MaxBody: wholeBoard, // the widget's

	Page: func(ctx context.Context, fetch Fetch, in Listing, token string) (Page, error) {
		if next, ok := strings.CutPrefix(token, workablePages); ok {
			return workableSearch(ctx, fetch, in, next)
		}
		if token != "" {
			return Page{}, noPage("Workable", token)
		}
		p, err := workableWidget(ctx, fetch, in.Company)
		if err == nil && p.Received > 0 || err != nil && !workableUnsure(err) {
			return p, err
		}
		second, secondErr := workableSearch(ctx, fetch, in, "")
		if secondErr == nil || err == nil { // of an empty widget the other door knows more
			return second, secondErr
		}
		return Page{}, err
	},
	Get: func(ctx context.Context, fetch Fetch, company Company, local string) (posting.Job, error) {
		var row struct {
			workablePosting
			Description, Requirements, Benefits string
		}
		a, err := ask(ctx, fetch, Request{URL: workableURL("/api/v2/accounts/", company, "/jobs/"+url.PathEscape(local))}, &row)
		if err != nil {
			return posting.Job{}, err
		}
		job := row.job(company)
		job.HTML = row.Description + section("Requirements", row.Requirements) + section("Benefits", row.Benefits)
		return one(a, job)
	},
}

const (
	workableHost  = "apply.workable.com"
	workablePages = "v3:" // before the token of a page of the third version
)

func workableURL(before string, c Company, after string) string {
	return "https://" + workableHost + before + url.PathEscape(c.Slug) + after
}

// workableUnsure reports whether an error of one door leaves open what another
// one would say.
func workableUnsure(err error) bool {
	var t *Trouble
	if !errors.As(err, &t) {
		return false
	}
	return t.Verdict == UnknownBoard || t.Verdict == Gone || t.Verdict == Malformed
}

type workablePlace struct {
	City, Region, Country string
	Hidden                bool
}

func (p workablePlace) String() string { return joined(p.City, p.Region, p.Country) }

// workablePlaces leaves out those that the company does not want to be shown.
func workablePlaces(all []workablePlace, otherwise workablePlace) []string {
	var shown []string
	for _, p := range all {
		if !p.Hidden {
			shown = append(shown, p.String())
		}
	}
	if len(shown) == 0 {
		shown = append(shown, otherwise.String())
	}
	return texts(shown...)
}

func workableWidget(ctx context.Context, fetch Fetch, c Company) (Page, error) {
	var list struct {
		Name string
		Jobs []json.RawMessage
	}
	address := workableURL("/api/v1/widget/accounts/", c, "?details=true")
	if _, err := ask(ctx, fetch, Request{URL: address}, &list); err != nil {
		return Page{}, err
	}
	p := page(list.Jobs, func(row workableWidgetJob) (posting.Job, error) { return row.job(c, list.Name), nil })
	p.Total = len(list.Jobs)
	return p, nil
}

type workableWidgetJob struct {
	Title          string
	Shortcode      string
	Department     string
	EmploymentType string `json:"employment_type"`
	Telecommuting  bool
	URL            string
	ApplicationURL string `json:"application_url"`
	PublishedOn    string `json:"published_on"`
	Experience     string
	Description    string
	City, State    string
	Country        string
	Locations      []workablePlace
}

func (row workableWidgetJob) job(c Company, name string) posting.Job {
	job := posting.Job{
		ID:        posting.ID("workable", c.Slug, row.Shortcode),
		Title:     posting.Text(row.Title),
		Company:   named(name, c),
		Locations: workablePlaces(row.Locations, workablePlace{City: row.City, Region: row.State, Country: row.Country}),
		Posted:    posting.When(row.PublishedOn, time.Time{}),
		Type:      posting.TypeOf(row.EmploymentType),
		TypeRaw:   posting.Text(row.EmploymentType),
		Seniority: posting.LevelOf(row.Experience),
		LevelRaw:  posting.Text(row.Experience),
		Team:      posting.Text(row.Department),
		URL:       posting.CanonicalURL(row.URL),
		Apply:     posting.CanonicalURL(row.ApplicationURL),
		HTML:      row.Description,
	}
	if row.Telecommuting {
		job.Workplace = []posting.Workplace{posting.Remote}
	}
	return job
}

// workableSearch reads a page of the third version. It refuses keys that it does
// not know.
func workableSearch(ctx context.Context, fetch Fetch, in Listing, token string) (Page, error) {
	body := map[string]any{
		"query": in.Query, "location": []any{}, "department": []any{}, "workplace": []any{}, "worktype": []any{}, "remote": []any{},
	}
	if token != "" {
		body["token"] = token
	}
	var list struct {
		Total    *int
		Results  []json.RawMessage
		NextPage *string
	}
	if _, err := ask(ctx, fetch, query(workableURL("/api/v3/accounts/", in.Company, "/jobs"), body), &list); err != nil {
		return Page{}, err
	}
	p := page(list.Results, func(row workablePosting) (posting.Job, error) { return row.job(in.Company), nil })
	if list.Total != nil {
		p.Total = *list.Total
	}
	if list.NextPage != nil && *list.NextPage != "" && *list.NextPage != token && len(list.Results) > 0 {
		p.Next = workablePages + *list.NextPage
	}
	return p, nil
}

// workablePosting is a job in the second and third version.
type workablePosting struct {
	Shortcode  string
	Title      string
	Remote     bool
	Location   workablePlace
	Locations  []workablePlace
	Published  string
	Type       string
	Language   string
	Department []string
	Workplace  string
}

func (row workablePosting) job(c Company) posting.Job {
	workplace, _ := posting.Workplaces(row.Workplace)
	if len(workplace) == 0 && row.Remote {
		workplace = []posting.Workplace{posting.Remote}
	}
	page := "https://" + workableHost + "/j/" + url.PathEscape(row.Shortcode)
	return posting.Job{
		ID:        posting.ID("workable", c.Slug, row.Shortcode),
		Title:     posting.Text(row.Title),
		Company:   c.Slug,
		Locations: workablePlaces(row.Locations, row.Location),
		Workplace: workplace,
		Posted:    posting.When(row.Published, time.Time{}),
		Type:      posting.TypeOf(row.Type),
		TypeRaw:   posting.Text(row.Type),
		Team:      joined(row.Department...),
		Language:  posting.LanguageTag(row.Language),
		URL:       page,
		Apply:     page + "/apply",
	}
}

// query is a request that asks with a body.
func query(address string, body any) Request {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the adapters send plain data only
	}
	return Request{Method: http.MethodPost, URL: address, Header: http.Header{"Content-Type": {"application/json"}}, Body: text, Query: true}
}

// noPage is the answer to a token that the board's Page never gave out.
func noPage(title, token string) error {
	return &Trouble{Verdict: Malformed, Detail: fmt.Sprintf("%q is no page of %s for this listing", short(token), title)}
}
