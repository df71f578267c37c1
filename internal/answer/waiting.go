package answer

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"layover/internal/router"
)

// WaitingPage is what a browser is shown while its navigation waits. It is sent
// in pieces, as the answer to the very request that waits: Begin, then any
// number of State and Waited, then MoveOn or Refused. Each piece hides the one
// of its kind before it, by style alone, so the page is whole without scripts. (It
// is not :last-of-type, which nothing is in an element that has not ended.)
type WaitingPage struct {
	Actor     string
	RequestID string
	Here      string // the page's own URL without its fragment, from Here
}

//go:embed waiting.html
var waitingHTML string

var waitingPage = template.Must(template.New("waiting").Parse(waitingHTML))

// waitingPolicy allows the page its one style and its one script.
var waitingPolicy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	hashOf(waitingHTML, "<style>", "</style>"), hashOf(waitingHTML, `<script data-after="{{.After}}">`, "</script>"))

// hashOf is how a content security policy names the text between two tags.
func hashOf(html, begin, end string) string {
	_, text, _ := strings.Cut(html, begin)
	text, _, found := strings.Cut(text, end)
	if !found {
		panic("answer: a page has no " + begin)
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Header writes the header of the answer into h; its status is 202. Whoever is
// between us and the browser is asked to keep nothing and to hold nothing back.
func (p WaitingPage) Header(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff") // else a browser waits for more before it shows anything
	h.Set("Content-Security-Policy", waitingPolicy)
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Set("Referrer-Policy", "no-referrer")
}

// Begin returns the first piece.
func (p WaitingPage) Begin() []byte { return piece("begin", p) }

// State returns the piece that says what is waited for. actor is who is waited
// for: the page's own, or its fallback.
func (p WaitingPage) State(actor string, o router.Outlook) []byte {
	text := describe(o)
	if actor != p.Actor {
		text = actor + " is to answer in its place. " + text
	}
	return piece("state", text)
}

// describe says what o means to somebody who knows nothing of workers.
func describe(o router.Outlook) string {
	switch {
	case o.Phase == router.PhaseTurn:
		return fmt.Sprintf("It is busy. Yours is number %d of the requests that wait for their turn.", o.Place)
	case o.Phase == router.PhaseLine && o.Place > 0:
		return fmt.Sprintf("There is no room for it right now. It is number %d in line.", o.Place)
	case o.Phase == router.PhaseLine:
		return "There is no room for it right now. It is in line."
	case o.Phase == router.PhaseSleep:
		return "It is just going to sleep, and is started again after that."
	case o.Phase == router.PhaseWake:
		return "It is starting."
	case o.Phase == router.PhaseAttempt:
		return "It is awake, and takes no connections yet."
	}
	return "It was asked to wake up."
}

// Waited returns the piece that says how long the request has waited, in whole
// seconds. It is not announced to who listens, and a sign of life to all between.
func (p WaitingPage) Waited(d time.Duration) []byte { return piece("waited", int(d.Seconds())) }

// MoveOn returns the last piece of a page whose actor can be reached: it makes
// the browser ask for the same page again, in place of this one.
func (p WaitingPage) MoveOn() []byte {
	return piece("moveOn", map[string]any{"After": 0, "Here": p.Here})
}

// MoveOnLater is MoveOn in a stop, when who asks at once finds nobody listening:
// it makes the browser wait for the next router first. after is at least 2 s.
func (p WaitingPage) MoveOnLater(after time.Duration) []byte {
	return piece("moveOn", map[string]any{"After": int(after.Seconds()), "Here": p.Here})
}

// Refused returns the last piece of a page whose request was refused with e. It
// tries again only when e has a Retry-After.
func (p WaitingPage) Refused(e *router.Error) []byte {
	row := RowOf(e.Reason)
	after := 0
	if row.Retry {
		after = retrySeconds(e.RetryAfter, rand.Float64(), rand.Float64())
	}
	words := visits[row.Reason]
	return piece("refused", map[string]any{
		"Title": words.title, "Text": words.text, "Status": row.Status, "Detail": e.Detail, "Reason": e.Reason, "Actor": e.Actor,
		"RequestID": p.RequestID, "After": after, "Here": p.Here,
	})
}

func piece(name string, data any) []byte {
	var b bytes.Buffer
	if err := waitingPage.ExecuteTemplate(&b, name, data); err != nil {
		panic("answer: the waiting page cannot be executed: " + err.Error())
	}
	return b.Bytes()
}

// Here returns a reference from the resource at path, raw as in the request, to
// itself: one that no path can turn into one to another host. A reference
// without a path would be taken for a jump within the page by a browser whose
// address has a fragment.
func Here(path, query string) string {
	here := "./" + path[strings.LastIndexByte(path, '/')+1:]
	if query != "" {
		here += "?" + query
	}
	return here
}
