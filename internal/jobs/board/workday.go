package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// Workday gives each customer a host, an instance and any number of sites, and
// is read through what its own pages ask. It pages by twenties, tells its total
// on the first page only, tells of no more than 2000 jobs, and begins anew
// behind them.
var workday = Board{
	Name:   "workday",
	Title:  "Workday",
	Parse:  workdayCompany,
	Where:  "copy the address of the company's job pages, as in https://acme.wd3.myworkdayjobs.com/External, or write acme.wd3.External",
	Home:   func(c Company) string { return "https://" + c.Host + workdaySite(c) },
	Hosts:  []string{"*.*.myworkdayjobs.com", "*.myworkdaysite.com"},
	Every:  500 * time.Millisecond,
	AtOnce: 2,
	Fresh:  30 * time.Minute,
	Terms:  "no public terms: the pages that people see ask the same way; bursts are refused",
	Page:   workdayPage,
	Get:    workdayGet,
}

const (
	workdayLimit = 20   // more is refused
	workdayMost  = 2000 // what is behind is not shown
)

var (
	workdaySlug   = regexp.MustCompile(`^([a-z0-9][a-z0-9_-]{0,62})\.((?:site-)?)(wd[0-9]{1,4})\.([A-Za-z0-9][A-Za-z0-9_-]{0,99})$`)
	workdayLocale = regexp.MustCompile(`^[a-z]{2,3}(?:-[A-Za-z]{2,4})?$`)
)

// workdayCompany reads "tenant.wd3.Site", or an address of the company's pages.
// The slug of a customer on the shared host is "tenant.site-wd3.Site".
func workdayCompany(company string) (Company, error) {
	wrong := func() (Company, error) {
		return Company{}, fmt.Errorf("board: %q cannot be a company on Workday: expected the address of its job pages, as in https://acme.wd3.myworkdayjobs.com/External, or acme.wd3.External", short(company))
	}
	name := strings.TrimSpace(company)
	if u := address(name); u != nil {
		host := strings.Split(strings.ToLower(u.Hostname()), ".")
		path := strings.Split(strings.Trim(u.Path, "/"), "/")
		if len(path) > 1 && workdayLocale.MatchString(path[0]) {
			path = path[1:]
		}
		switch {
		case len(host) == 4 && strings.HasSuffix(u.Hostname(), ".myworkdayjobs.com") && path[0] != "":
			name = host[0] + "." + host[1] + "." + path[0]
		case len(host) == 3 && strings.HasSuffix(u.Hostname(), ".myworkdaysite.com") && len(path) >= 3 && path[0] == "recruiting":
			name = path[1] + ".site-" + host[0] + "." + path[2]
		default:
			return wrong()
		}
	}
	tenant, rest, _ := strings.Cut(name, ".")
	instance, site, _ := strings.Cut(rest, ".")
	match := workdaySlug.FindStringSubmatch(strings.ToLower(tenant) + "." + strings.ToLower(instance) + "." + site)
	if match == nil {
		return wrong()
	}
	tenant, instance, site = match[1], match[3], match[4]
	c := Company{Slug: match[0], Host: tenant + "." + instance + ".myworkdayjobs.com", Path: "/wday/cxs/" + tenant + "/" + site}
	if match[2] != "" {
		c.Host = instance + ".myworkdaysite.com"
		return c, nil
	}
	if !hostLabel.MatchString(tenant) {
		return wrong()
	}
	return c, nil
}

// workdaySite is the path of a company's pages for people.
func workdaySite(c Company) string {
	part := strings.Split(c.Path, "/") // "", wday, cxs, tenant, site
	if len(part) != 5 {
		return "/"
	}
	if strings.HasSuffix(c.Host, ".myworkdaysite.com") {
		return "/recruiting/" + part[3] + "/" + part[4]
	}
	return "/" + part[4]
}

// workdayToken is where a listing stands: the next offset, the total of the
// first page, and the mark of the row that it began with.
type workdayToken struct {
	offset, total int
	first         string
}

func (t workdayToken) String() string { return fmt.Sprintf("%d.%d.%s", t.offset, t.total, t.first) }

// workdayTokenOf reads what String wrote.
func workdayTokenOf(s string) (t workdayToken, ok bool) {
	if s == "" {
		return t, true
	}
	part := strings.SplitN(s, ".", 3)
	if len(part) != 3 {
		return t, false
	}
	var errs [2]error
	t.offset, errs[0] = strconv.Atoi(part[0])
	t.total, errs[1] = strconv.Atoi(part[1])
	t.first = part[2]
	return t, errs == [2]error{} && t.offset > 0
}

func workdayPage(ctx context.Context, fetch Fetch, in Listing, token string) (Page, error) {
	at, ok := workdayTokenOf(token)
	if !ok {
		return Page{}, noPage("Workday", token)
	}
	var list struct {
		Total    int
		Postings []json.RawMessage `json:"jobPostings"`
		Facets   []struct {
			Parameter string `json:"facetParameter"`
			Values    []struct{ Count int }
		}
	}
	r := query("https://"+in.Company.Host+in.Company.Path+"/jobs", map[string]any{
		"appliedFacets": map[string]any{}, "limit": workdayLimit, "offset": at.offset, "searchText": in.Query,
	})
	r.Header.Set("Accept-Language", "en-US,en") // for the words of the dates
	a, err := ask(ctx, fetch, r, &list)
	if err != nil {
		return Page{}, workdayUnknown(err)
	}
	p := page(list.Postings, func(row workdayRow) (posting.Job, error) { return row.job(in.Company, a.At), nil })
	first := ""
	if len(p.Jobs) > 0 {
		first = mark(p.Jobs[0].ID)
	}
	if token == "" {
		at.total, at.first = list.Total, first
	}
	p.Total = at.total
	// A sum over a facet of which each job has at most one value is no more than
	// what there is: beyond the cap it says more than the total.
	for _, facet := range list.Facets {
		sum := 0
		for _, v := range facet.Values {
			sum += v.Count
		}
		if facet.Parameter == "timeType" && at.total == workdayMost && sum > at.total {
			p.Total = sum
		}
	}
	begunAnew := token != "" && first != "" && first == at.first
	switch {
	case begunAnew:
		return Page{Received: p.Received, Total: p.Total, Capped: true}, nil
	case len(list.Postings) == 0:
		return p, nil
	case at.total == workdayMost: // maybe a cap: only the page behind it tells
	case at.offset+workdayLimit >= at.total && (at.total > 0 || len(list.Postings) < workdayLimit):
		return p, nil
	}
	at.offset += workdayLimit
	p.Next = at.String()
	p.Capped = p.Total > at.total
	return p, nil
}

// workdayUnknown reads the status that stands for a site that does not exist.
func workdayUnknown(err error) error {
	var t *Trouble
	if errors.As(err, &t) && t.Answer.Status == http.StatusUnprocessableEntity {
		unknown := *t
		unknown.Verdict = UnknownBoard
		return &unknown
	}
	return err
}

// mark is a short form of an id.
func mark(id string) string {
	h := fnv.New64a()
	h.Write([]byte(id)) // a hash takes everything
	return strconv.FormatUint(h.Sum64(), 36)
}

type workdayRow struct {
	Title         string
	ExternalPath  string
	LocationsText string
	PostedOn      string
	TimeType      string
	RemoteType    string
}

// workdayCount is what stands where a job with several places has one.
var workdayCount = regexp.MustCompile(`^\d+ \pL+$`)

func (row workdayRow) job(c Company, now time.Time) posting.Job {
	local := workdayPlain(strings.TrimPrefix(row.ExternalPath, "/"))
	tenant, _, _ := strings.Cut(c.Slug, ".")
	job := posting.Job{
		ID:      posting.ID("workday", c.Slug, local),
		Title:   posting.Text(row.Title),
		Company: tenant,
		Posted:  posting.When(row.PostedOn, now),
		Type:    posting.TypeOf(row.TimeType),
		TypeRaw: posting.Text(row.TimeType),
		URL:     posting.CanonicalURL("https://" + c.Host + workdaySite(c) + "/" + workdayEscaped(local)),
	}
	job.Workplace, _ = posting.Workplaces(row.RemoteType)
	if place := posting.Text(row.LocationsText); !workdayCount.MatchString(place) {
		found, rest := posting.Workplaces(place)
		job.Workplace = ways(job.Workplace, found)
		job.Locations = texts(rest)
	}
	return job
}

// workdayPlain is a posting's path without escapes, whether or not the board had
// it so.
func workdayPlain(local string) string {
	if plain, err := url.PathUnescape(local); err == nil {
		return plain
	}
	return local
}

// workdayEscaped is a posting's path as it stands in an address.
func workdayEscaped(local string) string { return (&url.URL{Path: workdayPlain(local)}).EscapedPath() }

func workdayGet(ctx context.Context, fetch Fetch, company Company, local string) (posting.Job, error) {
	if !strings.HasPrefix(local, "job/") || slices.Contains(strings.Split(workdayPlain(local), "/"), "..") {
		return posting.Job{}, absent(Answer{})
	}
	var detail struct {
		Info struct {
			Title       string
			Description string `json:"jobDescription"`
			Location    string
			More        []string `json:"additionalLocations"`
			PostedOn    string
			StartDate   string
			EndDate     string
			TimeType    string
			RemoteType  string
			ExternalURL string `json:"externalUrl"`
			Country     struct{ Descriptor string }
			CanApply    *bool
			Posted      *bool
		} `json:"jobPostingInfo"`
		Organization struct{ Name string } `json:"hiringOrganization"`
	}
	r := Request{
		URL:    "https://" + company.Host + company.Path + "/" + workdayEscaped(local),
		Header: http.Header{"Accept-Language": {"en-US,en"}},
	}
	a, err := ask(ctx, fetch, r, &detail)
	if err != nil {
		return posting.Job{}, workdayUnknown(err)
	}
	info := detail.Info
	if info.Posted != nil && !*info.Posted || info.CanApply != nil && !*info.CanApply && info.Posted == nil {
		return posting.Job{}, &Trouble{Verdict: Gone, Detail: "the board still knows the posting and says that it is no longer posted", Answer: a}
	}
	job := workdayRow{Title: info.Title, ExternalPath: local, PostedOn: info.PostedOn, TimeType: info.TimeType, RemoteType: info.RemoteType}.job(company, a.At)
	tenant, _, _ := strings.Cut(company.Slug, ".")
	job.Company = named(detail.Organization.Name, Company{Slug: tenant})
	for i, place := range append([]string{info.Location}, info.More...) {
		found, rest := posting.Workplaces(place)
		job.Workplace = ways(job.Workplace, found)
		if i == 0 {
			rest = joined(rest, info.Country.Descriptor) // the country of the first place
		}
		job.Locations = append(job.Locations, rest)
	}
	job.Locations = texts(job.Locations...)
	// The words count back in days at most; the start date is the day itself.
	if day := posting.When(info.StartDate, a.At); job.Posted.Precision == posting.AtLeast && day.Precision != posting.None && !day.At.After(job.Posted.At) {
		job.Posted = day
	}
	job.Closes = posting.When(info.EndDate, a.At)
	if page := posting.CanonicalURL(info.ExternalURL); page != "" {
		job.URL = page
	}
	job.HTML = info.Description
	return one(a, job)
}
