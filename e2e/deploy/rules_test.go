// Package deploy holds the dashboard and the alerts to what routers really
// export.
package deploy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"sigs.k8s.io/yaml"

	"layover/e2e/actor"
)

// exported are the labels of each metric that a router exports, and the values
// that each of them can have.
type exported map[string]map[string]bool

// scrape runs a router, has it serve, park and refuse, and returns its metrics.
func scrape(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nstate: %q\nactors: {a: {command: [%q], env: {%s: a}}}\nroutes: [{host: a.test, actor: a}]\n",
		filepath.Join(dir, "state"), os.Args[0], actor.Name)
	file := filepath.Join(dir, "layover.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(programs(t), "layover"), "serve", file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		go io.Copy(io.Discard, out)
		cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	var addresses []string
	for len(addresses) < 2 && lines.Scan() {
		_, address, _ := strings.Cut(lines.Text(), "http://")
		addresses = append(addresses, regexp.MustCompile(`^[^/,]*`).FindString(address))
	}
	if len(addresses) < 2 {
		t.Fatal("the router does not start")
	}
	for _, host := range []string{"a.test", "a.test", "b.test"} {
		get(t, "http://"+addresses[0], host)
	}
	return get(t, "http://"+addresses[1]+"/metrics", "")
}

func get(t *testing.T, url, host string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// read reads the text format of Prometheus. A scrape adds job and instance.
func read(t *testing.T, text string) exported {
	t.Helper()
	all := make(exported)
	sample := regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? \S+$`)
	label := regexp.MustCompile(`([a-z_]+)="[^"]*"`)
	for line := range strings.Lines(text) {
		m := sample.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		if all[m[1]] == nil {
			all[m[1]] = map[string]bool{"job": true, "instance": true}
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			all[m[1]][l[1]] = true
		}
	}
	if len(all) < 20 {
		t.Fatalf("the router exports %q", slices.Sorted(maps.Keys(all)))
	}
	return all
}

// closed are the values that labels can have whose set is closed.
func closed(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "internal/router/reason.go"))
	if err != nil {
		t.Fatal(err)
	}
	outcomes := []string{"served", "moved_on"}
	for _, m := range regexp.MustCompile(`Reason = "([a-z_]+)"`).FindAllStringSubmatch(string(text), -1) {
		outcomes = append(outcomes, m[1])
	}
	return map[string][]string{
		"outcome": outcomes,
		"wake":    {"none", "triggered", "joined", "spared", "unknown"},
		"state":   {"asleep", "waking", "awake", "going to sleep", "failed"},
	}
}

// check parses an expression and returns what it names that does not exist.
func (e exported) check(expr string, values map[string][]string) (wrong []string) {
	parsed, err := metricsql.Parse(strings.NewReplacer("$__rate_interval", "5m").Replace(expr))
	if err != nil {
		return []string{err.Error()}
	}
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var used []string // labels that the expression groups by
	metrics := 0
	metricsql.VisitAll(parsed, func(x metricsql.Expr) {
		switch x := x.(type) {
		case *metricsql.AggrFuncExpr:
			used = append(used, x.Modifier.Args...)
		case *metricsql.BinaryOpExpr:
			used = append(used, x.GroupModifier.Args...)
		case *metricsql.MetricExpr:
			for _, filters := range x.LabelFilterss {
				metrics++
				name := filters[0].Value
				has := e[name]
				if has == nil {
					note("there is no metric %s", name)
				}
				for _, f := range filters[1:] {
					if has != nil && !has[f.Label] {
						note("%s has no label %s", name, f.Label)
					}
					for _, value := range strings.Split(f.Value, "|") {
						if known := values[f.Label]; known != nil && !slices.Contains(known, value) {
							note("label %s is never %q", f.Label, value)
						}
					}
				}
			}
		}
	})
	if metrics == 0 {
		note("no metric is asked for")
	}
	for _, label := range used {
		metricsql.VisitAll(parsed, func(x metricsql.Expr) {
			if m, ok := x.(*metricsql.MetricExpr); ok {
				if name := m.LabelFilterss[0][0].Value; e[name] != nil && !e[name][label] {
					note("%s has no label %s to group by", name, label)
				}
			}
		})
	}
	return wrong
}

// expressions returns every text under a key called expr or query.
func expressions(node any) (found []string) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			if text, ok := value.(string); ok && key == "expr" {
				found = append(found, text)
			}
			found = append(found, expressions(value)...)
		}
	case []any:
		for _, value := range node {
			found = append(found, expressions(value)...)
		}
	}
	return found
}

func TestTheDashboardAndTheAlertsAskForWhatARouterExports(t *testing.T) {
	all, values := read(t, scrape(t)), closed(t)
	for name, atLeast := range map[string]int{"deploy/grafana/layover.json": 30, "deploy/prometheus/layover.yaml": 10} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := yaml.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		found := expressions(tree)
		if len(found) < atLeast {
			t.Errorf("%s has %d expressions, want at least %d", name, len(found), atLeast)
		}
		for _, expr := range found {
			for _, wrong := range all.check(expr, values) {
				t.Errorf("%s: %s: %s", name, expr, wrong)
			}
		}
	}
	for expr, want := range map[string]string{ // the check itself
		`rate(layover_request_total[5m])`:             "there is no metric layover_request_total",
		`layover_requests_total{result="served"}`:     "layover_requests_total has no label result",
		`layover_requests_total{outcome="full"}`:      `label outcome is never "full"`,
		`sum by (pool) (layover_requests_total)`:      "layover_requests_total has no label pool to group by",
		`sum by (pool layover_pool_waiting`:           "unparsed",
		`histogram_quantile(0.9, layover_lot_spots[)`: "",
	} {
		if got := strings.Join(all.check(expr, values), "; "); got == "" || !strings.Contains(got, want) {
			t.Errorf("check(%s) = %q, want %q", expr, got, want)
		}
	}
}

func TestTheDashboardsPanelsDoNotOverlapAndSayWhatTheyShow(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/grafana/layover.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID                       int
			Type, Title, Description string
			GridPos                  struct{ X, Y, W, H int }
		}
		Templating struct{ List []struct{ Name string } }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	taken := make(map[[2]int]string)
	ids := make(map[int]bool)
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && p.Description == "" {
			t.Errorf("panel %d %q has an id twice, no title or no description", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies on %q, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	known := map[string]bool{"__rate_interval": true, "__all": true}
	for _, v := range d.Templating.List {
		known[v.Name] = true
	}
	for _, m := range regexp.MustCompile(`\$\{?([a-z_]+)`).FindAllStringSubmatch(string(text), -1) {
		if !known[m[1]] {
			t.Errorf("variable %s is used and does not exist", m[1])
		}
	}
}

func TestEachAlertSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/prometheus/layover.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(text, &rules); err != nil {
		t.Fatal(err)
	}
	runbook, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if names[r.Alert] || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %q is there twice, or has no summary or description", r.Alert)
			}
			names[r.Alert] = true
			if r.For != "" {
				if _, err := time.ParseDuration(r.For); err != nil {
					t.Errorf("alert %s: for: %v", r.Alert, err)
				}
			}
			if s := r.Labels["severity"]; s != "warning" && s != "critical" {
				t.Errorf("alert %s has severity %q", r.Alert, s)
			}
			if !strings.Contains(string(runbook), "`"+r.Alert+"`") {
				t.Errorf("docs/operations.md does not say what to do about %s", r.Alert)
			}
		}
	}
	if len(names) < 10 {
		t.Errorf("there are %d alerts", len(names))
	}
}
