package atenet

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"layover/e2e/cluster"
)

// What docs/envoy.md says to watch, Envoy has.
func TestTheStatisticsOfTheManualAreThere(t *testing.T) {
	text, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## What to watch")
	c := start(t, 1, 0)
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	stats, err := c.Envoy.Get(t.Context(), "/stats")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for row := range strings.Lines(section) {
		first, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		group := ""
		for _, m := range regexp.MustCompile("`([a-z0-9_.]+)`").FindAllStringSubmatch(first, -1) {
			name := m[1]
			if i := strings.LastIndexByte(name, '.'); i >= 0 {
				group = name[:i+1]
			} else {
				name = group + name // of the one before
			}
			found++
			if !strings.Contains("\n"+stats, "\n"+name+": ") {
				t.Errorf("Envoy has no statistic %s", name)
			}
		}
	}
	if found < 8 {
		t.Errorf("the manual has %d statistics", found)
	}
}

// Without a router Envoy tries for about two seconds, then refuses with the
// Retry-After that the manual promises.
func TestWithoutARouterARefusalComesAfterAboutTwoSeconds(t *testing.T) {
	c := start(t, 1, 0)
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	c.Signal(syscall.SIGKILL)
	<-c.Ended()
	a := <-get(c, "demo/a")
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" || a.header.Get("Layover-Reason") != "" {
		t.Errorf("the answer is %d %v, want Envoy's own 503 with Retry-After 1", a.status, a.header)
	}
	if a.took > 5*time.Second {
		t.Errorf("it took %v", a.took)
	}
	t.Logf("it took %v", a.took)
}
