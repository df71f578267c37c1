package board

import (
	"context"
	"encoding/json"
	"time"

	"layover/internal/jobs/posting"
)

// Remotive sends its newest remote jobs in one answer. Its filters do nothing
// reliably, so that none is used, and what it keeps back cannot be asked for.
var remotive = Board{
	Name:   "remotive",
	Title:  "Remotive",
	Home:   func(Company) string { return "https://remotive.com/remote-jobs" },
	Hosts:  []string{"remotive.com"},
	Every:  30 * time.Second,
	AtOnce: 1,
	Fresh:  6 * time.Hour,
	Least:  6 * time.Hour,
	Terms:  "at most two requests a minute, and about four a day are enough; link back to the job's page and name Remotive as the source",
	Whole:  true,
	Text:   true,
	Page: func(ctx context.Context, fetch Fetch, _ Listing, _ string) (Page, error) {
		p, _, err := remotiveAll(ctx, fetch)
		return p, err
	},
	Get: func(ctx context.Context, fetch Fetch, _ Company, local string) (posting.Job, error) {
		p, a, err := remotiveAll(ctx, fetch)
		if err != nil {
			return posting.Job{}, err
		}
		for _, job := range p.Jobs {
			if job.ID == posting.ID("remotive", "", local) {
				return job, nil
			}
		}
		return posting.Job{}, absent(a)
	},
}

func remotiveAll(ctx context.Context, fetch Fetch) (Page, Answer, error) {
	var list struct {
		Count *int `json:"job-count"`
		Total *int `json:"total-job-count"`
		Jobs  []json.RawMessage
	}
	a, err := ask(ctx, fetch, Request{URL: "https://remotive.com/api/remote-jobs"}, &list)
	if err != nil {
		return Page{}, a, err
	}
	p := page(list.Jobs, remotiveJob.job)
	switch {
	case list.Total != nil:
		p.Total = *list.Total
	case list.Count != nil:
		p.Total = *list.Count
	}
	p.Capped = p.Total > p.Received
	return p, a, nil
}

type remotiveJob struct {
	ID          text
	URL         string
	Title       string
	CompanyName string `json:"company_name"`
	Category    string
	JobType     string `json:"job_type"`
	Published   string `json:"publication_date"`
	Location    string `json:"candidate_required_location"`
	Salary      string
	Description string
}

func (row remotiveJob) job() (posting.Job, error) {
	_, place := posting.Workplaces(row.Location)
	job := posting.Job{
		ID:        posting.ID("remotive", "", string(row.ID)),
		Title:     posting.Text(row.Title),
		Company:   posting.Text(row.CompanyName),
		Locations: texts(place),
		Workplace: []posting.Workplace{posting.Remote}, // the board lists nothing else
		Posted:    posting.When(row.Published, time.Time{}),
		Type:      posting.TypeOf(row.JobType),
		TypeRaw:   posting.Text(row.JobType),
		Team:      posting.Text(row.Category),
		URL:       posting.CanonicalURL(row.URL),
		HTML:      row.Description,
	}
	if pay, ok := posting.SalaryText(row.Salary); ok {
		job.Pay = []posting.Pay{pay}
	}
	return job, nil
}
