package fakeboards

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// workdayMost is the number of jobs that workday tells of, whatever it has.
const workdayMost = 2000

// workday tells its total on the first page only, never more than a cap, goes
// back to the beginning behind it, and has null among its rows.
func workday(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, "/wday/cxs/")
		part := strings.SplitN(rest, "/", 3)
		if !ok || len(part) != 3 {
			workdayError(w, http.StatusNotFound, "not found")
			return
		}
		host := strings.Split(hostOnly(r.Host), ".")
		instance := host[len(host)-3]
		if host[len(host)-2] == "myworkdaysite" {
			instance = "site-" + instance
		}
		c, ok := s.Company("workday", part[0]+"."+instance+"."+part[1])
		switch {
		case !ok:
			workdayError(w, http.StatusUnprocessableEntity, "unknown site")
		case part[2] == "jobs" && r.Method != http.MethodPost:
			workdayError(w, http.StatusBadRequest, "method")
		case part[2] == "jobs":
			workdayPage(w, r, c)
		case r.Method != http.MethodGet:
			workdayError(w, http.StatusBadRequest, "method")
		default:
			workdayDetail(w, r, c, part[0], part[2])
		}
	}
}

func workdayError(w http.ResponseWriter, status int, message string) {
	sendJSON(w, status, object{"errorCode": fmt.Sprintf("HTTP_%d", status), "httpStatus": status, "message": message})
}

func workdayPage(w http.ResponseWriter, r *http.Request, c Company) {
	var in struct {
		AppliedFacets *map[string][]string `json:"appliedFacets"`
		Limit, Offset *int
		SearchText    *string `json:"searchText"`
	}
	err := json.NewDecoder(r.Body).Decode(&in)
	switch {
	case err != nil, in.AppliedFacets == nil, in.Limit == nil, in.Offset == nil, in.SearchText == nil:
		workdayError(w, http.StatusUnprocessableEntity, "body")
		return
	case *in.Limit > 20 || *in.Limit < 1:
		workdayError(w, http.StatusBadRequest, "limit")
		return
	}
	jobs := c.Jobs
	if words := strings.Fields(strings.ToLower(*in.SearchText)); len(words) > 0 {
		jobs = slices.DeleteFunc(jobs, func(j Job) bool { return !containsAll(strings.ToLower(j.Title), words) })
	}
	kinds := map[string]int{}
	for _, j := range jobs {
		kinds[workdayTime(j.Type)]++
	}
	total, offset := min(len(jobs), workdayMost), *in.Offset
	if len(jobs) > workdayMost && offset >= workdayMost {
		offset %= workdayMost
	}
	var rows []any
	for i, j := range pageOf(jobs[:total], offset, *in.Limit) {
		rows = append(rows, workdayRow(j))
		if i == 7 {
			rows = append(rows, nil)
		}
	}
	if *in.Offset == 0 {
		rows = withOdd(rows, c.Odd)
	} else {
		total = 0
	}
	var values []any
	for _, kind := range []string{"Full time", "Part time"} {
		if kinds[kind] > 0 {
			values = append(values, object{"descriptor": kind, "id": strings.ReplaceAll(kind, " ", "_"), "count": kinds[kind]})
		}
	}
	sendJSON(w, http.StatusOK, object{
		"total": total, "jobPostings": append([]any{}, rows...), "userAuthenticated": false,
		"facets": []any{object{"facetParameter": "timeType", "values": values}},
	})
}

func workdayRow(j Job) object {
	row := object{
		"title": j.Title, "externalPath": "/" + j.Local, "postedOn": workdayPosted(time.Since(j.Posted)),
		"bulletFields": []string{workdayReq(j)}, "timeType": workdayTime(j.Type),
	}
	if len(j.Places) > 1 {
		row["locationsText"] = fmt.Sprintf("%d Locations", len(j.Places))
	} else {
		row["locationsText"] = j.Places[0].City
	}
	return row
}

func workdayReq(j Job) string { return j.Local[strings.LastIndexByte(j.Local, '_')+1:] }

func workdayTime(t posting.Type) string {
	if t == posting.PartTime {
		return "Part time"
	}
	return "Full time"
}

func workdayPosted(age time.Duration) string {
	switch days := int(age / (24 * time.Hour)); {
	case days <= 0:
		return "Posted Today"
	case days == 1:
		return "Posted Yesterday"
	case days > 30:
		return "Posted 30+ Days Ago"
	default:
		return fmt.Sprintf("Posted %d Days Ago", days)
	}
}

func workdayDetail(w http.ResponseWriter, r *http.Request, c Company, tenant, local string) {
	for _, j := range c.Jobs {
		if j.Local != local {
			continue
		}
		first := j.Places[0]
		country := object{"descriptor": first.Country, "id": "c0", "alpha2Code": first.Code}
		var more []string
		for _, p := range j.Places[1:] {
			more = append(more, p.City)
		}
		info := object{
			"id": "f00", "title": j.Title, "jobDescription": j.HTML, "location": first.City,
			"postedOn": workdayPosted(time.Since(j.Posted)), "startDate": j.Posted.Format("2006-01-02"),
			"timeType": workdayTime(j.Type), "jobReqId": workdayReq(j), "jobPostingSiteId": "External",
			"country":                object{"descriptor": first.Country, "id": "c0"},
			"jobRequisitionLocation": object{"descriptor": first.City, "country": country},
			"canApply":               true, "posted": true,
			"externalUrl": "https://" + hostOnly(r.Host) + "/" + strings.SplitN(c.Slug, ".", 3)[2] + "/" + j.Local,
		}
		if len(more) > 0 {
			info["additionalLocations"] = more
		}
		if kind := map[posting.Workplace]string{posting.Remote: "Remote", posting.Hybrid: "Hybrid"}[j.Workplace]; kind != "" {
			info["remoteType"] = kind
		}
		sendJSON(w, http.StatusOK, object{
			"jobPostingInfo": info, "hiringOrganization": object{"name": cmp.Or(c.Name, tenant), "url": ""},
			"similarJobs": []any{}, "userAuthenticated": false,
		})
		return
	}
	workdayError(w, http.StatusNotFound, "not found")
}
