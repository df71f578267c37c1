package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"layover/internal/cli/clitest"
)

func TestTheDocumentsAndTheCommandLineAgree(t *testing.T) {
	clitest.Documented(t, root(), "../../docs/atenet-router.md")
	clitest.Exists(t, root(), "../../docs/*.md", "../../docs/decisions/*.md", "../../README.md", "../../CONTRIBUTING.md")
}

func TestTheDocumentNamesEveryMetric(t *testing.T) {
	c, s, plane := ownFront(t, "--parked-request-budget=20s")
	ask(t, c.listen, "a"+suffix)
	served := make(chan int, 1)
	go func() { // ends with the answer
		status, _ := ask(t, c.listen, "b"+suffix)
		served <- status
	}()
	scrape := func() string {
		w := httptest.NewRecorder()
		s.admin.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	var inLine string
	if !soon(t.Context(), func() bool { inLine = scrape(); return strings.Contains(inLine, "layover_pool_waiting{") }) {
		t.Fatalf("nobody is in line:\n%s", inLine)
	}
	plane.Suspend("demo/a")
	if status := <-served; status != 200 {
		t.Errorf("the parked request is answered %d", status)
	}
	// Some are there while somebody is in line, some once somebody was.
	clitest.Metrics(t, inLine+scrape(), "../../docs/atenet-router.md")
}
