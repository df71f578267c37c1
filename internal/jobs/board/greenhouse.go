package board

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// Greenhouse sends a company's whole board in one answer, its descriptions
// escaped once more than HTML is. Boards of its European customers are served
// by the same host.
var greenhouse = Board{
	Name:  "greenhouse",
	Title: "Greenhouse",
	Parse: func(company string) (Company, error) {
		if u := address(company); u != nil && strings.HasPrefix(u.Path, "/embed/") { // what is copied from a page that embeds a board
			company = u.Query().Get("for")
		}
		name, _, err := slug("Greenhouse", company, plainSlug, "boards.greenhouse.io", "job-boards.greenhouse.io", "job-boards.eu.greenhouse.io", "boards.eu.greenhouse.io")
		return Company{Slug: name, Host: greenhouseHost}, err
	},
	Where:     "it is the part after job-boards.greenhouse.io/ or boards.greenhouse.io/ in the address of the company's job pages",
	Home:      greenhousePages,
	Hosts:     []string{greenhouseHost},
	Every:     250 * time.Millisecond,
	AtOnce:    2,
	Fresh:     10 * time.Minute,
	Terms:     "a public API without a stated limit",
	Whole:     true,
	Text:      true,
	ownErrors: true,
	Page: func(ctx context.Context, fetch Fetch, in Listing, _ string) (Page, error) {
		var list struct {
			Jobs []json.RawMessage
			Meta struct{ Total *int }
		}
		// Without content there are no offices either, and the place of some jobs
		// is written nowhere else.
		if _, err := ask(ctx, fetch, Request{URL: greenhouseURL(in.Company, "/jobs?content=true")}, &list); err != nil {
			return Page{}, err
		}
		p := page(list.Jobs, func(row greenhouseJob) (posting.Job, error) { return row.job(in.Company), nil })
		if list.Meta.Total != nil {
			p.Total = *list.Meta.Total
		}
		return p, nil
	},
	Get: func(ctx context.Context, fetch Fetch, company Company, local string) (posting.Job, error) {
		if !plainID.MatchString(local) {
			return posting.Job{}, absent(Answer{})
		}
		var row greenhouseJob
		address := greenhouseURL(company, "/jobs/"+url.PathEscape(local)+"?pay_transparency=true")
		a, err := ask(ctx, fetch, Request{URL: address}, &row)
		if err != nil {
			return posting.Job{}, err
		}
		return one(a, row.job(company))
	},
}

const greenhouseHost = "boards-api.greenhouse.io"

func greenhouseURL(c Company, rest string) string {
	return "https://" + greenhouseHost + "/v1/boards/" + url.PathEscape(c.Slug) + rest
}

// greenhousePages is where a company's pages for people begin.
func greenhousePages(c Company) string {
	return "https://job-boards.greenhouse.io/" + url.PathEscape(c.Slug)
}

type greenhouseJob struct {
	ID          text
	Title       string
	CompanyName string `json:"company_name"`
	Published   string `json:"first_published"`
	Updated     string `json:"updated_at"`
	Deadline    string `json:"application_deadline"`
	Location    struct{ Name string }
	URL         string `json:"absolute_url"`
	Language    string
	Content     string
	Departments []struct{ Name string }
	Offices     []struct{ Name, Location string }
	Pay         []struct {
		Min      *int64 `json:"min_cents"`
		Max      *int64 `json:"max_cents"`
		Currency string `json:"currency_type"`
		Title    string
	} `json:"pay_input_ranges"`
}

func (row greenhouseJob) job(c Company) posting.Job {
	job := posting.Job{
		ID:       posting.ID("greenhouse", c.Slug, string(row.ID)),
		Title:    posting.Text(row.Title),
		Company:  named(row.CompanyName, c),
		Posted:   posting.When(row.Published, time.Time{}),
		Updated:  posting.When(row.Updated, time.Time{}),
		Closes:   posting.When(row.Deadline, time.Time{}),
		Language: posting.LanguageTag(row.Language),
		URL:      cmp.Or(posting.CanonicalURL(row.URL), greenhousePages(c)+"/jobs/"+url.PathEscape(string(row.ID))),
		HTML:     posting.Unescape(row.Content),
	}
	if len(row.Departments) > 0 {
		job.Team = posting.Text(row.Departments[0].Name)
	}
	// A way to work may stand where the place should; then the offices are it.
	job.Workplace, job.Locations = places(row.Location.Name)
	if len(job.Locations) == 0 {
		for _, office := range row.Offices {
			_, at := places(cmp.Or(office.Location, office.Name))
			job.Locations = texts(append(job.Locations, at...)...)
		}
	}
	for _, r := range row.Pay {
		var low, high *float64
		if r.Min != nil {
			low = posting.Cents(*r.Min)
		}
		if r.Max != nil {
			high = posting.Cents(*r.Max)
		}
		if pay, ok := posting.Salary(low, high, r.Currency, r.Title); ok {
			pay.Text = posting.Text(r.Title)
			job.Pay = append(job.Pay, pay)
		}
	}
	return job
}
