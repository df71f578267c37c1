package board

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"time"

	"layover/internal/jobs/posting"
)

// Recruitee gives each company a host and sends its whole board in one answer.
// Companies may use a domain of their own as well; only the board's own is read.
var recruitee = Board{
	Name:  "recruitee",
	Title: "Recruitee",
	Parse: func(company string) (Company, error) {
		name, domain, err := label("Recruitee", company, "recruitee.com")
		return Company{Slug: name, Host: name + "." + domain}, err
	},
	Where:  "it is the part before .recruitee.com in the address of the company's job pages",
	Home:   func(c Company) string { return "https://" + c.Host + "/" },
	Hosts:  []string{"*.recruitee.com"},
	Every:  500 * time.Millisecond,
	AtOnce: 2,
	Fresh:  10 * time.Minute,
	Terms:  "a public API without a stated limit",
	Whole:  true,
	Text:   true,
	Page: func(ctx context.Context, fetch Fetch, in Listing, _ string) (Page, error) {
		var list struct{ Offers []json.RawMessage }
		if _, err := ask(ctx, fetch, Request{URL: recruiteeURL(in.Company, "")}, &list); err != nil {
			return Page{}, err
		}
		return page(list.Offers, func(row recruiteeJob) (posting.Job, error) {
			if row.Status != "" && row.Status != "published" {
				return posting.Job{}, errUnlisted
			}
			return row.job(in.Company), nil
		}), nil
	},
	Get: func(ctx context.Context, fetch Fetch, company Company, local string) (posting.Job, error) {
		if !plainID.MatchString(local) {
			return posting.Job{}, absent(Answer{})
		}
		var answer struct{ Offer recruiteeJob }
		a, err := ask(ctx, fetch, Request{URL: recruiteeURL(company, url.PathEscape(local))}, &answer)
		if err != nil {
			return posting.Job{}, err
		}
		return one(a, answer.Offer.job(company))
	},
}

func recruiteeURL(c Company, rest string) string { return "https://" + c.Host + "/api/offers/" + rest }

type recruiteeJob struct {
	ID           text
	Title        string
	Status       string
	CompanyName  string `json:"company_name"`
	Department   string
	Description  string
	Requirements string
	Location     string
	Locations    []struct {
		Name, City, State, Country string
	}
	City, Country  string
	Remote, Hybrid bool
	OnSite         bool   `json:"on_site"`
	EmploymentType string `json:"employment_type_code"`
	Experience     string `json:"experience_code"`
	Salary         *struct {
		Min, Max         amount
		Period, Currency string
	}
	PublishedAt  string `json:"published_at"`
	CreatedAt    string `json:"created_at"`
	UpdatedAt    string `json:"updated_at"`
	CloseAt      string `json:"close_at"`
	URL          string `json:"careers_url"`
	ApplyURL     string `json:"careers_apply_url"`
	Translations map[string]json.RawMessage
}

func (row recruiteeJob) job(c Company) posting.Job {
	job := posting.Job{
		ID:        posting.ID("recruitee", c.Slug, string(row.ID)),
		Title:     posting.Text(row.Title),
		Company:   named(row.CompanyName, c),
		Posted:    posting.When(cmp.Or(row.PublishedAt, row.CreatedAt), time.Time{}),
		Updated:   posting.When(row.UpdatedAt, time.Time{}),
		Closes:    posting.When(row.CloseAt, time.Time{}),
		Type:      posting.TypeOf(row.EmploymentType),
		TypeRaw:   posting.Text(row.EmploymentType),
		Seniority: posting.LevelOf(row.Experience),
		LevelRaw:  posting.Text(row.Experience),
		Team:      posting.Text(row.Department),
		URL:       posting.CanonicalURL(row.URL),
		Apply:     posting.CanonicalURL(row.ApplyURL),
		HTML:      row.Description + row.Requirements,
	}
	for _, l := range row.Locations {
		job.Locations = texts(append(job.Locations, joined(cmp.Or(l.City, l.Name), l.Country))...)
	}
	if len(job.Locations) == 0 {
		job.Workplace, job.Locations = places(cmp.Or(row.Location, joined(row.City, row.Country)))
	}
	// Several of them may be true at once.
	for _, w := range []struct {
		is  bool
		way posting.Workplace
	}{{row.Remote, posting.Remote}, {row.Hybrid, posting.Hybrid}, {row.OnSite, posting.OnSite}} {
		if w.is {
			job.Workplace = ways(job.Workplace, []posting.Workplace{w.way})
		}
	}
	if r := row.Salary; r != nil {
		if pay, ok := posting.Salary(r.Min.n, r.Max.n, r.Currency, r.Period); ok {
			job.Pay = append(job.Pay, pay)
		}
	}
	if len(row.Translations) == 1 {
		for code := range row.Translations {
			job.Language = posting.LanguageTag(code)
		}
	}
	return job
}
