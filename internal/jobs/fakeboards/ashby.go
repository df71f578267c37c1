package fakeboards

import (
	"net/http"
	"strings"

	"layover/internal/jobs/posting"
)

// ashby sends whole boards, with the postings that only a link leads to, and has
// no answer for one posting alone.
func ashby(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, "/posting-api/job-board/")
		c, known := s.Company("ashby", name)
		if !ok || !known || c.Slug != name || r.Method != http.MethodGet {
			sendText(w, http.StatusNotFound, "Not Found")
			return
		}
		rows := []any{}
		for _, j := range c.Jobs {
			rows = append(rows, ashbyRow(r.URL.Query().Get("includeCompensation") == "true", name, j))
		}
		sendJSON(w, http.StatusOK, object{"apiVersion": "1", "jobs": withOdd(rows, c.Odd)})
	}
}

func ashbyRow(pay bool, name string, j Job) object {
	kinds := map[posting.Type]string{posting.FullTime: "FullTime", posting.PartTime: "PartTime", posting.Contract: "Contract",
		posting.Temporary: "Temporary", posting.Internship: "Intern"}
	ways := map[posting.Workplace]any{posting.Hybrid: "Hybrid", posting.OnSite: "OnSite"} // remote ones say so elsewhere
	first := j.Places[0]
	home := "https://jobs.ashbyhq.com/" + strings.ReplaceAll(name, " ", "%20") + "/" + j.Local
	others := []any{}
	for _, p := range j.Places[1:] {
		others = append(others, object{"location": p.String(), "address": nil})
	}
	row := object{
		"id": j.Local, "title": j.Title, "department": "Everything", "team": j.Team, "employmentType": kinds[j.Type],
		"location": first.String(), "secondaryLocations": others, "publishedAt": j.Posted.UTC().Format("2006-01-02T15:04:05.000-07:00"),
		"isListed": !j.Unlisted, "isRemote": j.Workplace == posting.Remote, "workplaceType": ways[j.Workplace],
		"address": object{"postalAddress": object{"addressLocality": first.City, "addressRegion": first.Region, "addressCountry": first.Country}},
		"jobUrl":  home, "applyUrl": home + "/application", "descriptionHtml": j.HTML, "descriptionPlain": "…",
		"shouldDisplayCompensationOnJobPostings": true,
	}
	if !pay {
		return row
	}
	components := []any{}
	if j.Pay != nil {
		salary := object{"compensationType": "Salary", "currencyCode": j.Pay.Currency, "minValue": j.Pay.Min, "maxValue": nil,
			"interval": map[string]string{"year": "1 YEAR", "month": "1 MONTH", "hour": "1 HOUR"}[j.Pay.Period]}
		if j.Pay.Max > 0 {
			salary["maxValue"] = j.Pay.Max
		}
		components = append(components, salary,
			object{"compensationType": "EquityPercentage", "interval": "NONE", "currencyCode": nil, "minValue": nil, "maxValue": nil})
	}
	row["compensation"] = object{"compensationTierSummary": nil, "scrapeableCompensationSalarySummary": nil,
		"compensationTiers": []any{}, "summaryComponents": components}
	return row
}
