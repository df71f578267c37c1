package fakeboards

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// fakes returns the boards; each is in the file of its name.
func fakes() []fake {
	return []fake{
		{name: "greenhouse", hosts: []string{"boards-api.greenhouse.io"}, serve: greenhouse},
		{name: "lever", hosts: []string{"api.lever.co", "api.eu.lever.co"}, serve: lever},
		{name: "ashby", hosts: []string{"api.ashbyhq.com"}, serve: ashby},
		{name: "smartrecruiters", hosts: []string{"api.smartrecruiters.com"}, serve: smartrecruiters,
			limit: limit{requests: 10, per: time.Second, atOnce: 8, headers: true}},
		{name: "recruitee", hosts: []string{"*.recruitee.com"}, serve: recruitee},
		{name: "personio", hosts: []string{"*.jobs.personio.de", "*.jobs.personio.com"}, serve: personio},
		{name: "workable", hosts: []string{"apply.workable.com", "www.workable.com"}, serve: workable,
			limit: limit{requests: 20, per: time.Minute, retry: time.Hour, page: true}},
		{name: "workday", hosts: []string{"*.*.myworkdayjobs.com", "*.myworkdaysite.com"}, serve: workday,
			limit: limit{requests: 30, per: 10 * time.Second, retry: 30 * time.Second}},
		{name: "arbeitnow", hosts: []string{"www.arbeitnow.com"}, serve: arbeitnow},
		{name: "himalayas", hosts: []string{"himalayas.app"}, serve: himalayas,
			limit: limit{requests: 60, per: time.Minute}},
		{name: "remotive", hosts: []string{"remotive.com"}, serve: remotive,
			limit: limit{requests: 2, per: time.Minute}},
		{name: "hn", hosts: []string{"hn.algolia.com"}, serve: hn,
			limit: limit{requests: 10_000, per: time.Hour}},
	}
}

// Boards returns the names of the boards that can be served, sorted.
func Boards() []string {
	var names []string
	for _, f := range fakes() {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return names
}

// object is a JSON object.
type object = map[string]any

// sendJSON answers with a value as JSON.
func sendJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // the fakes send plain data only
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	w.Write(text) // to memory
}

// sendText answers with a text for people.
func sendText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(text)) // to memory
}

// oddRow is the n-th of the rows that nobody can read.
func oddRow(n int) any {
	rows := []any{"not an object", object{"id": object{"is": "no id"}, "title": []any{1}}, 17, []any{}}
	return rows[n%len(rows)]
}

// withOdd puts n unreadable rows among others: one in front, the rest behind.
func withOdd(rows []any, n int) []any {
	for i := range n {
		if i == 0 {
			rows = append([]any{oddRow(0)}, rows...)
		} else {
			rows = append(rows, oddRow(i))
		}
	}
	return rows
}

// number reads a number of a query, or returns otherwise if there is none.
func number(r *http.Request, name string, otherwise int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 0 {
		return otherwise
	}
	return n
}

// pageOf cuts a page out of rows.
func pageOf[T any](rows []T, offset, limit int) []T {
	offset = min(offset, len(rows))
	return rows[offset:min(offset+limit, len(rows))]
}
