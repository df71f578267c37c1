package board

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"layover/internal/jobs/posting"
)

// Arbeitnow lists many companies' jobs, newest first, on numbered pages. Its
// own link to the next page may carry somebody's search, and is not followed.
var arbeitnow = Board{
	Name:   "arbeitnow",
	Title:  "Arbeitnow",
	Home:   func(Company) string { return "https://www.arbeitnow.com/" },
	Hosts:  []string{"www.arbeitnow.com"},
	Every:  time.Second,
	AtOnce: 1,
	Fresh:  time.Hour,
	Terms:  "free to use with a link back to the job's page",
	Text:   true,
	Page: func(ctx context.Context, fetch Fetch, _ Listing, token string) (Page, error) {
		number := 1
		if token != "" {
			n, err := strconv.Atoi(token)
			if err != nil || n < 2 {
				return Page{}, noPage("Arbeitnow", token)
			}
			number = n
		}
		p, _, err := arbeitnowPage(ctx, fetch, number)
		return p, err
	},
	Get: func(ctx context.Context, fetch Fetch, _ Company, local string) (posting.Job, error) {
		id := posting.ID("arbeitnow", "", local)
		var a Answer
		for number := 1; number <= arbeitnowSearched; number++ {
			p, answer, err := arbeitnowPage(ctx, fetch, number)
			if err != nil {
				return posting.Job{}, err
			}
			a = answer
			for _, job := range p.Jobs {
				if job.ID == id {
					return job, nil
				}
			}
			if p.Next == "" {
				break
			}
		}
		return posting.Job{}, absent(a)
	},
}

// arbeitnowSearched is how many pages are searched for one job: the board
// cannot be asked for it, and its pages are large.
const arbeitnowSearched = 10

func arbeitnowPage(ctx context.Context, fetch Fetch, number int) (Page, Answer, error) {
	var list struct {
		Data  []json.RawMessage
		Links struct{ Next *string }
	}
	address := "https://www.arbeitnow.com/api/job-board-api?page=" + strconv.Itoa(number)
	a, err := ask(ctx, fetch, Request{URL: address}, &list)
	if err != nil {
		return Page{}, a, err
	}
	p := page(list.Data, arbeitnowJob.job)
	if list.Links.Next != nil && *list.Links.Next != "" && len(list.Data) > 0 {
		p.Next = strconv.Itoa(number + 1)
	}
	return p, a, nil
}

type arbeitnowJob struct {
	Slug        string
	CompanyName string `json:"company_name"`
	Title       string
	Description string
	Remote      bool
	URL         string
	JobTypes    []string `json:"job_types"`
	Location    string
	CreatedAt   text `json:"created_at"`
}

func (row arbeitnowJob) job() (posting.Job, error) {
	workplace, at := places(row.Location)
	if row.Remote {
		workplace = []posting.Workplace{posting.Remote}
	}
	job := posting.Job{
		ID:        posting.ID("arbeitnow", "", row.Slug),
		Title:     posting.Text(row.Title),
		Company:   posting.Text(row.CompanyName),
		Locations: at,
		Workplace: workplace,
		Posted:    posting.When(string(row.CreatedAt), time.Time{}),
		URL:       posting.CanonicalURL(row.URL),
		HTML:      row.Description,
	}
	job.Type, job.TypeRaw = firstType(row.JobTypes)
	return job, nil
}

// firstType is the first of a board's words that says one of the kinds of
// employment, or else the first word.
func firstType(words []string) (t posting.Type, raw string) {
	for _, word := range words {
		switch kind := posting.TypeOf(word); {
		case kind == "":
		case kind != posting.Other:
			return kind, posting.Text(word)
		case t == "":
			t, raw = kind, posting.Text(word)
		}
	}
	return t, raw
}
