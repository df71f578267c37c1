package fakeboards

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"layover/internal/jobs/posting"
)

// workable has three doors: the widget with everything at once, the third
// version that pages by tens, and the second for one job.
func workable(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		part := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		switch {
		case hostOnly(r.Host) == "www.workable.com" && len(part) == 3 && part[0] == "api" && part[1] == "accounts":
			w.Header().Set("Location", "https://apply.workable.com/api/v1/widget/accounts/"+part[2]+"?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
			return
		case len(part) < 5, part[0] != "api":
			sendText(w, http.StatusNotFound, "Not Found")
			return
		}
		account := part[3]
		if part[1] == "v1" {
			account = part[4]
		}
		c, ok := s.Company("workable", account)
		switch door := strings.Join(part[1:3], "/"); {
		case !ok:
			sendText(w, http.StatusNotFound, "Not Found")
		case door == "v1/widget" && len(part) == 5 && r.Method == http.MethodGet:
			workableWidget(w, c, r.URL.Query().Get("details") == "true")
		case door == "v3/accounts" && len(part) == 5 && part[4] == "jobs" && r.Method == http.MethodPost:
			workableSearch(w, r, c)
		case door == "v2/accounts" && len(part) == 6 && part[4] == "jobs" && r.Method == http.MethodGet:
			workableDetail(w, c, part[5])
		default:
			sendText(w, http.StatusNotFound, "Not Found")
		}
	}
}

func workableWidget(w http.ResponseWriter, c Company, details bool) {
	var rows []any
	for _, j := range c.Jobs {
		first := j.Places[0]
		link := "https://apply.workable.com/j/" + j.Local
		row := object{
			"title": j.Title, "shortcode": j.Local, "code": "", "employment_type": workableWords[j.Type].long,
			"telecommuting": j.Workplace == posting.Remote, "department": j.Team, "url": link, "shortlink": link,
			"application_url": link + "/apply", "published_on": j.Posted.Format("2006-01-02"),
			"created_at": j.Posted.AddDate(0, 0, -4).Format("2006-01-02"), "country": first.Country, "city": first.City,
			"state": first.Region, "education": "", "experience": workableLevels[j.Level], "function": "", "industry": "",
			"locations": workableLocations(j),
		}
		if details {
			row["description"] = j.HTML
		}
		rows = append(rows, row)
	}
	rows = append([]any{}, withOdd(rows, c.Odd)...)
	sendJSON(w, http.StatusOK, object{"name": c.Name, "description": "<p>About us</p>", "jobs": rows})
}

var workableWords = map[posting.Type]struct{ long, short string }{
	posting.FullTime: {"Full-time", "full"}, posting.PartTime: {"Part-time", "part"}, posting.Contract: {"Contract", "contract"},
	posting.Temporary: {"Temporary", "temporary"}, posting.Internship: {"Other", ""},
}

var workableLevels = map[posting.Seniority]string{
	posting.Junior: "Entry level", posting.Mid: "Associate", posting.Senior: "Mid-Senior level", posting.Lead: "Director",
}

func workableLocations(j Job) (rows []any) {
	for _, p := range j.Places {
		rows = append(rows, object{"country": p.Country, "countryCode": p.Code, "city": p.City, "region": p.Region, "hidden": false})
	}
	return rows
}

// workableSearch refuses keys it does not know and pages by tens.
func workableSearch(w http.ResponseWriter, r *http.Request, c Company) {
	var body map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		sendJSON(w, http.StatusBadRequest, object{"error": "Bad Request"})
		return
	}
	known := map[string]bool{"query": true, "location": true, "department": true, "workplace": true, "worktype": true, "remote": true, "token": true}
	for key := range body {
		if !known[key] {
			sendJSON(w, http.StatusBadRequest, object{key: "Not allowed"})
			return
		}
	}
	query, token := text(body["query"]), text(body["token"])
	var jobs []Job
	for _, j := range c.Jobs {
		if containsAll(strings.ToLower(j.Title), strings.Fields(strings.ToLower(query))) {
			jobs = append(jobs, j)
		}
	}
	offset := 0
	if token != "" {
		plain, err := base64.StdEncoding.DecodeString(token)
		if offset, err = atoi(string(plain), err); err != nil {
			sendJSON(w, http.StatusBadRequest, object{"token": "Not allowed"})
			return
		}
	}
	const perPage = 10
	var rows []any
	for i, j := range pageOf(jobs, offset, perPage) {
		first := j.Places[0]
		var region any
		if first.Region != "" {
			region = first.Region
		}
		rows = append(rows, object{
			"id": 5_900_000 + offset + i, "shortcode": j.Local, "title": j.Title, "remote": j.Workplace == posting.Remote,
			"location":  object{"country": first.Country, "countryCode": first.Code, "city": first.City, "region": region, "display": first.String()},
			"locations": workableLocations(j), "state": "published", "isInternal": false, "code": nil,
			"published": j.Posted.UTC().Format("2006-01-02T15:04:05.000Z"), "type": workableWords[j.Type].short, "language": j.Language,
			"department": []string{j.Team}, "workplace": string(j.Workplace),
		})
	}
	if offset == 0 {
		rows = withOdd(rows, c.Odd)
	}
	answer := object{"total": len(jobs), "results": append([]any{}, rows...)}
	if offset+perPage < len(jobs) {
		answer["nextPage"] = base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(offset + perPage)))
	} else if offset%20 == 0 {
		answer["nextPage"] = nil
	}
	sendJSON(w, http.StatusOK, answer)
}

// text reads a JSON text; anything else is empty.
func text(raw json.RawMessage) (s string) {
	if !bytes.HasPrefix(raw, []byte(`"`)) || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func workableDetail(w http.ResponseWriter, c Company, shortcode string) {
	for _, j := range c.Jobs {
		if j.Local != shortcode {
			continue
		}
		first := j.Places[0]
		sendJSON(w, http.StatusOK, object{
			"id": 5_900_000, "shortcode": j.Local, "title": j.Title, "remote": j.Workplace == posting.Remote,
			"location":  object{"country": first.Country, "countryCode": first.Code, "city": first.City, "region": first.Region},
			"locations": workableLocations(j), "state": "published", "code": nil,
			"published": j.Posted.UTC().Format("2006-01-02T15:04:05.000Z"), "type": workableWords[j.Type].short, "language": j.Language,
			"department": []string{j.Team}, "workplace": string(j.Workplace), "description": j.HTML, "requirements": "", "benefits": nil,
		})
		return
	}
	sendText(w, http.StatusNotFound, "Not Found")
}
