package fakeboards

import (
	"fmt"
	"net/http"

	"layover/internal/jobs/posting"
)

// arbeitnow pages by number, tells no total, and its link to the next page
// carries a search that nobody asked for.
func arbeitnow(s *Server) http.HandlerFunc {
	const perPage = 100
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/api/job-board-api" {
			sendJSON(w, http.StatusNotFound, object{"message": "Not Found"})
			return
		}
		const base = "https://www.arbeitnow.com/api/job-board-api"
		page := max(number(r, "page", 1), 1)
		var rows []any
		for _, j := range s.Jobs("arbeitnow") {
			rows = append(rows, object{
				"slug": j.Local, "company_name": j.Company, "title": j.Title, "description": j.HTML,
				"remote": j.Workplace == posting.Remote, "url": "https://www.arbeitnow.com/jobs/companies/" + j.Slug + "/" + j.Local,
				"tags": []string{j.Team}, "job_types": arbeitnowTypes(j.Type), "location": j.Places[0].City,
				"created_at": j.Posted.Unix(),
			})
		}
		rows = withOdd(rows, s.odd("arbeitnow"))
		offset := (page - 1) * perPage
		some := pageOf(rows, offset, perPage)
		var next, prev any
		if offset+perPage < len(rows) {
			next = fmt.Sprintf("%s?search=praktikum&page=%d", base, page+1)
		}
		if page > 1 {
			prev = fmt.Sprintf("%s?search=praktikum&page=%d", base, page-1)
		}
		sendJSON(w, http.StatusOK, object{
			"data":  append([]any{}, some...),
			"links": object{"first": base + "?page=1", "last": nil, "prev": prev, "next": next},
			"meta": object{
				"current_page": page, "from": offset + 1, "path": base, "per_page": perPage, "to": offset + len(some),
				"terms": "Please link back to the job's page.", "info": "Jobs are updated every hour.",
			},
		})
	}
}

func arbeitnowTypes(t posting.Type) []string {
	switch t {
	case posting.FullTime:
		return []string{"Full time"}
	case posting.PartTime:
		return []string{"Teilzeit", "Part time"}
	case posting.Internship:
		return []string{"Internship"}
	}
	return []string{}
}
