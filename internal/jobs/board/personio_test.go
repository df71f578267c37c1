package board_test

import (
	"net/url"
	"testing"

	"layover/internal/jobs/board"
)

func TestPersonio_J7_XMLIsReadAsItComes(t *testing.T) {
	const one = `<position><id>1</id><name>a</name></position>`
	for feed, want := range map[string]struct {
		jobs, broken int
		verdict      board.Verdict
	}{
		`<workzag-jobs>` + one + `</workzag-jobs>`:                                                  {1, 0, board.OK},
		"\ufeff" + `<?xml version="1.0"?><workzag-jobs></workzag-jobs>`:                             {0, 0, board.OK},
		`<workzag-jobs>` + one + `<position><id>2</id><office>x</office></position></workzag-jobs>`: {1, 1, board.OK},
		`<workzag-jobs><position><id>1</id><name>R&D &nbsp; Q&A</name></position></workzag-jobs>`:   {1, 0, board.OK},
		`<workzag-jobs>` + one + `<position><id>2</id><name>b</na`:                                  {0, 0, board.Malformed},
		`<workzag-jobs>` + one:                {0, 0, board.Malformed},
		`<other>` + one + `</other>`:          {0, 0, board.Malformed},
		`{"not":"xml"}`:                       {0, 0, board.Malformed},
		``:                                    {0, 0, board.Malformed},
		"<!doctype html><p>Feed disabled</p>": {0, 0, board.Malformed},
		"404 <!doctype html>":                 {0, 0, board.EmptyOrUnknown},
		`<workzag-jobs><position><id>1</id><name><![CDATA[a </position> b]]></name></position>` + one + `</workzag-jobs>`: {2, 0, board.OK},
	} {
		b, in, s := on(t, "personio", "acme", feed)
		p, err := b.Page(t.Context(), s.fetch, in, "")
		if verdict(err) != want.verdict || len(p.Jobs) != want.jobs || p.Broken != want.broken {
			t.Errorf("%s: %d jobs, %d broken, %v, want %d, %d, %s", feed, len(p.Jobs), p.Broken, err, want.jobs, want.broken, want.verdict)
		}
	}
}

func TestPersonio_PostingsHaveAddressesThatTheFeedLeavesOut(t *testing.T) {
	for company, want := range map[string]string{"acme": "https://acme.jobs.personio.de/job/1", "com:acme": "https://acme.jobs.personio.com/job/1"} {
		b, in, s := on(t, "personio", company, `<workzag-jobs><position><id>1</id><name>a</name></position></workzag-jobs>`)
		if job := mustPage(t, b, in, s, "").Jobs[0]; job.URL != want || job.ID != "personio/"+url.PathEscape(company)+"/1" {
			t.Errorf("%s: %q %q, want %q", company, job.ID, job.URL, want)
		}
	}
}
