package deploy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	alertsFile    = "deploy/prometheus/layover.yaml"
	dashboardFile = "deploy/grafana/layover.json"
)

// promtool runs Prometheus' own tool.
func promtool(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI has no promtool: see .ci/packages")
		}
		t.Skip("NOT TESTED: there is no promtool here; Debian has it in the package prometheus")
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args[:2], " "), err, out)
	}
	return string(out)
}

// rule is what a test needs to know of an alert.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, alertsFile))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// A series is named without its job and instance, which a scrape adds. Its
// values are one a minute, as promtool writes them: 0+5x20 is 0, 5, 10 to 100.
type series map[string]string

// situation is what an alert is for, and what looks like it and is none.
type situation struct {
	alert  string
	fires  series
	before int // minute at which it does not fire yet
	at     int // minute at which it fires
	labels map[string]string
	value  string // as its texts write it
	silent []series
}

const requests = `layover_requests_total{route="web",wake="none",band="0",outcome="%s"}`

var (
	once    = "_x5 1x25"   // a counter that is born with its first event
	again   = "_x5 1+1x25" // one event a minute from then on
	ofRoute = map[string]string{"route": "web"}
	ofPool  = map[string]string{"pool": "small"}
)

func outcome(name, values string) series { return series{fmt.Sprintf(requests, name): values} }

var situations = []situation{
	{alert: "LayoverNotReady", fires: series{"layover_ready": "1x2 0x20"}, before: 7, at: 8,
		silent: []series{{"layover_ready": "1x5 0x3 1x20"}}},
	{alert: "LayoverConfigurationRefused", fires: series{"layover_config_last_reload_successful": "1x2 0x20"}, before: 7, at: 8,
		silent: []series{{"layover_config_last_reload_successful": "1x5 0x3 1x20"}}},
	{alert: "LayoverLotFull", fires: series{"layover_lot_rejected_total": "0x5 60+60x20"}, before: 6, at: 20, value: "1",
		silent: []series{{"layover_lot_rejected_total": "0x5 100x20"}}}, // one burst
	{alert: "LayoverLotFilling", fires: series{"layover_lot_spots": "1000x20", "layover_lot_spots_used": "900x20"}, before: 4, at: 5, value: "90%",
		silent: []series{
			{"layover_lot_spots": "0x20", "layover_lot_spots_used": "0x20"},
			{"layover_lot_spots": strings.Repeat("Inf ", 20), "layover_lot_spots_used": "9000x20"},
			{"layover_lot_spots": "1000x20", "layover_lot_spots_used": "10x3 1000x3 10x20"},
		}},
	{alert: "LayoverNoWorkers", fires: outcome("no_worker", again), before: 7, at: 20, labels: ofRoute,
		silent: []series{outcome("no_worker", once), outcome("served", again)}},
	{alert: "LayoverLineStands", fires: series{`layover_pool_waiting{pool="small"}`: "0x3 2x20"}, before: 13, at: 16, labels: ofPool,
		silent: []series{
			{`layover_pool_waiting{pool="small"}`: "1 1 1 0 1 1 1 1 0 1 1 1 0 1 1 1 1 0"},
			{`layover_pool_waiting{pool="small"}`: "2x4 0x20"}, // it starts with a line
		}},
	{alert: "LayoverStartsFail", fires: outcome("backing_off", again), before: 7, at: 20, labels: ofRoute,
		silent: []series{outcome("start_failed", once), outcome("lot_full", again)}},
	{alert: "LayoverActorFailed", fires: series{`layover_actors_failing{pool="small"}`: "0x2 2x20"}, before: 12, at: 13, value: "2",
		labels: ofPool,
		silent: []series{{`layover_actors_failing{pool="small"}`: "0x2 2x8 0x20"}, {`layover_actors{pool="small",state="asleep"}`: "2x20"}}},
	{alert: "LayoverActorsBreak", fires: outcome("actor_failed", again), before: 7, at: 20, labels: ofRoute,
		silent: []series{outcome("actor_unreachable", once)}},
	{alert: "LayoverAnswersTooLate", before: 9, at: 25, labels: ofRoute, value: "10%",
		fires: series{fmt.Sprintf(requests, "served"): "0+90x30", fmt.Sprintf(requests, "attempt_timeout"): "0+10x30"},
		silent: []series{
			{fmt.Sprintf(requests, "served"): "0+97x30", fmt.Sprintf(requests, "still_waking"): "0+3x30"},
			{fmt.Sprintf(requests, "attempt_timeout"): "0x30"}, // nobody asks
		}},
	{alert: "LayoverInternal", fires: outcome("internal", once), before: 4, at: 5,
		labels: map[string]string{"route": "web", "wake": "none", "band": "0", "outcome": "internal"},
		silent: []series{outcome("served", once)}},
	{alert: "LayoverPlaneAway", fires: outcome("plane_unavailable", again), before: 7, at: 20,
		silent: []series{outcome("plane_failed", "_x5 1x3 2x20")}},
	{alert: "LayoverDescriptors", fires: series{"process_open_fds": "900x20", "process_max_fds": "1000x20", "layover_ready": "1x20"}, before: 4, at: 5, value: "90%",
		silent: []series{
			{"process_open_fds": "900x20", "process_max_fds": "1000x20"}, // some other program
			{"process_open_fds": "700x20", "process_max_fds": "1000x20", "layover_ready": "1x20"},
		}},
}

// calm is a router that all is well with.
var calm = series{
	"layover_ready": "1x30", "layover_config_last_reload_successful": "1x30", "layover_lot_rejected_total": "3x30",
	"layover_lot_spots": "1024x30", "layover_lot_spots_used": "0 100 700 20 0 5 300 10 0x22",
	`layover_pool_waiting{pool="small"}`: "0 1 0 0 3 2 0 1 1 0x21", `layover_actors_failing{pool="small"}`: "0x30",
	fmt.Sprintf(requests, "served"): "0+600x30", fmt.Sprintf(requests, "client_gone"): "0+60x30", fmt.Sprintf(requests, "no_route"): "0+60x30",
	"process_open_fds": "120+1x30", "process_max_fds": "65536x30",
}

// A unit test of promtool, which reads JSON as YAML.
type (
	unitTests struct {
		Files []string   `json:"rule_files"`
		Tests []unitTest `json:"tests"`
	}
	unitTest struct {
		Name     string        `json:"name"`
		Interval string        `json:"interval"`
		Input    []inputSeries `json:"input_series"`
		Expect   []expectation `json:"alert_rule_test"`
	}
	inputSeries struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	expectation struct {
		At    string  `json:"eval_time"`
		Alert string  `json:"alertname"`
		Fires []fired `json:"exp_alerts"`
	}
	fired struct {
		Labels      map[string]string `json:"exp_labels"`
		Annotations map[string]string `json:"exp_annotations"`
	}
)

var from = map[string]string{"job": "layover", "instance": "host:7070"}

// inputs adds to each series where it is from.
func inputs(all series) (in []inputSeries) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		metric, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		labels = strings.TrimPrefix(labels+`,job="layover",instance="host:7070"`, ",")
		in = append(in, inputSeries{metric + "{" + labels + "}", all[name]})
	}
	return in
}

var template = regexp.MustCompile(`\{\{ \$(?:labels\.([a-z]+)|value(?: \| [a-zA-Z]+)?) \}\}`)

// fired is what Prometheus is to send when the alert fires.
func (s situation) fired(r rule) fired {
	f := fired{maps.Clone(from), make(map[string]string)}
	maps.Copy(f.Labels, r.Labels)
	maps.Copy(f.Labels, s.labels)
	for name, text := range r.Annotations {
		f.Annotations[name] = template.ReplaceAllStringFunc(text, func(m string) string {
			return cmp.Or(f.Labels[template.FindStringSubmatch(m)[1]], s.value)
		})
	}
	return f
}

func silence(name, alert string, all series) unitTest {
	test := unitTest{Name: name, Interval: "1m", Input: inputs(all)}
	for minute := range 31 {
		test.Expect = append(test.Expect, expectation{fmt.Sprintf("%dm", minute), alert, nil})
	}
	return test
}

func TestEachAlertFiresInItsSituationAndInNoOther(t *testing.T) {
	path, err := filepath.Abs(filepath.Join(root, alertsFile))
	if err != nil {
		t.Fatal(err)
	}
	all := unitTests{Files: []string{path}}
	for _, r := range alerts(t) {
		i := slices.IndexFunc(situations, func(s situation) bool { return s.alert == r.Alert })
		if i < 0 {
			t.Errorf("alert %s has no situation", r.Alert)
			continue
		}
		s := situations[i]
		all.Tests = append(all.Tests, unitTest{s.alert + " fires", "1m", inputs(s.fires), []expectation{
			{fmt.Sprintf("%dm", s.before), s.alert, nil},
			{fmt.Sprintf("%dm", s.at), s.alert, []fired{s.fired(r)}},
		}})
		for _, like := range s.silent {
			all.Tests = append(all.Tests, silence(s.alert+" is silent", s.alert, like))
		}
		all.Tests = append(all.Tests, silence(s.alert+" is silent when all is well", s.alert, calm))
	}
	if len(situations) != len(alerts(t)) {
		t.Errorf("%d situations are there for %d alerts", len(situations), len(alerts(t)))
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "test", "rules", file)
}

// The parser that the other test of expressions has takes more than Prometheus
// does.
func TestPrometheusAcceptsTheAlertsAndTheDashboardsExpressions(t *testing.T) {
	promtool(t, "", "check", "rules", filepath.Join(root, alertsFile))
	text, err := os.ReadFile(filepath.Join(root, dashboardFile))
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	var rules bytes.Buffer
	fmt.Fprintln(&rules, "groups: [{name: dashboard, rules: [")
	found := expressions(tree)
	for i, expr := range found {
		quoted, err := json.Marshal(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&rules, "{record: 'panel:%d', expr: %s},\n", i, quoted)
	}
	fmt.Fprintln(&rules, "]}]")
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, rules.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := promtool(t, "", "check", "rules", file); !strings.Contains(out, fmt.Sprintf("%d rules found", len(found))) {
		t.Errorf("promtool says %s, want %d rules found", out, len(found))
	}
}
