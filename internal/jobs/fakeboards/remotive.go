package fakeboards

import (
	"fmt"
	"html"
	"net/http"
	"strconv"

	"layover/internal/jobs/posting"
)

// remotiveMost is how many jobs remotive sends, whatever it has.
const remotiveMost = 500

// remotive takes filters and heeds none: what it sends is always its newest
// jobs, with dates that have no zone.
func remotive(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/api/remote-jobs" {
			sendText(w, http.StatusNotFound, "Not Found")
			return
		}
		jobs := s.Jobs("remotive")
		var rows []any
		for _, j := range pageOf(jobs, 0, remotiveMost) {
			rows = append(rows, remotiveRow(j))
		}
		rows = withOdd(rows, s.odd("remotive"))
		sendJSON(w, http.StatusOK, object{
			"00-warning":      "At most two requests a minute; four times a day is enough.",
			"0-legal-notice":  "Please link back to the job's page.",
			"job-count":       len(rows),
			"total-job-count": len(jobs),
			"jobs":            append([]any{}, rows...),
		})
	}
}

func remotiveRow(j Job) object {
	kinds := map[posting.Type]string{
		posting.FullTime: "full_time", posting.PartTime: "part_time", posting.Contract: "contract",
		posting.Temporary: "other", posting.Internship: "internship",
	}
	id, err := strconv.Atoi(j.Local)
	if err != nil {
		panic(err) // the ids of this board are numbers
	}
	salary := ""
	if j.Pay != nil {
		salary = fmt.Sprintf("%d", j.Pay.Min)
		if j.Pay.Max > j.Pay.Min {
			salary += fmt.Sprintf(" - %d", j.Pay.Max)
		}
		salary += " " + j.Pay.Currency + map[string]string{"hour": " per hour", "month": " per month"}[j.Pay.Period]
	}
	return object{
		"id": id, "url": fmt.Sprintf("https://remotive.com/remote-jobs/software-dev/%s-%d", slugOf(j.Title), id),
		"title": html.EscapeString(j.Title), "company_name": j.Company, "company_logo": "", "category": "Software Development",
		"tags": []string{j.Team}, "job_type": kinds[j.Type], "publication_date": j.Posted.UTC().Format("2006-01-02T15:04:05"),
		"candidate_required_location": j.Places[0].Country, "salary": salary, "description": j.HTML,
	}
}
