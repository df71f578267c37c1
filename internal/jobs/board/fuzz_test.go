package board_test

import (
	"context"
	"encoding/json"
	"testing"

	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

func FuzzBoardsTakeAnyAnswer(f *testing.F) {
	for _, seed := range []string{`{"jobs":[{"id":1,"title":"a"}]}`, `[{"id":"1","text":"t"}]`, `<workzag-jobs><position><id>1</id></position></workzag-jobs>`,
		`{"offers":[null]}`, `{"totalFound":-5,"content":[{}]}`, "<html>", "\ufeff[]", `{"data":[{"created_at":1e400}]}`, `{"total":2000,"jobPostings":[null,{"title":"x","externalPath":"/job/x"}]}`} {
		f.Add([]byte(seed))
	}
	companies := map[string]string{"workday": "acme.wd1.External"}
	f.Fuzz(func(t *testing.T, body []byte) {
		ask := func(context.Context, board.Request) (board.Answer, error) {
			return board.Answer{Status: 200, Body: body, At: now}, nil
		}
		for _, b := range board.All {
			var c board.Company
			if b.Parse != nil {
				name := companies[b.Name]
				if name == "" {
					name = "acme"
				}
				c, _ = b.Parse(name)
			}
			p, err := b.Page(t.Context(), ask, board.Listing{Company: c}, "")
			if err != nil && (len(p.Jobs) > 0 || p.Next != "") {
				t.Errorf("%s: %v, and a page beside it: %+v", b.Name, err, p)
			}
			if p.Received < len(p.Jobs)+p.Broken {
				t.Errorf("%s: %d jobs and %d broken rows of %d", b.Name, len(p.Jobs), p.Broken, p.Received)
			}
			for _, job := range p.Jobs {
				if name, company, local, ok := posting.SplitID(job.ID); !ok || name != b.Name || company != c.Slug || local == "" || job.Title == "" {
					t.Errorf("%s: a job with the id %q and the title %q", b.Name, job.ID, job.Title)
				}
			}
			if _, err := json.Marshal(p); err != nil {
				t.Errorf("%s: %v", b.Name, err)
			}
		}
	})
}
