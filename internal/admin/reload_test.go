package admin_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"layover/internal/admin"
)

func TestAReloadIsShownAndCounted(t *testing.T) {
	type shown struct {
		Config *struct {
			Digest   string
			Since    time.Time
			Failed   *time.Time
			Problems []string
		}
	}
	a := newAdmin(t, admin.Options{})
	inStatus := func() int {
		var s admin.Status
		if err := json.Unmarshal(ask(a, "GET", "http://localhost/api/v1/status").Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		return len(s.ConfigProblems)
	}
	status := func() (s shown) {
		if err := json.Unmarshal(ask(a, "GET", "http://localhost/statusz.json").Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	metrics := func(want ...string) {
		t.Helper()
		text := ask(a, "GET", "http://localhost/metrics").Body.String()
		for _, line := range want {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("/metrics lacks %s", line)
			}
		}
	}
	if c := status().Config; c != nil {
		t.Errorf("without a file the status has the configuration %+v", c)
	}

	a.Reloaded("one", nil)
	if c := status().Config; c == nil || c.Digest != "one" || c.Since.IsZero() || c.Failed != nil {
		t.Errorf("at the start the configuration is %+v", c)
	}
	metrics(`layover_config_reloads_total{result="done"} 0`, `layover_config_last_reload_successful 1`)

	a.Reloaded("one", append([]string{strings.Repeat("x", 1000)}, make([]string, 50)...))
	if c := status().Config; c.Digest != "one" || c.Failed == nil || len(c.Problems) != 20 || len(c.Problems[0]) != 300 {
		t.Errorf("after a refused one the configuration is %+v", c)
	}
	metrics(`layover_config_reloads_total{result="refused"} 1`, `layover_config_last_reload_successful 0`)
	if n := inStatus(); n != 20 {
		t.Errorf("the API's status has %d problems of the refused one, want 20", n)
	}

	a.Reloaded("two", nil)
	if c := status().Config; c.Digest != "two" || c.Failed != nil || c.Problems != nil {
		t.Errorf("after a good one the configuration is %+v", c)
	}
	if n := inStatus(); n != 0 {
		t.Errorf("the API's status has %d problems of the good one", n)
	}
	metrics(`layover_config_reloads_total{result="done"} 1`, `layover_config_reloads_total{result="refused"} 1`, `layover_config_last_reload_successful 1`)
}
