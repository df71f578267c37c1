package board

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"layover/internal/jobs/posting"
)

// HN is the monthly thread "Who is hiring?" of Hacker News. It is read as the
// tree that the thread is: the search for comments ends at a thousand. Each
// answer to the thread is a posting, what is below them is talk.
var hn = Board{
	Name:   "hn",
	Title:  "Hacker News: Who is hiring?",
	Home:   func(Company) string { return "https://news.ycombinator.com/submitted?id=whoishiring" },
	Hosts:  []string{"hn.algolia.com"},
	Every:  400 * time.Millisecond,
	AtOnce: 2,
	Fresh:  15 * time.Minute,
	Terms:  "at most 10,000 requests an hour",
	Whole:  true,
	Text:   true,
	Page: func(ctx context.Context, fetch Fetch, _ Listing, _ string) (Page, error) {
		story, err := hnLatest(ctx, fetch)
		if err != nil {
			return Page{}, err
		}
		var thread struct{ Children []json.RawMessage }
		if _, err := ask(ctx, fetch, Request{URL: hnItem(story)}, &thread); err != nil {
			return Page{}, err
		}
		p := page(thread.Children, hnComment.job)
		p.Total = len(thread.Children)
		return p, nil
	},
	Get: func(ctx context.Context, fetch Fetch, _ Company, local string) (posting.Job, error) {
		if _, err := strconv.ParseUint(local, 10, 63); err != nil {
			return posting.Job{}, absent(Answer{})
		}
		var comment hnComment
		a, err := ask(ctx, fetch, Request{URL: hnItem(local)}, &comment)
		if err != nil {
			return posting.Job{}, err
		}
		if comment.Text == "" {
			return posting.Job{}, &Trouble{Verdict: Gone, Detail: "the comment was deleted", Answer: a}
		}
		if comment.Story != comment.Parent { // an answer to a posting, or something else altogether
			return posting.Job{}, absent(a)
		}
		job, err := comment.job()
		if err != nil {
			return posting.Job{}, err
		}
		return one(a, job)
	},
}

func hnItem(id string) string { return "https://hn.algolia.com/api/v1/items/" + url.PathEscape(id) }

// hnTitle tells the thread from the two others that the account opens each
// month, of those who look for work.
var hnTitle = regexp.MustCompile(`(?i)\bwho is hiring\b`)

func hnLatest(ctx context.Context, fetch Fetch) (string, error) {
	var found struct {
		Hits []struct {
			ID      text `json:"objectID"`
			Title   string
			Created int64 `json:"created_at_i"`
		}
	}
	address := "https://hn.algolia.com/api/v1/search_by_date?tags=story,author_whoishiring&hitsPerPage=20"
	a, err := ask(ctx, fetch, Request{URL: address}, &found)
	if err != nil {
		return "", err
	}
	story, newest := "", int64(0)
	for _, hit := range found.Hits {
		if hnTitle.MatchString(hit.Title) && hit.ID != "" && (story == "" || hit.Created > newest) {
			story, newest = string(hit.ID), hit.Created
		}
	}
	if story == "" {
		return "", &Trouble{Verdict: Malformed, Detail: "no thread \"Who is hiring?\" among the account's last stories", Answer: a}
	}
	return story, nil
}

type hnComment struct {
	ID      text
	Author  string
	Created string `json:"created_at"`
	Text    string
	Story   text `json:"story_id"`
	Parent  text `json:"parent_id"`
}

func (row hnComment) job() (posting.Job, error) {
	if row.Text == "" { // deleted
		return posting.Job{}, errUnlisted
	}
	top, _, _ := strings.Cut(row.Text, "<p>")
	head := readHead(posting.Plain(top))
	return posting.Job{
		ID:        posting.ID("hn", "", string(row.ID)),
		Title:     head.title,
		Company:   head.company,
		Locations: head.places,
		Workplace: head.workplace,
		Pay:       head.pay,
		Posted:    posting.When(row.Created, time.Time{}),
		Type:      head.kind,
		TypeRaw:   head.kindRaw,
		URL:       "https://news.ycombinator.com/item?id=" + string(row.ID),
		Apply:     hnLink(top),
		HTML:      row.Text,
	}, nil
}

var hnHref = regexp.MustCompile(`(?i)<a\s[^>]*href="([^"]*)"`)

// hnLink is the first link of a comment's head: by custom it leads to the
// company.
func hnLink(top string) string {
	m := hnHref.FindStringSubmatch(top)
	if m == nil {
		return ""
	}
	return posting.CanonicalURL(posting.Unescape(m[1]))
}

// head is what the first line of a posting says, by custom "Company | Role |
// Location | REMOTE | Full-time | $90k - $120k", in any order after the company.
type head struct {
	company, title string
	places         []string
	workplace      []posting.Workplace
	kind           posting.Type
	kindRaw        string
	pay            []posting.Pay
}

const hnLongest = 200 // bytes of a title or a name; a head without bars is the beginning of a text

var (
	hnAddress = regexp.MustCompile(`\b(?:https?://|www\.)[^\s()]+`)
	hnKind    = regexp.MustCompile(`(?i)^(?:full[- ]?time|part[- ]?time|contract(?:or|ors)?|freelance|intern(?:s|ship|ships)?|temporary)(?:\W+(?:full[- ]?time|part[- ]?time|contract(?:or|ors)?|freelance|intern(?:s|ship|ships)?|and|or|only))*$`)
	hnOr      = regexp.MustCompile(`(?i)\W+(?:or|and)\W+|[,/+&]`)
	hnJoint   = regexp.MustCompile(`(?i)^(?:or|and)\s+|\s+(?:or|and)$`) // of a place and a way to work
	hnVisa    = regexp.MustCompile(`(?i)\bvisa\b`)
)

// hnRoles are beginnings of words that stand in roles and seldom in places;
// hnWords are whole ones ("qa", and not Qatar).
var (
	hnRoles = []string{
		"engineer", "develop", "programm", "architect", "scientist", "design", "manager", "analyst", "research", "technician",
		"administrator", "founding", "role", "position", "specialist", "consultant", "director", "writer", "recruiter", "support",
		"fullstack", "full-stack", "backend", "back-end", "frontend", "front-end",
	}
	hnWords = []string{"lead", "sre", "swe", "devops", "qa", "cto", "head", "data"}
)

// isRole reports whether a part of a head names work.
func isRole(part string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(part), func(r rune) bool { return !unicode.IsLetter(r) && r != '-' }) {
		if slices.Contains(hnWords, word) || slices.ContainsFunc(hnRoles, func(beginning string) bool { return strings.HasPrefix(word, beginning) }) {
			return true
		}
	}
	return false
}

func readHead(line string) head {
	line = posting.Text(strings.NewReplacer("\n", " ", "｜", "|").Replace(line))
	parts := strings.Split(line, "|")
	if len(parts) == 1 {
		return head{title: clip(line, hnLongest)}
	}
	h := head{company: clip(strings.Trim(withoutAddress(parts[0]), " -–—:,"), hnLongest)}
	var left []string
	for _, part := range parts[1:] {
		part = withoutAddress(part)
		var pay posting.Pay
		paid := false
		if strings.ContainsAny(part, "0123456789") {
			pay, paid = posting.SalaryText(part)
		}
		switch {
		case !strings.ContainsFunc(part, unicode.IsLetter), hnVisa.MatchString(part):
		case hnKind.MatchString(part):
			if h.kind == "" {
				h.kind, _ = firstType(hnOr.Split(part, -1))
				h.kindRaw = part
			}
		case paid && !isRole(part):
			h.pay = append(h.pay, pay)
		default:
			left = append(left, part)
		}
	}
	h.roleAndPlaces(left)
	if h.title == "" { // a company and where it is, and the role somewhere below
		h.title = clip(line, hnLongest)
	}
	return h
}

func withoutAddress(part string) string {
	return strings.TrimSpace(strings.ReplaceAll(hnAddress.ReplaceAllString(part, ""), "()", ""))
}

// roleAndPlaces reads the parts that are left: one is the role, the others are
// places and ways to work.
func (h *head) roleAndPlaces(left []string) {
	role := slices.IndexFunc(left, isRole)
	for i, part := range left {
		found, place := posting.Workplaces(part)
		if role < 0 && len(found) == 0 {
			role = i // by custom it comes first
		}
		if i == role {
			h.title = clip(part, hnLongest)
			continue
		}
		h.workplace = ways(h.workplace, found)
		h.places = append(h.places, hnJoint.ReplaceAllString(place, ""))
	}
	h.places = texts(h.places...)
	h.places = h.places[:min(len(h.places), 3)] // what comes later is seldom a place
}

// clip cuts a text at a blank before it gets too long.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := strings.LastIndexByte(s[:most], ' ')
	if cut <= 0 {
		cut = most
	}
	return strings.ToValidUTF8(s[:cut], "") + "…"
}
