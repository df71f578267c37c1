package board

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// SmartRecruiters pages by offset and says how many there are; descriptions and
// pay come with single postings only. Its search joins words with "or" over few
// fields, so that asking for less would lose matches: every listing asks for all,
// and its pages serve everybody from the cache. An unknown company is answered
// like an empty one.
var smartrecruiters = Board{
	Name:  "smartrecruiters",
	Title: "SmartRecruiters",
	Parse: func(company string) (Company, error) {
		name, _, err := slug("SmartRecruiters", company, plainSlug, "jobs.smartrecruiters.com", "careers.smartrecruiters.com")
		return Company{Slug: name, Host: smartHost}, err
	},
	Where:     "it is the part after jobs.smartrecruiters.com/ or careers.smartrecruiters.com/ in the address of the company's job pages, in the same case",
	Home:      func(c Company) string { return "https://careers.smartrecruiters.com/" + url.PathEscape(c.Slug) },
	Hosts:     []string{smartHost},
	Every:     200 * time.Millisecond,
	AtOnce:    4,
	Fresh:     10 * time.Minute,
	Terms:     "a public API: at most 10 requests a second and 8 at once; half of that is used. robots.txt keeps crawlers of everything out; this reads single companies that a person names",
	Ambiguous: true,
	ownErrors: true,
	Page: func(ctx context.Context, fetch Fetch, in Listing, token string) (Page, error) {
		skip, err := offset(token)
		if err != nil {
			return Page{}, err
		}
		var list struct {
			TotalFound *int
			Content    []json.RawMessage
		}
		address := smartURL(in.Company, fmt.Sprintf("?limit=%d&offset=%d", smartPage, skip))
		if _, err := ask(ctx, fetch, Request{URL: address}, &list); err != nil {
			return Page{}, err
		}
		p := page(list.Content, func(row smartJob) (posting.Job, error) { return row.job(in.Company), nil })
		if list.TotalFound != nil {
			p.Total = *list.TotalFound
		}
		next := skip + p.Received
		if p.Received > 0 && (p.Total < 0 && p.Received >= smartPage || next < p.Total) {
			p.Next = strconv.Itoa(next)
		}
		return p, nil
	},
	Get: func(ctx context.Context, fetch Fetch, company Company, local string) (posting.Job, error) {
		if !plainID.MatchString(local) {
			return posting.Job{}, absent(Answer{})
		}
		var row smartJob
		a, err := ask(ctx, fetch, Request{URL: smartURL(company, "/"+url.PathEscape(local))}, &row)
		if err != nil {
			return posting.Job{}, err
		}
		if row.Active != nil && !*row.Active {
			return posting.Job{}, &Trouble{Verdict: Gone, Detail: "SmartRecruiters says that this posting is no longer active", Answer: a}
		}
		return one(a, row.job(company))
	},
}

const (
	smartHost = "api.smartrecruiters.com"
	smartPage = 100
)

func smartURL(c Company, rest string) string {
	return "https://" + smartHost + "/v1/companies/" + url.PathEscape(c.Slug) + "/postings" + rest
}

type smartLabel struct {
	ID    text
	Label string
}

type smartSection struct{ Title, Text string }

type smartJob struct {
	ID       text
	Name     string
	Company  struct{ Identifier, Name string }
	Released string `json:"releasedDate"`
	Location struct {
		City, Region, Country, FullLocation string
		Remote, Hybrid                      bool
	}
	Department       smartLabel
	Function         smartLabel
	TypeOfEmployment smartLabel
	ExperienceLevel  smartLabel
	Language         struct{ Code string }

	// Of single postings only.
	JobAd struct {
		Sections struct {
			CompanyDescription, JobDescription, Qualifications, AdditionalInformation smartSection
		}
	}
	PostingURL   string `json:"postingUrl"`
	ApplyURL     string `json:"applyUrl"`
	Active       *bool
	Compensation *struct {
		Min, Max         amount
		Currency, Period string
	}
}

func (row smartJob) job(c Company) posting.Job {
	// The address that a list has is for programs; this one is for people.
	public := "https://jobs.smartrecruiters.com/" + url.PathEscape(cmp.Or(row.Company.Identifier, c.Slug)) + "/" + url.PathEscape(string(row.ID))
	job := posting.Job{
		ID:        posting.ID("smartrecruiters", c.Slug, string(row.ID)),
		Title:     posting.Text(row.Name),
		Company:   named(row.Company.Name, c),
		Posted:    posting.When(row.Released, time.Time{}),
		Type:      posting.TypeOf(cmp.Or(row.TypeOfEmployment.Label, string(row.TypeOfEmployment.ID))),
		TypeRaw:   posting.Text(row.TypeOfEmployment.Label),
		Seniority: posting.LevelOf(cmp.Or(row.ExperienceLevel.Label, string(row.ExperienceLevel.ID))),
		LevelRaw:  posting.Text(row.ExperienceLevel.Label),
		Team:      posting.Text(cmp.Or(row.Department.Label, row.Function.Label)),
		Language:  posting.LanguageTag(row.Language.Code),
		URL:       public,
		Apply:     posting.CanonicalURL(row.ApplyURL),
	}
	place := row.Location.FullLocation
	if strings.Trim(place, " ,") == "" {
		place = joined(row.Location.City, row.Location.Region, strings.ToUpper(row.Location.Country))
	}
	job.Workplace, job.Locations = places(place)
	if row.Location.Remote {
		job.Workplace = ways(job.Workplace, []posting.Workplace{posting.Remote})
	}
	if row.Location.Hybrid {
		job.Workplace = ways(job.Workplace, []posting.Workplace{posting.Hybrid})
	}
	if r := row.Compensation; r != nil {
		if pay, ok := posting.Salary(r.Min.n, r.Max.n, r.Currency, r.Period); ok {
			job.Pay = append(job.Pay, pay)
		}
	}
	s := row.JobAd.Sections
	for _, part := range []smartSection{s.CompanyDescription, s.JobDescription, s.Qualifications, s.AdditionalInformation} {
		job.HTML += section(part.Title, part.Text)
	}
	return job
}
