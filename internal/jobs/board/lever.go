package board

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// Lever says neither how many postings there are nor where the next page is: a
// page that is not full is the last one. European customers live on a host of
// their own; their names begin with "eu:" here.
var lever = Board{
	Name:  "lever",
	Title: "Lever",
	Parse: func(company string) (Company, error) {
		company = strings.TrimSpace(company)
		if name, ok := strings.CutPrefix(company, "eu:"); ok {
			company = "https://jobs.eu.lever.co/" + name
		}
		name, host, err := slug("Lever", company, plainSlug, "jobs.lever.co", "jobs.eu.lever.co")
		if err != nil {
			return Company{}, err
		}
		if host == "jobs.eu.lever.co" {
			return Company{Slug: "eu:" + name, Host: "api.eu.lever.co", Path: name}, nil
		}
		return Company{Slug: name, Host: "api.lever.co", Path: name}, nil
	},
	Where:     "it is the part after jobs.lever.co/ in the address of the company's job pages, with eu: before it if that is jobs.eu.lever.co",
	Home:      leverPages,
	Hosts:     []string{"api.lever.co", "api.eu.lever.co"},
	Every:     time.Second,
	AtOnce:    1,
	Fresh:     10 * time.Minute,
	Terms:     "a public API; robots.txt asks for a second between two requests",
	Text:      true,
	ownErrors: true,
	Page: func(ctx context.Context, fetch Fetch, in Listing, token string) (Page, error) {
		skip, err := offset(token)
		if err != nil {
			return Page{}, err
		}
		var list []json.RawMessage
		address := leverURL(in.Company, "", fmt.Sprintf("mode=json&skip=%d&limit=%d", skip, leverPage))
		if _, err := ask(ctx, fetch, Request{URL: address}, &list); err != nil {
			return Page{}, err
		}
		p := page(list, func(row leverJob) (posting.Job, error) { return row.job(in.Company), nil })
		// More than was asked for means that the limit was not heeded, and that
		// this was everything.
		if len(list) == leverPage {
			p.Next = strconv.Itoa(skip + len(list))
		}
		return p, nil
	},
	Get: func(ctx context.Context, fetch Fetch, company Company, local string) (posting.Job, error) {
		if !plainID.MatchString(local) {
			return posting.Job{}, absent(Answer{})
		}
		var row leverJob
		a, err := ask(ctx, fetch, Request{URL: leverURL(company, "/"+url.PathEscape(local), "mode=json")}, &row)
		if err != nil {
			return posting.Job{}, err
		}
		return one(a, row.job(company))
	},
}

const leverPage = 100

func leverURL(c Company, rest, query string) string {
	return "https://" + c.Host + "/v0/postings/" + url.PathEscape(c.Path) + rest + "?" + query
}

// leverPages is where a company's pages for people begin.
func leverPages(c Company) string {
	return "https://jobs." + strings.TrimPrefix(c.Host, "api.") + "/" + url.PathEscape(c.Path)
}

type leverJob struct {
	ID         text
	Text       string
	Categories struct {
		Location, Team, Department, Commitment, Level string
		AllLocations                                  []string
	}
	Country         string
	WorkplaceType   string
	CreatedAt       text
	UpdatedAt       text
	Opening         string
	Description     string // opening and body
	DescriptionBody string
	Lists           []struct{ Text, Content string }
	Additional      string
	SalaryRange     *struct {
		Currency, Interval string
		Min, Max           amount
	}
	SalaryDescription string
	HostedURL         string `json:"hostedUrl"`
	ApplyURL          string `json:"applyUrl"`
}

func (row leverJob) job(c Company) posting.Job {
	job := posting.Job{
		ID:       posting.ID("lever", c.Slug, string(row.ID)),
		Title:    posting.Text(row.Text),
		Company:  c.Path,
		Posted:   posting.When(string(row.CreatedAt), time.Time{}),
		Updated:  posting.When(string(row.UpdatedAt), time.Time{}),
		Type:     posting.TypeOf(row.Categories.Commitment),
		TypeRaw:  posting.Text(row.Categories.Commitment),
		LevelRaw: posting.Text(row.Categories.Level),
		Team:     posting.Text(cmp.Or(row.Categories.Team, row.Categories.Department)),
		URL:      cmp.Or(posting.CanonicalURL(row.HostedURL), leverPages(c)+"/"+url.PathEscape(string(row.ID))),
		Apply:    posting.CanonicalURL(row.ApplyURL),
	}
	job.Seniority = posting.LevelOf(job.LevelRaw)
	stated, _ := posting.Workplaces(row.WorkplaceType)
	job.Workplace = ways(stated)
	for _, location := range append([]string{row.Categories.Location}, row.Categories.AllLocations...) {
		how, at := places(location)
		job.Workplace = ways(job.Workplace, how)
		job.Locations = texts(append(job.Locations, at...)...)
	}
	if len(job.Locations) == 0 {
		job.Locations = texts(row.Country)
	}
	if r := row.SalaryRange; r != nil {
		if pay, ok := posting.Salary(r.Min.n, r.Max.n, r.Currency, r.Interval); ok {
			pay.Text = posting.Plain(row.SalaryDescription)
			job.Pay = append(job.Pay, pay)
		}
	}
	var html strings.Builder
	if row.DescriptionBody != "" {
		html.WriteString(row.Opening + row.DescriptionBody)
	} else {
		html.WriteString(row.Description)
	}
	for _, list := range row.Lists {
		html.WriteString(section(list.Text, "<ul>"+list.Content+"</ul>"))
	}
	html.WriteString(row.Additional + row.SalaryDescription)
	job.HTML = html.String()
	return job
}

// offset reads a token that is how many rows were passed.
func offset(token string) (int, error) {
	if token == "" {
		return 0, nil
	}
	if n, err := strconv.Atoi(token); err == nil && n > 0 && decimal.MatchString(token) {
		return n, nil
	}
	return 0, &Trouble{Verdict: Malformed, Detail: fmt.Sprintf("no page of this board: %q", short(token))}
}

var decimal = regexp.MustCompile(`^[1-9][0-9]{0,6}$`)
