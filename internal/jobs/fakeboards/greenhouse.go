package fakeboards

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// greenhouse sends whole boards. Its descriptions come on request, escaped once
// more than HTML is; some of its places say how people work and leave it to the
// offices where; pay comes with single jobs only.
func greenhouse(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		part := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		missing := func(what string) {
			sendJSON(w, http.StatusNotFound, object{"status": http.StatusNotFound, "error": what + " not found"})
		}
		if len(part) < 4 || part[0] != "v1" || part[1] != "boards" || part[3] != "jobs" || r.Method != http.MethodGet {
			missing("Page")
			return
		}
		c, ok := s.Company("greenhouse", part[2])
		if !ok {
			missing("Board")
			return
		}
		if len(part) == 5 {
			for _, j := range c.Jobs {
				if j.Local == part[4] {
					sendJSON(w, http.StatusOK, greenhouseRow(c, j, true, r.URL.Query().Get("pay_transparency") == "true"))
					return
				}
			}
			missing("Job")
			return
		}
		rows := []any{}
		for _, j := range c.Jobs {
			rows = append(rows, greenhouseRow(c, j, r.URL.Query().Get("content") == "true", false))
		}
		rows = withOdd(rows, c.Odd)
		sendJSON(w, http.StatusOK, object{"jobs": rows, "meta": object{"total": len(rows)}})
	}
}

func greenhouseRow(c Company, j Job, content, pay bool) object {
	zone := time.FixedZone("", -4*60*60)
	var offices []any
	var names []string
	for i, p := range j.Places {
		names = append(names, p.String())
		offices = append(offices, object{"id": 21 + i, "name": p.City, "location": p.String(), "parent_id": nil, "child_ids": []int{}})
	}
	location := strings.Join(names, "; ")
	switch j.Workplace {
	case posting.Hybrid:
		location = "Hybrid"
	case posting.Remote:
		location = "Remote - " + location
	}
	row := object{
		"id": json.Number(j.Local), "internal_job_id": nil, "title": j.Title + " ", "company_name": c.Name,
		"first_published": j.Posted.In(zone).Format(time.RFC3339), "updated_at": j.Updated.In(zone).Format(time.RFC3339),
		"requisition_id": nil, "application_deadline": nil, "location": object{"name": location},
		"absolute_url": fmt.Sprintf("https://%s.example/jobs?gh_jid=%s&gh_src=feed", slugOf(c.Slug), j.Local),
		"language":     j.Language, "metadata": nil, "data_compliance": []any{object{"type": "gdpr", "requires_consent": false, "retention_period": nil}},
	}
	if content {
		row["content"] = html.EscapeString(j.HTML)
		row["departments"] = []any{object{"id": 11, "name": j.Team, "parent_id": nil, "child_ids": []int{}}}
		row["offices"] = offices
	}
	if pay && j.Pay != nil {
		stated := object{"min_cents": j.Pay.Min * 100, "max_cents": nil, "currency_type": j.Pay.Currency, "blurb": "<p>Pay</p>",
			"title": map[string]string{"year": "Annual Salary", "month": "Monthly Salary", "hour": "Hourly Rate"}[j.Pay.Period]}
		if j.Pay.Max > 0 {
			stated["max_cents"] = j.Pay.Max * 100
		}
		row["pay_input_ranges"] = []any{stated}
	}
	return row
}
