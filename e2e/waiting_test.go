package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"layover/e2e/actor"
)

// history is what the back button of the tab has.
func (b *browser) history() (urls []string) {
	b.t.Helper()
	var h struct{ Entries []struct{ URL string } }
	b.call(&h, b.session, "Page.getNavigationHistory", nil)
	for _, entry := range h.Entries {
		urls = append(urls, entry.URL)
	}
	return urls
}

// scripts allows the page's scripts, or not. What b.eval asks is answered either way.
func (b *browser) scripts(on bool) {
	b.t.Helper()
	b.call(nil, b.session, "Emulation.setScriptExecutionDisabled", map[string]any{"value": !on})
}

// text is what the page shows, without its scripts; "" while the tab is between two pages.
func (b *browser) text() string {
	b.t.Helper()
	var r struct{ Result struct{ Value string } }
	answer := <-b.send(b.session, "Runtime.evaluate", map[string]any{"expression": "document.body ? document.body.innerText : ''", "returnByValue": true})
	json.Unmarshal(answer.Result, &r)
	return r.Result.Value
}

func (b *browser) shows(part string) {
	b.t.Helper()
	until(b.t, "the page to show: "+part, func() bool { return strings.Contains(b.text(), part) })
}

// serveSlow is layover with one worker and a waiting page for each of its actors, which take 3 s to start; those called crash-* die of
// their first request.
func serveSlow(t *testing.T) (s *server, events string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	events = filepath.Join(t.TempDir(), "events")
	env := fmt.Sprintf(`command: [%q], env: {%s: "{actor}", %s: 3s, %s: %q`, self, actor.Name, actor.Start, actor.Events, events)
	return serve(t, fmt.Sprintf(`
listen: filled in
pools: {default: {workers: 1}}
defaults: {budget: 30s, grace: 2s}
routes: [{host: "{actor}.localhost", waiting_page: 1s}]
actors:
  "slow-*": {%s}}
  "crash-*": {%s, %s: 1}}
  "fail-*": {%s, %s: 1}}
`, env, env, actor.Crash, env, actor.Fail)), events
}

// reached counts the requests that came to the actor.
func reached(t *testing.T, events, name string) (n int) {
	t.Helper()
	text, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, " "+name+"\n") {
			n++
		}
	}
	return n
}

func (b *browser) size(width, height int) {
	b.t.Helper()
	b.call(nil, b.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
}

func TestR65_ABrowserGoesOnFromTheWaitingPageByItself(t *testing.T) {
	s, _ := serveSlow(t)
	_, port, _ := strings.Cut(s.addr, ":")
	b := openBrowser(t, 1000, 700)
	ends := make(chan string, 2)
	for _, name := range []string{"slow-a", "slow-b"} { // they are before it in line
		go func() { ends <- s.curl(t, name+".localhost") }()
		until(t, name+" to have begun", func() bool { return strings.Contains(fmt.Sprint(s.status(t).Actors), name) })
	}
	url := "http://slow-c.localhost:" + port + "/some/page?q=1#part"
	b.call(nil, b.session, "Page.navigate", map[string]any{"url": url})
	b.shows("Waiting for slow-c")
	b.shows("It is number 2 in line.")
	if text := b.text(); strings.Count(text, "Waited for") != 1 || strings.Contains(text, "asked to wake up") || strings.Contains(text, "Nothing was heard") {
		t.Errorf("what came earlier is still shown, or what comes later already:\n%s", text)
	}
	b.picture("waiting-light")
	b.prefer("dark")
	b.picture("waiting-dark")
	b.size(390, 844)
	b.picture("waiting-phone")
	if got := b.eval(`[...document.querySelectorAll(".now > div")].at(-1).clientHeight < 40`); got != "true" {
		t.Error("what comes only after a silence has a line of its own already")
	}
	if got := b.eval("document.documentElement.scrollWidth <= innerWidth"); got != "true" {
		t.Error("the page is wider than a phone")
	}
	if got := b.eval(`document.querySelector(".now").ariaLive + getComputedStyle(document.querySelector("h1")).overflowWrap`); got != "politeanywhere" {
		t.Errorf("live region and style: %s", got)
	}
	b.shows("It is number 1 in line.")
	b.shows("It is starting.")
	b.shows("slow-c is awake")
	if got, want := fmt.Sprint(b.history()), fmt.Sprint([]string{"about:blank", url}); got != want {
		t.Errorf("history %s, want %s", got, want)
	}
	for range 2 {
		if got := <-ends; !strings.Contains(got, "is awake") {
			t.Errorf("one before it in line got %s", got)
		}
	}
	if n := s.counted(t, `outcome="moved_on"`); n != 1 {
		t.Errorf("%d pages moved on, want 1", n)
	}
	if problems := b.complaints(); len(problems) > 0 {
		t.Errorf("the browser complains: %s", problems)
	}
}

func TestAWaitingPageNeedsNoScripts(t *testing.T) {
	s, _ := serveSlow(t)
	_, port, _ := strings.Cut(s.addr, ":")
	b := openBrowser(t, 1000, 700)
	b.scripts(false)
	url := "http://slow-a.localhost:" + port + "/some/page?q=1"
	b.call(nil, b.session, "Page.navigate", map[string]any{"url": url + "#part"})
	b.shows("Waiting for slow-a")
	b.shows("It is starting.")
	b.shows("slow-a is awake")
	if got, want := fmt.Sprint(b.history()), fmt.Sprint([]string{"about:blank", url}); got != want {
		t.Errorf("history %s, want %s", got, want)
	}
	if n := s.counted(t, `outcome="moved_on"`); n != 1 {
		t.Errorf("%d pages moved on, want 1", n)
	}
}

func TestR65_ACrashingActorMakesNoBrowserLoop(t *testing.T) {
	s, events := serveSlow(t)
	_, port, _ := strings.Cut(s.addr, ":")
	b := openBrowser(t, 1000, 700)
	b.call(nil, b.session, "Page.navigate", map[string]any{"url": "http://crash-a.localhost:" + port + "/"})
	b.shows("Waiting for crash-a")
	until(t, "the request that it dies of", func() bool { return s.counted(t, `outcome="moved_on"`) == 1 && reached(t, events, "crash-a") == 1 })
	<-time.After(6 * time.Second) // twice a start
	if n, all := reached(t, events, "crash-a"), s.counted(t, ""); n != 1 || all != 2 {
		t.Errorf("%d requests reached the actor, of %d in all; want one after one page", n, all)
	}
}

func TestAWaitingPageSaysWhyItsRequestWasRefused(t *testing.T) {
	s, _ := serveSlow(t)
	_, port, _ := strings.Cut(s.addr, ":")
	b := openBrowser(t, 390, 844)
	b.call(nil, b.session, "Page.navigate", map[string]any{"url": "http://fail-a.localhost:" + port + "/#part"})
	b.shows("Waiting for fail-a")
	b.shows("This site failed to start")
	b.picture("waiting-refused")
	if text := b.text(); strings.Contains(text, "Waiting for") || strings.Contains(text, "tries again") || !strings.Contains(text, "start_failed") {
		t.Errorf("the page of the refusal is\n%s", text)
	}
	b.key("Tab", "")
	if got := b.eval("document.activeElement.textContent"); got != "Try again" {
		t.Errorf("the first Tab goes to %q, want the link", got)
	}
	b.key("Enter", "\r")
	b.shows("This page tries again in") // of the back-off, soon
	s.curl(t, "fail-b.localhost")
	b.call(nil, b.session, "Page.navigate", map[string]any{"url": "http://fail-b.localhost:" + port + "/#part"})
	b.shows("This page tries again in")
	b.picture("refused-phone")
	b.shows("Waiting for fail-b") // by itself, although a refresh of an address with a fragment loads nothing
	if problems := b.complaints(); strings.Contains(fmt.Sprint(problems), "Content Security Policy") {
		t.Errorf("the browser complains: %s", problems)
	}
}
