package fakeboards

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// himalayas takes an offset or a cursor, clamps the limit in silence, and
// leaves rows out of a page that expired since: a short page is not the last.
func himalayas(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		jobs := s.Jobs("himalayas")
		limit := min(max(number(r, "limit", 20), 1), 20)
		var offset int
		switch {
		case r.Method != http.MethodGet:
			sendJSON(w, http.StatusMethodNotAllowed, object{"ok": false, "errors": "Method not allowed"})
			return
		case r.URL.Path == "/jobs/api/search":
			if country := query.Get("country"); len(country) == 1 {
				sendJSON(w, http.StatusBadRequest, object{"ok": false, "errors": "Invalid country"})
				return
			}
			jobs = himalayasSearch(jobs, query.Get("q"), query.Get("company"))
			offset = (max(number(r, "page", 1), 1) - 1) * limit
		case r.URL.Path == "/jobs/api" && query.Has("cursor"):
			plain, err := base64.RawURLEncoding.DecodeString(query.Get("cursor"))
			if offset, err = atoi(string(plain), err); err != nil {
				sendJSON(w, http.StatusBadRequest, object{"ok": false, "errors": "Invalid cursor"})
				return
			}
		case r.URL.Path == "/jobs/api":
			offset = number(r, "offset", 0)
		default:
			sendJSON(w, http.StatusNotFound, object{"ok": false, "errors": "Not found"})
			return
		}
		var rows []any
		for _, j := range pageOf(jobs, offset, limit) {
			rows = append(rows, himalayasRow(j))
		}
		if offset == 0 {
			rows = withOdd(rows, s.odd("himalayas"))
		}
		answer := object{
			"comments": "Please link back to the job's page.", "updatedAt": time.Now().Unix(),
			"offset": offset, "limit": limit, "totalCount": len(jobs), "jobs": append([]any{}, rows...),
		}
		if offset+limit < len(jobs) && r.URL.Path == "/jobs/api" {
			answer["nextCursor"] = base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(offset + limit)))
		}
		sendJSON(w, http.StatusOK, answer)
	}
}

func atoi(text string, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func himalayasSearch(jobs []Job, q, company string) []Job {
	var found []Job
	for _, j := range jobs {
		text := strings.ToLower(j.Title + " " + j.Company + " " + j.HTML)
		if company != "" && j.Slug != company || !containsAll(text, strings.Fields(strings.ToLower(q))) {
			continue
		}
		found = append(found, j)
	}
	return found
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

func himalayasRow(j Job) object {
	kinds := map[posting.Type]string{
		posting.FullTime: "Full Time", posting.PartTime: "Part Time", posting.Contract: "Contractor",
		posting.Temporary: "Temporary", posting.Internship: "Intern",
	}
	levels := map[posting.Seniority]string{
		posting.Junior: "Entry-level", posting.Mid: "Mid-level", posting.Senior: "Senior", posting.Lead: "Manager",
	}
	countries := []string{}
	for _, p := range j.Places {
		countries = append(countries, p.Country)
	}
	link := "https://himalayas.app/companies/" + strings.Replace(j.Local, "/", "/jobs/", 1)
	row := object{
		"title": j.Title, "excerpt": "…", "companyName": j.Company, "companySlug": j.Slug, "companyLogo": "",
		"employmentType": kinds[j.Type], "minSalary": nil, "maxSalary": nil, "salaryPeriod": "annual", "currency": nil,
		"seniority": []string{levels[j.Level]}, "locationRestrictions": countries, "timezoneRestrictions": []any{-10, 5.5},
		"categories": []string{j.Team}, "parentCategories": []string{}, "description": j.HTML, "pubDate": j.Posted.Unix(),
		"expiryDate": j.Posted.Add(60 * 24 * time.Hour).Unix(), "applicationLink": link, "guid": link,
	}
	if j.Pay != nil {
		row["minSalary"], row["currency"] = j.Pay.Min, j.Pay.Currency
		row["salaryPeriod"] = map[string]string{"year": "annual", "month": "monthly", "hour": "hourly"}[j.Pay.Period]
		if j.Pay.Max > 0 {
			row["maxSalary"] = j.Pay.Max
		}
	}
	return row
}
