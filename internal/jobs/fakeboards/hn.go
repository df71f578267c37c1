package fakeboards

import (
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// hnStory is the number of the newest thread; the threads before have the
// numbers below.
const hnStory = 39_000_000

// hn has its jobs as the comments of a monthly thread, beside threads that are
// about something else, replies, and comments that were deleted.
func hn(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, isItem := strings.CutPrefix(r.URL.Path, "/api/v1/items/")
		switch {
		case r.Method != http.MethodGet:
			sendJSON(w, http.StatusMethodNotAllowed, object{"status": 405, "error": "Method Not Allowed"})
		case r.URL.Path == "/api/v1/search_by_date":
			sendJSON(w, http.StatusOK, hnThreads(time.Now()))
		case isItem && id == strconv.Itoa(hnStory):
			sendJSON(w, http.StatusOK, hnThread(s))
		case isItem:
			for _, j := range s.Jobs("hn") {
				if j.Local == id {
					sendJSON(w, http.StatusOK, hnComment(j))
					return
				}
			}
			sendJSON(w, http.StatusNotFound, object{"status": 404, "error": "Not Found"})
		default:
			sendJSON(w, http.StatusNotFound, object{"status": 404, "error": "Not Found"})
		}
	}
}

// hnThreads lists the threads of the account that opens them, newest first:
// three each month, of which one is meant.
func hnThreads(now time.Time) object {
	var hits []any
	for month := range 3 {
		when := now.UTC().AddDate(0, -month, 0).Format("January 2006")
		for i, what := range []string{"Ask HN: Who wants to be hired? (%s)", "Ask HN: Freelancer? Seeking freelancer? (%s)", "Ask HN: Who is hiring? (%s)"} {
			id := hnStory - 10*month + 2 - i
			at := now.Add(-time.Duration(month)*30*24*time.Hour - time.Duration(i)*time.Second)
			hits = append(hits, object{
				"objectID": strconv.Itoa(id), "title": fmt.Sprintf(what, when), "author": "whoishiring",
				"created_at": at.UTC().Format("2006-01-02T15:04:05Z"), "created_at_i": at.Unix(),
			})
		}
	}
	return object{"hits": hits, "nbHits": 400, "page": 0, "nbPages": 20, "hitsPerPage": 20}
}

func hnThread(s *Server) object {
	var comments []any
	for i, j := range s.Jobs("hn") {
		comments = append(comments, hnComment(j))
		if i%10 == 3 {
			at := j.Posted.UTC().Format("2006-01-02T15:04:05.000Z")
			comments = append(comments, object{
				"id": 38_000_000 + i, "author": nil, "created_at": at, "text": nil, "parent_id": hnStory, "children": []any{},
			})
		}
	}
	return object{
		"id": hnStory, "title": "Ask HN: Who is hiring?", "author": "whoishiring", "type": "story",
		"children": append([]any{}, withOdd(comments, s.odd("hn"))...),
	}
}

func hnComment(j Job) object {
	id, err := strconv.Atoi(j.Local)
	if err != nil {
		panic(err) // the ids of this board are numbers
	}
	head := []string{j.Company, j.Title, j.Places[0].String()}
	switch j.Workplace {
	case posting.Remote:
		head = append(head, "REMOTE")
	case posting.Hybrid:
		head = append(head, "Hybrid")
	case posting.OnSite:
		head = append(head, "ONSITE")
	}
	if j.Type == posting.FullTime {
		head = append(head, "Full-time")
	}
	if j.Pay != nil && j.Pay.Currency == "USD" && j.Pay.Period == "year" {
		head = append(head, fmt.Sprintf("$%dk - $%dk", j.Pay.Min/1000, j.Pay.Max/1000))
	}
	text := html.EscapeString(strings.Join(head, " | ")) +
		` | <a href="https:&#x2F;&#x2F;` + j.Slug + `.example&#x2F;jobs" rel="nofollow">https:&#x2F;&#x2F;` + j.Slug + `.example&#x2F;jobs</a>` +
		j.HTML
	return object{
		"id": id, "author": fmt.Sprintf("user%d", id%1000), "created_at": j.Posted.UTC().Format("2006-01-02T15:04:05.000Z"),
		"created_at_i": j.Posted.Unix(), "type": "comment", "title": nil, "url": nil, "story_id": hnStory, "parent_id": hnStory,
		"text": text, "children": []any{object{
			"id": id + 1, "author": "user7", "created_at": j.Posted.UTC().Format("2006-01-02T15:04:05.000Z"), "type": "comment",
			"text": "Is this open to juniors | too?", "story_id": hnStory, "parent_id": id, "children": []any{},
		}},
	}
}
