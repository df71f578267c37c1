package board_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"layover/internal/jobs/board"
)

// script answers requests one after the other, and keeps them. An answer is a
// body, or a status as in "404 Not Found".
type script struct {
	answers []string
	asked   []board.Request
}

func (s *script) fetch(_ context.Context, r board.Request) (board.Answer, error) {
	s.asked = append(s.asked, r)
	text := s.answers[min(len(s.asked), len(s.answers))-1]
	a := board.Answer{Status: 200, Header: http.Header{}, Body: []byte(text), At: now}
	if n, err := fmt.Sscanf(text, "%d ", &a.Status); n != 1 || err != nil {
		a.Status = 200
	}
	if trouble := board.Classify(a); trouble != nil {
		return board.Answer{}, trouble
	}
	return a, nil
}

// on returns a board, a company of it, and a script of answers.
func on(t *testing.T, name, company string, answers ...string) (*board.Board, board.Listing, *script) {
	t.Helper()
	b := board.Find(name)
	c, err := b.Parse(company)
	if err != nil {
		t.Fatal(err)
	}
	return b, board.Listing{Company: c}, &script{answers: answers}
}

func mustPage(t *testing.T, b *board.Board, in board.Listing, s *script, token string) board.Page {
	t.Helper()
	p, err := b.Page(t.Context(), s.fetch, in, token)
	if err != nil {
		t.Fatalf("%s, page %q: %v", b.Name, token, err)
	}
	return p
}

// many is a list of n rows made by a format with the number in it.
func many(from, n int, format string) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(format, from+i)
	}
	return "[" + strings.Join(rows, ",") + "]"
}

func TestDescriptions_J41_NothingIsNotAText(t *testing.T) {
	for name, answer := range map[string]string{
		"greenhouse":      `{"jobs":[{"id":1,"title":"t","content":""}]}`,
		"lever":           `[{"id":"1","text":"t","description":"","lists":[{"text":"You have","content":" "}],"additional":"<div></div>"}]`,
		"ashby":           `{"jobs":[{"id":"1","title":"t","descriptionHtml":null,"descriptionPlain":" \n\n "}]}`,
		"smartrecruiters": `{"totalFound":1,"content":[{"id":"1","name":"t"}]}`,
		"recruitee":       `{"offers":[{"id":1,"title":"t","description":null,"requirements":null}]}`,
		"personio":        `<workzag-jobs><position><id>1</id><name>t</name><jobDescriptions><jobDescription><name>Tasks</name><value/></jobDescription></jobDescriptions></position></workzag-jobs>`,
	} {
		b, in, s := on(t, name, "acme", answer)
		if html := mustPage(t, b, in, s, "").Jobs[0].HTML; html != "" {
			t.Errorf("%s: a description of nothing is %q", name, html)
		}
	}
}
