package board

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// Personio gives each company a host and sends its whole board as XML, without
// addresses. A feed can be switched off; then the company's pages remain. Names
// on the .com host begin with "com:" here.
var personio = Board{
	Name:  "personio",
	Title: "Personio",
	Parse: func(company string) (Company, error) {
		company = strings.TrimSpace(company)
		if name, ok := strings.CutPrefix(company, "com:"); ok {
			company = name + ".jobs.personio.com"
		}
		name, domain, err := label("Personio", company, "jobs.personio.de", "jobs.personio.com")
		c := Company{Slug: name, Host: name + "." + domain}
		if domain == "jobs.personio.com" {
			c.Slug = "com:" + name
		}
		return c, err
	},
	Where:  "it is the part before .jobs.personio.de in the address of the company's job pages, with com: before it if that is .jobs.personio.com",
	Home:   func(c Company) string { return "https://" + c.Host + "/" },
	Hosts:  []string{"*.jobs.personio.de", "*.jobs.personio.com"},
	Every:  time.Second,
	AtOnce: 1,
	Fresh:  30 * time.Minute,
	Terms:  "a public feed without a stated limit",
	Whole:  true,
	Text:   true,

	mayBeOff: true,
	Page: func(ctx context.Context, fetch Fetch, in Listing, _ string) (Page, error) {
		rows, _, err := personioFeed(ctx, fetch, in.Company)
		if err != nil {
			return Page{}, err
		}
		p := Page{Received: len(rows), Total: -1}
		for _, row := range rows {
			if job := row.job(in.Company); job.Title == "" || strings.HasSuffix(job.ID, "/") {
				p.Broken++
			} else {
				p.Jobs = append(p.Jobs, job)
			}
		}
		return p, nil
	},
	Get: func(ctx context.Context, fetch Fetch, company Company, local string) (posting.Job, error) {
		rows, a, err := personioFeed(ctx, fetch, company)
		if err != nil {
			return posting.Job{}, err
		}
		for _, row := range rows {
			if strings.TrimSpace(row.ID) == local {
				return one(a, row.job(company))
			}
		}
		return posting.Job{}, absent(a)
	},
}

func personioFeed(ctx context.Context, fetch Fetch, c Company) ([]personioJob, Answer, error) {
	a, err := fetch(ctx, Request{URL: "https://" + c.Host + "/xml?language=en", Header: http.Header{"Accept": {"text/xml, application/xml"}}})
	if err != nil {
		return nil, a, err
	}
	if t := Classify(a); t != nil {
		return nil, a, t
	}
	malformed := func(detail string, err error) error {
		return &Trouble{Verdict: Malformed, Detail: detail, Answer: a, Err: err}
	}
	if isHTML(a.Body) {
		return nil, a, malformed("an HTML page instead of XML", nil)
	}
	// A loose ampersand or an HTML entity costs nobody the feed.
	d := xml.NewDecoder(bytes.NewReader(withoutMark(a.Body)))
	d.Strict = false
	d.Entity = xml.HTMLEntity
	var feed struct {
		XMLName   xml.Name      `xml:"workzag-jobs"`
		Positions []personioJob `xml:"position"`
	}
	switch err := d.Decode(&feed); {
	case errors.Is(err, io.EOF):
		return nil, a, malformed("an empty answer instead of XML", err)
	case err != nil:
		return nil, a, malformed("XML that cannot be read", err)
	}
	return feed.Positions, a, nil
}

type personioJob struct {
	ID           string   `xml:"id"`
	Subcompany   string   `xml:"subcompany"`
	Office       string   `xml:"office"`
	Others       []string `xml:"additionalOffices>office"`
	Department   string   `xml:"department"`
	Category     string   `xml:"recruitingCategory"`
	Name         string   `xml:"name"`
	Descriptions []struct {
		Name  string `xml:"name"`
		Value string `xml:"value"`
	} `xml:"jobDescriptions>jobDescription"`
	EmploymentType string `xml:"employmentType"`
	Seniority      string `xml:"seniority"`
	Schedule       string `xml:"schedule"`
	CreatedAt      string `xml:"createdAt"`
}

func (row personioJob) job(c Company) posting.Job {
	id := strings.TrimSpace(row.ID)
	name := strings.TrimPrefix(c.Slug, "com:")
	job := posting.Job{
		ID:        posting.ID("personio", c.Slug, id),
		Title:     posting.Text(row.Name),
		Company:   cmp.Or(posting.Text(row.Subcompany), name),
		Posted:    posting.When(row.CreatedAt, time.Time{}),
		Seniority: posting.LevelOf(row.Seniority),
		LevelRaw:  posting.Text(row.Seniority),
		Team:      posting.Text(cmp.Or(row.Department, row.Category)),
		URL:       "https://" + c.Host + "/job/" + url.PathEscape(id),
	}
	// "permanent" says nothing about hours: the schedule does. For interns and
	// freelancers the hours are not what counts.
	job.TypeRaw = joined(row.EmploymentType, row.Schedule)
	job.Type = posting.TypeOf(row.EmploymentType)
	if hours := posting.TypeOf(row.Schedule); hours != "" && (job.Type == "" || job.Type == posting.Other) {
		job.Type = hours
	}
	for _, office := range append([]string{row.Office}, row.Others...) {
		how, at := places(office)
		job.Workplace = ways(job.Workplace, how)
		job.Locations = texts(append(job.Locations, at...)...)
	}
	for _, part := range row.Descriptions {
		job.HTML += section(part.Name, part.Value)
	}
	return job
}
