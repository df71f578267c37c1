package board

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// Himalayas lists remote jobs, twenty at a time whatever is asked. Its list
// hands out a cursor, its search pages by number, and a short page is not the
// last one.
var himalayas = Board{
	Name:   "himalayas",
	Title:  "Himalayas",
	Home:   func(Company) string { return "https://himalayas.app/jobs" },
	Hosts:  []string{"himalayas.app"},
	Every:  time.Second,
	AtOnce: 1,
	Fresh:  time.Hour,
	Terms:  "free to use with a link back to the job's page; its data changes once a day",
	Text:   true,
	Page: func(ctx context.Context, fetch Fetch, in Listing, token string) (Page, error) {
		words := in.Query
		kind, at, _ := strings.Cut(token, ":")
		switch {
		case token == "" && words != "":
			return himalayasSearch(ctx, fetch, url.Values{"q": {words}}, 1)
		case token == "":
			return himalayasList(ctx, fetch, url.Values{})
		case kind == "cursor" && at != "":
			return himalayasList(ctx, fetch, url.Values{"cursor": {at}})
		}
		n, err := strconv.Atoi(at)
		switch {
		case err != nil || n < 1:
		case kind == "offset":
			return himalayasList(ctx, fetch, url.Values{"offset": {at}})
		case kind == "page" && words != "":
			return himalayasSearch(ctx, fetch, url.Values{"q": {words}}, n)
		}
		return Page{}, noPage("Himalayas", token)
	},
	Get: func(ctx context.Context, fetch Fetch, _ Company, local string) (posting.Job, error) {
		company, _, _ := strings.Cut(local, "/")
		id := posting.ID("himalayas", "", local)
		for number := 1; number <= himalayasSearched; number++ {
			p, err := himalayasSearch(ctx, fetch, url.Values{"company": {company}}, number)
			if err != nil {
				return posting.Job{}, err
			}
			for _, job := range p.Jobs {
				if job.ID == id {
					return job, nil
				}
			}
			if p.Next == "" {
				break
			}
		}
		return posting.Job{}, absent(Answer{})
	},
}

const (
	himalayasLimit    = 20 // more is clamped in silence
	himalayasSearched = 10 // pages of a company's jobs that are searched for one of them
)

type himalayasAnswer struct {
	Offset     int
	Limit      int
	Total      *int `json:"totalCount"`
	NextCursor *string
	Jobs       []json.RawMessage
}

func (list himalayasAnswer) page() Page {
	p := page(list.Jobs, himalayasJob.job)
	if list.Total != nil {
		p.Total = *list.Total
	}
	return p
}

func himalayasList(ctx context.Context, fetch Fetch, where url.Values) (Page, error) {
	var list himalayasAnswer
	where.Set("limit", strconv.Itoa(himalayasLimit))
	if _, err := ask(ctx, fetch, Request{URL: "https://himalayas.app/jobs/api?" + where.Encode()}, &list); err != nil {
		return Page{}, err
	}
	p := list.page()
	// Whether what a short page left out has a place in the count is not known:
	// moving by what came reads some jobs twice at worst, and loses none.
	next := list.Offset + p.Received
	if p.Received == 0 {
		next = list.Offset + himalayasLimit
	}
	switch {
	case list.NextCursor != nil && *list.NextCursor != "":
		p.Next = "cursor:" + *list.NextCursor
	case where.Has("cursor"): // the last page of a walk by cursor has none
	case next < p.Total:
		p.Next = "offset:" + strconv.Itoa(next)
	}
	return p, nil
}

func himalayasSearch(ctx context.Context, fetch Fetch, where url.Values, number int) (Page, error) {
	var list himalayasAnswer
	where.Set("page", strconv.Itoa(number))
	if _, err := ask(ctx, fetch, Request{URL: "https://himalayas.app/jobs/api/search?" + where.Encode()}, &list); err != nil {
		return Page{}, err
	}
	p := list.page()
	limit := list.Limit
	if limit <= 0 {
		limit = himalayasLimit
	}
	if p.Received > 0 && number*limit < p.Total {
		p.Next = "page:" + strconv.Itoa(number+1)
	}
	return p, nil
}

type himalayasJob struct {
	Title                string
	CompanyName          string
	CompanySlug          string
	EmploymentType       string
	MinSalary, MaxSalary amount
	SalaryPeriod         string
	Currency             string
	Seniority            []string
	LocationRestrictions []string
	Categories           []string
	Description          string
	PubDate, ExpiryDate  text
	ApplicationLink      string
	GUID                 string
}

func (row himalayasJob) job() (posting.Job, error) {
	job := posting.Job{
		ID:        posting.ID("himalayas", "", row.local()),
		Title:     posting.Text(row.Title),
		Company:   posting.Text(row.CompanyName),
		Locations: texts(row.LocationRestrictions...),
		Workplace: []posting.Workplace{posting.Remote}, // the board lists nothing else
		Posted:    posting.When(string(row.PubDate), time.Time{}),
		Closes:    posting.When(string(row.ExpiryDate), time.Time{}),
		Type:      posting.TypeOf(row.EmploymentType),
		TypeRaw:   posting.Text(row.EmploymentType),
		LevelRaw:  strings.Join(texts(row.Seniority...), ", "),
		URL:       posting.CanonicalURL(row.GUID),
		HTML:      row.Description,
	}
	for _, word := range row.Seniority {
		if job.Seniority == "" {
			job.Seniority = posting.LevelOf(word)
		}
	}
	if len(row.Categories) > 0 {
		job.Team = posting.Text(row.Categories[0])
	}
	if apply := posting.CanonicalURL(row.ApplicationLink); apply != job.URL {
		job.Apply = apply
	}
	if pay, ok := posting.Salary(row.MinSalary.n, row.MaxSalary.n, row.Currency, row.SalaryPeriod); ok {
		job.Pay = []posting.Pay{pay}
	}
	return job, nil
}

// local is "company/job", from the job's address on the board.
func (row himalayasJob) local() string {
	for _, address := range []string{row.GUID, row.ApplicationLink} {
		u, err := url.Parse(address)
		if err != nil {
			continue
		}
		part := strings.Split(strings.Trim(u.Path, "/"), "/")
		if len(part) == 4 && part[0] == "companies" && part[2] == "jobs" {
			return part[1] + "/" + part[3]
		}
	}
	return ""
}
