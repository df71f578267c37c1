package fakeboards

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// recruitee gives each company a host, and writes amounts as text, dates with
// their zone in letters, and an absent salary as an object of nulls.
func recruitee(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		slug, _, _ := strings.Cut(hostOnly(r.Host), ".")
		c, ok := s.Company("recruitee", slug)
		rest, offers := strings.CutPrefix(r.URL.Path, "/api/offers/")
		if !ok || !offers || r.Method != http.MethodGet {
			sendJSON(w, http.StatusNotFound, object{"error": []string{"Not found"}})
			return
		}
		if rest = strings.Trim(rest, "/"); rest != "" {
			for _, j := range c.Jobs {
				if j.Local == rest {
					sendJSON(w, http.StatusOK, object{"offer": recruiteeRow(c, j)})
					return
				}
			}
			sendJSON(w, http.StatusNotFound, object{"error": []string{"Not found"}})
			return
		}
		rows := []any{}
		for _, j := range c.Jobs {
			rows = append(rows, recruiteeRow(c, j))
		}
		sendJSON(w, http.StatusOK, object{"offers": withOdd(rows, c.Odd)})
	}
}

func recruiteeRow(c Company, j Job) object {
	kinds := map[posting.Type]string{posting.FullTime: "fulltime_permanent", posting.PartTime: "parttime_fixed_term", posting.Contract: "contract",
		posting.Temporary: "temporary", posting.Internship: "internship"}
	levels := map[posting.Seniority]string{posting.Junior: "entry_level", posting.Mid: "mid_level", posting.Senior: "senior_level", posting.Lead: "manager"}
	date := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
	locations := []any{}
	for i, p := range j.Places {
		locations = append(locations, object{"id": i + 1, "name": p.City, "city": p.City, "state": p.Region, "country": p.Country,
			"country_code": p.Code, "postal_code": nil, "street": nil, "note": nil})
	}
	salary := object{"min": nil, "max": nil, "period": nil, "currency": nil}
	if j.Pay != nil {
		salary = object{"min": strconv.Itoa(j.Pay.Min) + ".00", "max": nil, "period": j.Pay.Period, "currency": j.Pay.Currency}
		if j.Pay.Max > 0 {
			salary["max"] = strconv.Itoa(j.Pay.Max)
		}
	}
	first := j.Places[0]
	page := fmt.Sprintf("https://careers.%s.example/o/%s", c.Slug, j.Local)
	return object{
		"id": json.Number(j.Local), "guid": "g" + j.Local, "slug": "offer-" + j.Local, "title": j.Title, "status": "published", "position": 1,
		"company_name": c.Name, "department": j.Team, "description": j.HTML, "requirements": nil, "location": first.String(), "locations": locations,
		"city": first.City, "country": first.Country, "country_code": first.Code, "remote": j.Workplace == posting.Remote,
		"hybrid": j.Workplace == posting.Hybrid, "on_site": j.Workplace != posting.Remote, "employment_type_code": kinds[j.Type],
		"experience_code": levels[j.Level], "education_code": nil, "category_code": "it", "min_hours": 40, "max_hours": 40,
		"min_hours_per_week": "40", "max_hours_per_week": "40", "tags": []string{"E3"}, "salary": salary, "created_at": date(j.Posted.Add(-time.Hour)),
		"published_at": date(j.Posted), "updated_at": date(j.Updated), "close_at": nil, "careers_url": page, "careers_apply_url": page + "/c/new",
		"translations": object{j.Language: object{"title": j.Title, "description": j.HTML, "requirements": nil}},
	}
}
