package answer

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"layover/internal/router"
)

func TestAWaitingPageAllowsItselfItsStyleAndItsScriptAlone(t *testing.T) {
	h := make(http.Header)
	page := WaitingPage{Actor: "hello", RequestID: "id", Here: "./x"}
	page.Header(h)
	policy := h.Get("Content-Security-Policy")
	begin, end := string(page.Begin()), string(page.MoveOn())
	for _, hash := range []string{hashOf(begin, "<style>", "</style>"), hashOf(end, `<script data-after="0">`, "</script>")} {
		if !strings.Contains(policy, "'"+hash+"'") {
			t.Errorf("what is sent has the hash %s, which is not in %q", hash, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none'; ") {
		t.Errorf("the policy is %q", policy)
	}
}

func TestAWaitingPageThatMovesOnLaterSaysSo(t *testing.T) {
	text := string(WaitingPage{Here: "./x"}.MoveOnLater(5 * time.Second))
	for _, want := range []string{"being restarted. This page goes on in 5 seconds.", `<script data-after="5">`, `content="5;url=./x"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the end of the page is\n%s\nwant %q in it", text, want)
		}
	}
}

func TestNothingInAWaitingPageIsMarkup(t *testing.T) {
	const bad = `"><script>alert(1)</script>`
	page := WaitingPage{Actor: bad, RequestID: bad, Here: Here("/"+bad, bad)}
	e := &router.Error{Reason: router.LotFull, Actor: bad, Detail: bad, Output: []string{"hunter2"}}
	for _, text := range [][]byte{page.Begin(), page.MoveOn(), page.Refused(e)} {
		if s := string(text); strings.Contains(s, bad) || strings.Contains(s, "<script>") || strings.Contains(s, "hunter2") {
			t.Errorf("a piece has markup or output of others in it:\n%s", s)
		}
	}
}

func TestARefusedWaitingPageTriesAgainOnlyWhereARetryCanHelp(t *testing.T) {
	for _, row := range Table {
		e := &router.Error{Reason: row.Reason, RetryAfter: time.Hour}
		text := string(WaitingPage{Here: "./"}.Refused(e))
		if again := strings.Contains(text, "location.reload"); again != row.Retry || strings.Contains(text, `http-equiv="refresh"`) != row.Retry {
			t.Errorf("%s: tries again: %v, want %v", row.Reason, again, row.Retry)
		}
		if !strings.Contains(text, visits[row.Reason].title) || !strings.Contains(text, string(row.Reason)) || !strings.HasSuffix(text, "</html>\n") {
			t.Errorf("%s: the end of the page is\n%s", row.Reason, text)
		}
	}
}

func TestAWaitingPageSaysWhatIsWaitedFor(t *testing.T) {
	for want, o := range map[string]router.Outlook{
		"number 3 of the requests":   {Phase: router.PhaseTurn, Place: 3},
		"It is number 7 in line":     {Phase: router.PhaseLine, Place: 7},
		"It is in line":              {Phase: router.PhaseLine},
		"going to sleep":             {Phase: router.PhaseSleep},
		"It is starting":             {Phase: router.PhaseWake},
		"takes no connections yet":   {Phase: router.PhaseAttempt},
		"It was asked to wake up":    {},
		"It was asked to wake up.</": {Phase: "unheard of"},
	} {
		if got := string(WaitingPage{Actor: "a"}.State("a", o)); !strings.Contains(got, want) {
			t.Errorf("State(%+v) = %q, want %q in it", o, got, want)
		}
	}
	if got, want := string(WaitingPage{Actor: "a"}.State("b", router.Outlook{Phase: router.PhaseWake})), "<p>b is to answer in its place. It is starting.</p>\n"; got != want {
		t.Errorf("State of a fallback = %q, want %q", got, want)
	}
	if got := string(WaitingPage{}.Waited(12900 * time.Millisecond)); !strings.Contains(got, "Waited for 12 s.") {
		t.Errorf("Waited(12.9s) = %q", got)
	}
}

func TestAPageRefersToItselfAndToNoOtherHost(t *testing.T) {
	for _, c := range []struct{ path, query, want string }{
		{"/", "", "./"},
		{"/a/b", "", "./b"},
		{"/a/b/", "x=1&y=/2", "./?x=1&y=/2"},
		{"//other.test", "", "./other.test"},
		{"//other.test/", "", "./"},
		{"/a:b", "", "./a:b"},
		{"/a%2Fb;c", "", "./a%2Fb;c"},
		{"", "", "./"},
	} {
		if got := Here(c.path, c.query); got != c.want {
			t.Errorf("Here(%q, %q) = %q, want %q", c.path, c.query, got, c.want)
		}
	}
}
