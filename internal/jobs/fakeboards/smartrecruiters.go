package fakeboards

import (
	"net/http"
	"strings"

	"layover/internal/jobs/posting"
)

// smartrecruiters pages by offset, sends descriptions and pay with single
// postings only, and knows every company: those that it does not know have no
// postings.
func smartrecruiters(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		part := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		if len(part) < 4 || part[0] != "v1" || part[1] != "companies" || part[3] != "postings" || r.Method != http.MethodGet {
			sendJSON(w, http.StatusNotFound, object{"code": "NOT_FOUND", "message": "Not found"})
			return
		}
		c, _ := s.Company("smartrecruiters", part[2])
		if len(part) == 5 {
			for _, j := range c.Jobs {
				if j.Local == part[4] {
					sendJSON(w, http.StatusOK, smartDetail(c, j))
					return
				}
			}
			sendJSON(w, http.StatusNotFound, object{"code": "RESOURCE_NOT_FOUND", "message": "Posting not found"})
			return
		}
		rows := []any{}
		for _, j := range c.Jobs {
			rows = append(rows, smartRow(c, j))
		}
		rows = withOdd(rows, c.Odd)
		limit, offset := min(number(r, "limit", 100), 100), number(r, "offset", 0)
		sendJSON(w, http.StatusOK, object{"offset": offset, "limit": limit, "totalFound": len(rows), "content": pageOf(rows, offset, limit)})
	}
}

func smartRow(c Company, j Job) object {
	kinds := map[posting.Type]object{
		posting.FullTime: {"id": "permanent", "label": "Full-time"}, posting.PartTime: {"id": "part_time", "label": "Part-time"},
		posting.Contract: {"id": "contract", "label": "Contract"}, posting.Temporary: {"id": "temporary", "label": "Temporary"},
		posting.Internship: {"id": "intern", "label": "Intern"},
	}
	levels := map[posting.Seniority]object{
		posting.Junior: {"id": "entry_level", "label": "Entry Level"}, posting.Mid: {"id": "associate", "label": "Associate"},
		posting.Senior: {"id": "mid_senior_level", "label": "Mid-Senior Level"}, posting.Lead: {"id": "director", "label": "Director"},
	}
	department := object{}
	if j.Team != "" {
		department = object{"id": "11", "label": j.Team}
	}
	first := j.Places[0]
	return object{
		"id": j.Local, "uuid": "00000000-0000-4000-8000-" + j.Local[max(0, len(j.Local)-12):], "name": j.Title, "refNumber": "R1",
		"company": object{"identifier": c.Slug, "name": c.Name}, "releasedDate": j.Posted.UTC().Format("2006-01-02T15:04:05.000Z"),
		"location": object{"city": first.City, "region": first.Region, "country": strings.ToLower(first.Code),
			"remote": j.Workplace == posting.Remote, "hybrid": j.Workplace == posting.Hybrid, "fullLocation": first.String()},
		"industry": object{"id": "it", "label": "IT"}, "department": department, "function": object{"id": "eng", "label": "Engineering"},
		"typeOfEmployment": kinds[j.Type], "experienceLevel": levels[j.Level], "customField": []any{},
		"language": object{"code": j.Language, "label": j.Language}, "visibility": "PUBLIC",
		"ref": "https://api.smartrecruiters.com/v1/companies/" + c.Slug + "/postings/" + j.Local,
	}
}

func smartDetail(c Company, j Job) object {
	row := smartRow(c, j)
	if d := row["department"].(object); d["id"] != nil {
		d["id"] = 11 // a number here, a text in the list
	}
	public := "https://jobs.smartrecruiters.com/" + c.Slug + "/" + j.Local
	row["active"], row["postingUrl"], row["applyUrl"] = true, public+"-"+slugOf(j.Title), public+"?oga=true"
	row["jobAd"] = object{"sections": object{
		"companyDescription":    object{"title": "Company Description", "text": ""},
		"jobDescription":        object{"title": "Job Description", "text": j.HTML},
		"qualifications":        object{"title": "Qualifications", "text": "<p>Patience &amp; care</p>"},
		"additionalInformation": object{"title": "Additional Information", "text": nil},
		"videos":                object{"urls": []any{}},
	}}
	if j.Pay != nil {
		pay := object{"min": j.Pay.Min, "currency": j.Pay.Currency,
			"period": map[string]string{"year": "YEARLY", "month": "MONTHLY", "hour": "HOURLY"}[j.Pay.Period]}
		if j.Pay.Max > 0 {
			pay["max"] = j.Pay.Max
		}
		row["compensation"] = pay
	}
	return row
}
