package board_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

// Replies, deleted comments and the account's other threads are no jobs.
func TestHNReadsTheAnswersToTheNewestThread(t *testing.T) {
	s := newSite(t, world("hn", 1, 34), "")
	p := s.list("hn", "")[0]
	sameJobs(t, p.Jobs, s.Jobs("hn"))
	if p.Received != 38 || p.Broken != 0 {
		t.Errorf("%d received, %d broken; four were deleted, and nothing is broken", p.Received, p.Broken)
	}
	seen := s.Requests()
	if len(seen) != 2 || seen[0].Path != "/api/v1/search_by_date" || seen[1].Path != "/api/v1/items/39000000" {
		t.Errorf("requests %+v", seen)
	}
}

// The search for comments would end at a thousand.
func TestJ35_HNReadsMoreThanAThousandAnswers(t *testing.T) {
	s := newSite(t, world("hn", 1, 1100), "")
	pages := s.list("hn", "")
	sameJobs(t, jobsOf(pages), s.Jobs("hn"))
	if len(pages) != 1 || pages[0].Capped || s.Count("", "") != 2 {
		t.Errorf("%d pages, capped %v, %d requests", len(pages), pages[0].Capped, s.Count("", ""))
	}
}

func TestHNJobs(t *testing.T) {
	s := newSite(t, world("hn", 3, 60), "")
	byID := make(map[string]posting.Job)
	for _, job := range jobsOf(s.list("hn", "")) {
		byID[job.ID] = job
	}
	for _, want := range s.Jobs("hn") {
		job := byID["hn//"+want.Local]
		if job.Title != posting.Text(want.Title) || job.Company != want.Company || !slices.Equal(job.Locations, []string{want.Places[0].String()}) ||
			!slices.Equal(job.Workplace, []posting.Workplace{want.Workplace}) {
			t.Errorf("got %+v, want %+v", job, want)
		}
		if job.URL != "https://news.ycombinator.com/item?id="+want.Local || job.Apply != "https://"+want.Slug+".example/jobs" {
			t.Errorf("URL %s, apply at %s", job.URL, job.Apply)
		}
		if pay := want.Pay; pay != nil && pay.Currency == "USD" && pay.Period == "year" && (len(job.Pay) != 1 || *job.Pay[0].Min != float64(pay.Min) || *job.Pay[0].Max != float64(pay.Max)) {
			t.Errorf("pay %+v, want %+v", job.Pay, pay)
		}
	}
}

func TestHNHeads(t *testing.T) {
	type head struct {
		company, title string
		places         []string
		ways           []posting.Workplace
		kind           posting.Type
		apply          string
	}
	remote, onsite, hybrid := posting.Remote, posting.OnSite, posting.Hybrid
	for text, want := range map[string]head{
		`Acme &amp; Co | Go dev | Lisbon or REMOTE | <a href="https:&#x2F;&#x2F;acme.example&#x2F;jobs">…</a><p>Body`: {
			"Acme & Co", "Go dev", []string{"Lisbon"}, []posting.Workplace{remote}, "", "https://acme.example/jobs"},
		`Acme (<a href="https:&#x2F;&#x2F;acme.example">https:&#x2F;&#x2F;acme.example</a>) | Senior Engineer | Berlin, Germany | ONSITE | Full-time`: {
			"Acme", "Senior Engineer", []string{"Berlin, Germany"}, []posting.Workplace{onsite}, posting.FullTime, "https://acme.example"},
		`Acme | REMOTE (EU) | Full-Time | Backend Engineer, Payments | €70k - €90k`: {
			"Acme", "Backend Engineer, Payments", []string{"EU"}, []posting.Workplace{remote}, posting.FullTime, ""},
		`Acme | New York, NY | Hybrid | VISA | Multiple roles`: {
			"Acme", "Multiple roles", []string{"New York, NY"}, []posting.Workplace{hybrid}, "", ""},
		`東雲システム | シニアソフトウェアエンジニア | 東京 | REMOTE`: {
			"東雲システム", "シニアソフトウェアエンジニア", []string{"東京"}, []posting.Workplace{remote}, "", ""},
		`Acme | Full-time or Contract | Remote | Data Scientist`: {
			"Acme", "Data Scientist", nil, []posting.Workplace{remote}, posting.FullTime, ""},
		`Acme ｜ Qatar ｜ Head of Data ｜ intern/contractor`: {"Acme", "Head of Data", []string{"Qatar"}, nil, posting.Internship, ""},
		`Acme | Senior Engineer, €80k - €90k | Porto`:     {"Acme", "Senior Engineer, €80k - €90k", []string{"Porto"}, nil, "", ""},
		`Acme | Remote`: {"Acme", "Acme | Remote", nil, []posting.Workplace{remote}, "", ""},
		`We are looking for a gardener in Porto.<p>Write to us.`: {
			"", "We are looking for a gardener in Porto.", nil, nil, "", ""},
	} {
		body := fmt.Sprintf(`{"children":[{"id":5,"author":"ana","created_at":"2026-11-02T15:01:00.000Z","text":%s,"children":[]}]}`, quoted(text))
		s := newSite(t, world("hn", 1, 1), "")
		s.Play([]rule{{Path: "/api/v1/items/*", Text: body}})
		p := s.list("hn", "")[0]
		if len(p.Jobs) != 1 {
			t.Errorf("%s: %+v", text, p)
			continue
		}
		job := p.Jobs[0]
		if job.Company != want.company || job.Title != want.title || !slices.Equal(job.Locations, want.places) || !slices.Equal(job.Workplace, want.ways) ||
			job.Type != want.kind || job.Apply != want.apply || job.HTML != text {
			t.Errorf("%s:\n got %q | %q | %q | %v | %q | %q\nwant %+v", text, job.Company, job.Title, job.Locations, job.Workplace, job.Type, job.Apply, want)
		}
	}
}

func TestHNHeadsAreNotEndless(t *testing.T) {
	s := newSite(t, world("hn", 1, 1), "")
	s.Play([]rule{{Path: "/api/v1/items/*", Text: fmt.Sprintf(`{"children":[{"id":5,"text":%s}]}`, quoted(strings.Repeat("größer ", 4000)))}})
	job := s.list("hn", "")[0].Jobs[0]
	if len(job.Title) > 210 || !strings.HasSuffix(job.Title, "größer…") {
		t.Errorf("title %q", job.Title)
	}
}

func TestHNTakesTheNewestThreadOfItsKind(t *testing.T) {
	s := newSite(t, world("hn", 1, 1), "")
	s.Play([]rule{{Path: "*/search_by_date", Text: `{"hits":[
		{"objectID":"9","title":"Ask HN: Who wants to be hired? (November 2026)","created_at_i":900},
		{"objectID":"7","title":"Ask HN: Who is hiring? (October 2026)","created_at_i":700},
		{"objectID":"8","title":"Ask HN: Who Is Hiring? (November 2026)","created_at_i":800}]}`},
		{Path: "/api/v1/items/8", Text: `{"children":[{"id":1,"text":"A | Dev"}]}`}})
	if p := s.list("hn", "")[0]; len(p.Jobs) != 1 || p.Jobs[0].Company != "A" {
		t.Errorf("got %+v", p)
	}
	s.Play([]rule{{Path: "*/search_by_date", Text: `{"hits":[{"objectID":"9","title":"Ask HN: Freelancer?"}]}`}})
	_, err := s.pages("hn", board.Listing{})
	trouble(t, err, board.Malformed)
}

func TestHNGetsAJob(t *testing.T) {
	s := newSite(t, world("hn", 1, 10), "")
	want := s.Jobs("hn")[4]
	job, err := s.get("hn", "", want.Local)
	if err != nil || job.Title != posting.Text(want.Title) || !strings.HasSuffix(job.HTML, want.HTML) {
		t.Errorf("got %+v, %v", job, err)
	}
	_, err = s.get("hn", "", "41000000")
	trouble(t, err, board.NotVisible)

	s.Play([]rule{{Path: "*/1", Text: `{"id":1,"author":null,"text":null,"story_id":9,"parent_id":9}`},
		{Path: "*/2", Text: `{"id":2,"text":"Is it open | yet?","story_id":9,"parent_id":1}`}})
	_, err = s.get("hn", "", "1")
	trouble(t, err, board.Gone)
	_, err = s.get("hn", "", "2") // talk below a posting
	trouble(t, err, board.NotVisible)
	before := s.Count("", "")
	_, err = s.get("hn", "", "../search")
	trouble(t, err, board.NotVisible)
	if s.Count("", "") != before {
		t.Error("what is no number was asked for")
	}
}

func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is always JSON
	}
	return string(text)
}
