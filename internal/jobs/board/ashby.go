package board

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// Ashby sends a company's whole board in one answer, and has none for one
// posting alone: a posting is looked for in the list, as its page for people may
// be there although it says nothing to programs.
var ashby = Board{
	Name:  "ashby",
	Title: "Ashby",
	Parse: func(company string) (Company, error) {
		name, _, err := slug("Ashby", company, ashbyName, "jobs.ashbyhq.com")
		return Company{Slug: name, Host: ashbyHost}, err
	},
	Where:     "it is the part after jobs.ashbyhq.com/ in the address of the company's job pages, in the same case",
	Home:      ashbyPages,
	Hosts:     []string{ashbyHost},
	Every:     time.Second,
	AtOnce:    2,
	Fresh:     15 * time.Minute,
	Terms:     "a public API without a stated limit; it answers slowly when asked often",
	Whole:     true,
	Text:      true,
	Ambiguous: true,
	mayBeOff:  true,
	Page: func(ctx context.Context, fetch Fetch, in Listing, _ string) (Page, error) {
		list, _, err := ashbyList(ctx, fetch, in.Company)
		if err != nil {
			return Page{}, err
		}
		return page(list, func(row ashbyJob) (posting.Job, error) {
			if row.IsListed != nil && !*row.IsListed {
				return posting.Job{}, errUnlisted
			}
			return row.job(in.Company), nil
		}), nil
	},
	Get: func(ctx context.Context, fetch Fetch, company Company, local string) (posting.Job, error) {
		list, a, err := ashbyList(ctx, fetch, company)
		if err != nil {
			return posting.Job{}, err
		}
		return among(a, page(list, func(row ashbyJob) (posting.Job, error) {
			if string(row.ID) != local {
				return posting.Job{}, errUnlisted
			}
			return row.job(company), nil
		}))
	},
}

const ashbyHost = "api.ashbyhq.com"

// Names may hold blanks and letters of any script.
var ashbyName = regexp.MustCompile(`^[\pL\pN](?:[\pL\pN\pM ._&'()+,-]{0,98}[\pL\pN\pM.)+])?$`)

func ashbyList(ctx context.Context, fetch Fetch, c Company) ([]json.RawMessage, Answer, error) {
	var list struct{ Jobs []json.RawMessage }
	a, err := ask(ctx, fetch, Request{URL: "https://" + ashbyHost + "/posting-api/job-board/" + url.PathEscape(c.Slug) + "?includeCompensation=true"}, &list)
	return list.Jobs, a, err
}

// ashbyPages is where a company's pages for people begin.
func ashbyPages(c Company) string { return "https://jobs.ashbyhq.com/" + url.PathEscape(c.Slug) }

type ashbyJob struct {
	ID                 text
	Title              string
	Department, Team   string
	EmploymentType     string
	Location           string
	SecondaryLocations []struct {
		Location string
		Address  *ashbyAddress
	}
	PublishedAt      string
	IsListed         *bool
	IsRemote         bool
	WorkplaceType    string
	Address          *ashbyAddress
	JobURL           string `json:"jobUrl"`
	ApplyURL         string `json:"applyUrl"`
	DescriptionHTML  string `json:"descriptionHtml"`
	DescriptionPlain string
	ShowsPay         *bool `json:"shouldDisplayCompensationOnJobPostings"`
	Compensation     struct {
		Summary string `json:"compensationTierSummary"`
		Salary  string `json:"scrapeableCompensationSalarySummary"`
		Tiers   []struct {
			Title      string
			Components []ashbyPay
		} `json:"compensationTiers"`
		Components []ashbyPay `json:"summaryComponents"`
	}
}

type ashbyAddress struct {
	PostalAddress struct{ AddressLocality, AddressRegion, AddressCountry string }
}

type ashbyPay struct {
	CompensationType, Interval, CurrencyCode string
	MinValue, MaxValue                       amount
}

func (a *ashbyAddress) place() string {
	if a == nil {
		return ""
	}
	return joined(a.PostalAddress.AddressLocality, a.PostalAddress.AddressRegion, a.PostalAddress.AddressCountry)
}

func (row ashbyJob) job(c Company) posting.Job {
	job := posting.Job{
		ID:      posting.ID("ashby", c.Slug, string(row.ID)),
		Title:   posting.Text(row.Title),
		Company: c.Slug,
		Posted:  posting.When(row.PublishedAt, time.Time{}),
		Type:    posting.TypeOf(row.EmploymentType),
		TypeRaw: posting.Text(row.EmploymentType),
		Team:    posting.Text(cmp.Or(row.Team, row.Department)),
		URL:     cmp.Or(posting.CanonicalURL(row.JobURL), ashbyPages(c)+"/"+url.PathEscape(string(row.ID))),
		Apply:   posting.CanonicalURL(row.ApplyURL),
		HTML:    cmp.Or(row.DescriptionHTML, paragraphs(row.DescriptionPlain)),
		Pay:     row.pay(),
	}
	// Remote beside a place means: from anywhere near that place. Neither is
	// dropped.
	stated, _ := posting.Workplaces(row.WorkplaceType)
	job.Workplace = ways(stated)
	if row.IsRemote {
		job.Workplace = ways(job.Workplace, []posting.Workplace{posting.Remote})
	}
	at := func(location string, address *ashbyAddress) {
		how, where := places(location)
		job.Workplace = ways(job.Workplace, how)
		if len(where) == 0 {
			where = []string{address.place()}
		}
		job.Locations = texts(append(job.Locations, where...)...)
	}
	at(row.Location, row.Address)
	for _, other := range row.SecondaryLocations {
		at(other.Location, other.Address)
	}
	return job
}

// pay reads what the company lets its postings show.
func (row ashbyJob) pay() (all []posting.Pay) {
	if row.ShowsPay != nil && !*row.ShowsPay {
		return nil
	}
	components := row.Compensation.Components
	if len(components) == 0 {
		for _, tier := range row.Compensation.Tiers {
			components = append(components, tier.Components...)
		}
	}
	salary := false
	for _, c := range components {
		pay, ok := posting.Salary(c.MinValue.n, c.MaxValue.n, c.CurrencyCode, c.Interval)
		kind := strings.ToLower(c.CompensationType)
		switch {
		case kind == "salary" && ok:
			pay.Text, salary = posting.Text(row.Compensation.Summary), true
		case strings.HasPrefix(kind, "equity"):
			// Said without a number, it is still said.
			pay.Kind, pay.Source = "equity", "stated"
		case (kind == "bonus" || kind == "commission") && ok:
			pay.Kind = kind
		default:
			continue
		}
		all = append(all, pay)
	}
	if !salary {
		if pay, ok := posting.SalaryText(cmp.Or(row.Compensation.Salary, row.Compensation.Summary)); ok {
			all = append([]posting.Pay{pay}, all...)
		}
	}
	return all
}
