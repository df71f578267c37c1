package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const actorRow = `[...document.querySelectorAll("#actors tbody tr")].find(row => row.cells[0].textContent === "h1-a")`

func TestTheStatusPageIsLiveAndChangesThings(t *testing.T) {
	s := serveActors(t, "")
	wants := func(name string) {
		t.Helper()
		run(t, ".", need(t, "curl"), "-s", "--max-time", "20", "-o", filepath.Join(t.TempDir(), "out"), "-H", "X-To: "+name, "http://"+s.addr+"/")
	}
	wants("h1-a")
	wants("failing-a")
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.cmd.Args[2]), "state", "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))

	b := openBrowser(t, 1400, 1000)
	b.open("http://" + s.admin + "/statusz")
	b.until("the page to be live", `document.getElementById("link").textContent === "live"`)
	b.until("the actor", actorRow)
	b.picture("light")
	b.prefer("dark")
	b.picture("dark")

	// What is folded out and what has the focus stay when the page changes.
	b.eval(`document.querySelector("#requests details").open = true; document.querySelector("#requests details summary").focus()`)
	wants("h1-b")
	b.until("the next actor, by itself", `document.getElementById("actors").textContent.includes("h1-b")`)
	b.until("its request", `document.getElementById("requests").textContent.includes("h1-b")`)
	if got := b.eval(`document.querySelector("#requests details[open]") !== null && document.activeElement.localName`); got != "summary" {
		t.Errorf("after a change the focus is on %q, and details are open: want summary", got)
	}

	// By keyboard alone: put it to sleep, with a wrong token first.
	b.eval(actorRow + `.querySelectorAll("button")[1].focus()`)
	b.key("Enter", "\r")
	b.until("the question for the token", `document.getElementById("ask").open && document.activeElement.id === "token"`)
	b.picture("token")
	b.write("a-wrong-token-of-mine")
	b.key("Enter", "\r")
	b.until("the refusal", `document.getElementById("link").textContent.includes("not the router's")`)
	b.until("the button to be free again", `!`+actorRow+`.querySelectorAll("button")[1].disabled`)
	b.eval(actorRow + `.querySelectorAll("button")[1].focus()`)
	b.key("Enter", "\r")
	b.until("the question again", `document.getElementById("ask").open && document.activeElement.id === "token"`)
	b.write(token)
	b.key("Enter", "\r")
	b.until("the answer", `document.getElementById("link").textContent === "put h1-a to sleep: asleep"`)
	b.eval(`document.querySelector("#pools input").value = 7; document.querySelector("#pools button").click()`)
	b.until("the pool to have 7 workers", `document.getElementById("pools").textContent.includes("of 7")`)
	b.eval(`[...document.querySelectorAll("#actors tbody tr")].find(row => row.cells[0].textContent === "failing-a").querySelector("button").click()`)
	b.until("the cause", `document.getElementById("link").textContent.includes("did not start")`)
	if got := b.eval(`document.getElementById("link").scrollWidth <= document.getElementById("link").clientWidth && document.documentElement.scrollWidth <= innerWidth`); got != "true" {
		t.Error("the cause of a wake-up that failed runs over what is beside it")
	}
	if got := b.eval(`[...document.querySelectorAll("button, input, select, summary, a, svg")].filter(e => e.offsetParent !== null || e.localName === "svg").filter(e => !(e.labels && e.labels.length) && !e.getAttribute("aria-label") && !e.textContent.trim() && !(e.localName === "svg" && e.getAttribute("aria-label") === "")).length`); got != "0" {
		t.Errorf("%s controls have no name", got)
	}
	for _, problem := range b.complaints() {
		if !strings.Contains(problem, "401") && !strings.Contains(problem, "502") { // of the wrong token, and the actor that fails
			t.Errorf("the browser complains: %s", problem)
		}
	}
}

func TestTheStatusPageFitsAPhone(t *testing.T) {
	s := serveActors(t, "")
	run(t, ".", need(t, "curl"), "-s", "--max-time", "20", "-H", "X-To: failing-with-quite-a-long-name-of-its-own", "http://"+s.addr+"/")
	b := openBrowser(t, 390, 844)
	b.open("http://" + s.admin + "/statusz")
	b.until("the page to be live", `document.getElementById("link").textContent === "live"`)
	b.picture("phone")
	if got := b.eval(`document.documentElement.scrollWidth <= innerWidth`); got != "true" {
		t.Errorf("the page is %s wide, the phone 390", b.eval(`document.documentElement.scrollWidth`))
	}
	if got := b.eval(`document.querySelector("#actors tbody tr").getBoundingClientRect().width <= innerWidth`); got != "true" {
		t.Error("an actor's row is wider than the phone")
	}
}

func TestWhoWaitsForTheSameIsFoldedAndStaysFoldedOut(t *testing.T) {
	s := serveActors(t, "")
	wants := func(name, id string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"X-To": {name}, "X-Request-Id": {id}}
		go func() { // ends with the test
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
	}
	b := openBrowser(t, 1400, 1000)
	b.open("http://" + s.admin + "/statusz")
	for _, id := range []string{"id-1", "id-2", "id-3"} {
		wants("never-x", id)
	}
	b.until("one entry for all", `document.querySelector("#lot details.waiter")?.textContent.includes("never-x ×3")`)
	b.eval(`document.querySelector("#lot details.waiter").open = true`)
	for _, name := range []string{"never-a", "never-z"} {
		wants(name, "of-"+name)
		b.until("the next one", `document.getElementById("lot").textContent.includes("of-`+name+`")`)
	}
	b.picture("waiting")
	if got := b.eval(`[...document.querySelectorAll("#lot details.waiter[open] .id")].map(e => e.textContent).sort().join()`); got != "id-1,id-2,id-3" {
		t.Errorf("folded out is %q, want the three ids", got)
	}
}
