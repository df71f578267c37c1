package fakeboards

import (
	"net/http"
	"strings"

	"layover/internal/jobs/posting"
)

// lever sends bare arrays that say neither how many there are nor where the next
// page is. Companies whose slug begins with "eu:" live on its other host.
func lever(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		missing := func() {
			sendJSON(w, http.StatusNotFound, object{"ok": false, "error": "Document not found"})
		}
		part := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		if len(part) < 3 || part[0] != "v0" || part[1] != "postings" || r.Method != http.MethodGet {
			missing()
			return
		}
		slug, pages := part[2], "https://jobs.lever.co/"
		if hostOnly(r.Host) == "api.eu.lever.co" {
			slug, pages = "eu:"+slug, "https://jobs.eu.lever.co/"
		}
		c, ok := s.Company("lever", slug)
		if !ok {
			missing()
			return
		}
		if r.URL.Query().Get("mode") != "json" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Write([]byte("<!doctype html><html><body>Postings for people</body></html>")) // to memory
			return
		}
		if len(part) == 4 {
			for _, j := range c.Jobs {
				if j.Local == part[3] {
					sendJSON(w, http.StatusOK, leverRow(pages+part[2], j))
					return
				}
			}
			missing()
			return
		}
		rows := []any{}
		for _, j := range c.Jobs {
			rows = append(rows, leverRow(pages+part[2], j))
		}
		rows = withOdd(rows, c.Odd)
		sendJSON(w, http.StatusOK, pageOf(rows, number(r, "skip", 0), number(r, "limit", len(rows))))
	}
}

func leverRow(home string, j Job) object {
	kinds := map[posting.Type]string{posting.FullTime: "Full-time", posting.PartTime: "Part-time", posting.Contract: "Contractor",
		posting.Temporary: "Temporary", posting.Internship: "Internship"}
	ways := map[posting.Workplace]string{posting.Remote: "remote", posting.Hybrid: "hybrid", posting.OnSite: "on-site"}
	if len(j.Title)%2 == 0 {
		ways[posting.OnSite] = "onsite"
	}
	var all []string
	for _, p := range j.Places {
		all = append(all, p.String())
	}
	row := object{
		"id": j.Local, "text": j.Title,
		"categories": object{"location": all[0], "team": j.Team, "department": "Everything", "commitment": kinds[j.Type], "allLocations": all},
		"country":    j.Places[0].Code, "workplaceType": ways[j.Workplace], "createdAt": j.Posted.UnixMilli(),
		"opening": "", "openingPlain": "", "description": j.HTML, "descriptionPlain": "…", "descriptionBody": j.HTML, "descriptionBodyPlain": "…",
		"lists":      []any{object{"text": "You have", "content": "<li>Go</li><li>SQL &amp; patience</li>"}},
		"additional": "", "additionalPlain": "", "hostedUrl": home + "/" + j.Local, "applyUrl": home + "/" + j.Local + "/apply",
	}
	if j.Pay != nil {
		pay := object{"currency": j.Pay.Currency, "min": j.Pay.Min,
			"interval": map[string]string{"year": "per-year-salary", "month": "per-month-salary", "hour": "per-hour-wage"}[j.Pay.Period]}
		if j.Pay.Max > 0 {
			pay["max"] = j.Pay.Max
		}
		row["salaryRange"] = pay
	}
	return row
}
