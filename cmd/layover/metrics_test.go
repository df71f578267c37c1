package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"layover/internal/cli/clitest"
)

// scrape returns what the admin address exports.
func (p *program) scrape() string {
	p.t.Helper()
	resp, err := http.Get("http://" + p.admin + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// series returns the names, with labels, of all that the admin address exports
// of the router.
func (p *program) series() map[string]bool {
	p.t.Helper()
	found := make(map[string]bool)
	for line := range strings.Lines(p.scrape()) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(name, "layover_") {
			found[name] = true
		}
	}
	return found
}

func TestR75_R76_AFloodOfStrangeRequestsAddsNoSeries(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p := serving(t, t.TempDir(), "trusted_peers: 127.0.0.1\nband_header: X-Band\n"+
		"routes: [{name: by-name, host: \"{actor}.test\"}, {path: /api, actor: a}]\nactors:\n"+testActor("a", 0, ""))
	for _, host := range []string{"a.test", "a.test", "nobody.test", "other"} { // served twice, unknown_actor, no_route
		p.get(host, "X-Band", "0")
	}
	before := p.series()
	client := http.Client{Transport: &http.Transport{}}
	for range 1000 {
		word := fmt.Sprintf("w%x", random.Uint64())
		url := "http://" + p.front + "/" + word + "?" + word
		req, err := http.NewRequest(strings.ToUpper(word), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = []string{word, word + ".test", "a.test"}[random.IntN(3)]
		req.Header.Set("X-"+word, word)
		req.Header.Set("X-Band", "0")
		req.Header.Set("X-Request-Id", word)
		req.Header.Set("User-Agent", word)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	client.CloseIdleConnections()
	for name := range p.series() {
		if !before[name] {
			t.Errorf("the flood added %s", name)
		}
	}
	if len(before) < 50 {
		t.Errorf("only %d series were there before", len(before))
	}
}

func TestTheDocumentNamesEveryMetric(t *testing.T) {
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 0, ""))
	p.get("a.test")
	clitest.Metrics(t, p.scrape(), "../../docs/operations.md")
}
