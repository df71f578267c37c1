package board

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"layover/internal/jobs/posting"
)

// All is what is known about each board, in the order in which people are told
// of them. What it says about pace is a promise to the boards: their terms where
// they have some, and otherwise what no site notices.
var All = rows(
	greenhouse,
	lever,
	ashby,
	smartrecruiters,
	recruitee,
	personio,
	workable,
	workday,
	arbeitnow,
	himalayas,
	remotive,
	hn,
)

// Find returns the board of that name, whatever its case, or nil.
func Find(name string) *Board {
	for _, b := range All {
		if strings.EqualFold(b.Name, strings.TrimSpace(name)) {
			return b
		}
	}
	return nil
}

// How large answers may be. Whole boards with descriptions were seen with 8 kB
// a job, and those that say everything twice with 15 kB; the largest companies
// list some 2,500.
const (
	wholeBoard = 40 << 20
	onePage    = 8 << 20
)

// rows gives each board what all of them have in common: their troubles are put
// in words that help, and a description without text is none.
func rows(boards ...Board) []*Board {
	all := make([]*Board, len(boards))
	for i, b := range boards {
		page, get := b.Page, b.Get
		switch {
		case b.MaxBody != 0:
		case b.Whole:
			b.MaxBody = wholeBoard
		default:
			b.MaxBody = onePage
		}
		b.Page = func(ctx context.Context, fetch Fetch, in Listing, token string) (Page, error) {
			p, err := page(ctx, fetch, in, token)
			if err == nil && b.Ambiguous && token == "" && p.Received == 0 {
				err = &Trouble{Verdict: EmptyOrUnknown, Detail: fmt.Sprintf("%s lists nothing for %q; it answers the same for a company it does not know: %s",
					b.Title, in.Company.Slug, b.Where)}
			}
			for i := range p.Jobs {
				p.Jobs[i].HTML = described(p.Jobs[i].HTML)
			}
			return p, b.listing(err, in.Company)
		}
		b.Get = func(ctx context.Context, fetch Fetch, company Company, local string) (posting.Job, error) {
			job, err := get(ctx, fetch, company, local)
			job.HTML = described(job.HTML)
			return job, b.posting(err, company, local)
		}
		all[i] = &b
	}
	return all
}

// described is a description, or nothing if it is but empty elements.
func described(html string) string {
	if posting.Blank(html) {
		return ""
	}
	return html
}

// listing completes the trouble that a listing ran into.
func (b *Board) listing(err error, c Company) error {
	return b.complete(err, c, func(t *Trouble) {
		if b.Parse == nil { // there is no name that could be wrong
			b.retired(t)
			return
		}
		t.Detail = fmt.Sprintf("%s has no company %q: %s", b.Title, c.Slug, b.Where)
		if b.mayBeOff {
			t.Verdict = EmptyOrUnknown
			t.Detail = fmt.Sprintf("%s shows programs nothing for %q: the company may have switched that off while its page for people is live, or have another name: %s",
				b.Title, c.Slug, b.Where)
		}
	})
}

// posting completes the trouble that a request for one job ran into.
func (b *Board) posting(err error, c Company, local string) error {
	return b.complete(err, c, func(t *Trouble) {
		t.Verdict = NotVisible
		t.Detail = fmt.Sprintf("%s does not show the posting %q; that does not prove that it is closed: hidden ones are answered the same way",
			b.Title, short(local))
	})
}

func (b *Board) retired(t *Trouble) {
	t.Verdict = Gone
	t.Detail = fmt.Sprintf("%s no longer answers at this address", b.Title)
}

// complete gives a trouble what an adapter leaves out; unknown says what it
// means that nothing is there.
func (b *Board) complete(err error, c Company, unknown func(*Trouble)) error {
	var seen *Trouble
	if !errors.As(err, &seen) {
		return err
	}
	t := *seen // answers may be shared with others
	var name *net.DNSError
	switch {
	case t.Verdict != UnknownBoard, errors.As(t.Err, &name): // that there is no such host says more
	case b.ownErrors && t.Answer.Status == http.StatusNotFound && isHTML(t.Answer.Body):
		b.retired(&t)
	default:
		unknown(&t)
	}
	if t.Page == "" && b.Home != nil {
		t.Page = b.Home(c)
	}
	return &t
}

// absent is the answer for a job that a board's whole list does not have.
func absent(a Answer) error {
	return &Trouble{Verdict: UnknownBoard, Detail: "the list does not have it", Answer: a}
}

// slug reads a company's name on a board: the name alone, or the address of its
// page on one of hosts, where it is the first part of the path.
func slug(title, company string, valid *regexp.Regexp, hosts ...string) (name, host string, err error) {
	name = strings.TrimSpace(company)
	if len(name) > 300 {
		return "", "", fmt.Errorf("board: a company on %s has a name of at most 100 characters, not %d", title, len(name))
	}
	if u := address(name); u != nil {
		for _, host := range hosts {
			if strings.EqualFold(u.Hostname(), host) {
				first, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
				name, err = valued(title, first, valid)
				return name, host, err
			}
		}
		return "", "", fmt.Errorf("board: %s is no address of %s: expected a company's name, or an address on %s", short(name), title, strings.Join(hosts, " or "))
	}
	name, err = valued(title, name, valid)
	return name, "", err
}

// label reads a company's name on a board that gives each company a host below
// one of domains: the name alone, or an address on that host.
func label(title, company string, domains ...string) (name, domain string, err error) {
	name = strings.ToLower(strings.TrimSpace(company))
	if len(name) > 300 {
		return "", "", fmt.Errorf("board: a company on %s has a name of at most 63 characters, not %d", title, len(name))
	}
	host := name
	if u := address(name); u != nil {
		host = u.Hostname()
	}
	for _, domain := range domains {
		if first, ok := strings.CutSuffix(host, "."+domain); ok {
			name, err = valued(title, first, hostLabel)
			return name, domain, err
		}
	}
	name, err = valued(title, name, hostLabel)
	return name, domains[0], err
}

func valued(title, name string, valid *regexp.Regexp) (string, error) {
	if valid.MatchString(name) {
		return name, nil
	}
	letters := "letters, digits, '.', '-' and '_', at most 100"
	switch valid {
	case hostLabel:
		letters = "letters, digits and '-', at most 63"
	case ashbyName:
		letters = "letters of any script, digits, blanks and a few signs, at most 100"
	}
	return "", fmt.Errorf("board: %q cannot be a company on %s: write its name as it stands in the address of its job pages (%s)", short(name), title, letters)
}

// address is s as a URL, or nil if s does not look like one. People leave out
// the scheme.
func address(s string) *url.URL {
	if !strings.Contains(s, "/") {
		return nil
	}
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil
	}
	return u
}

var (
	hostLabel = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)
	plainID   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`) // of one posting: what stands in its address without escapes
	plainSlug = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$`)
)
