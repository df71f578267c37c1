package fakeboards

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAScriptSaysWhatIsWrongWithIt(t *testing.T) {
	for script, want := range map[string]string{
		`- board: greenhose`:               `rule 1 of the script: board: there is no "greenhose": write one of arbeitnow, `,
		"- status: 500\n- statuss: 500":    `line 2: field statuss not found`,
		`- delay: 3`:                       `line 1: "3" is no length of time: write 250ms, 3s or 1h`,
		`- delay: -3s`:                     `no length of time`,
		`- status: 42`:                     `status: 42 is none: write 200 to 599`,
		`- {status: 500, challenge: true}`: `only one of status (with text), challenge, redirect`,
		`- {cut: 5, stall: 5}`:             `cut and stall exclude each other`,
		`- {pace: 5s}`:                     `pace goes with drip only`,
		`- {from: -1}`:                     `from: -1 is below zero`,
		`- {bomb: 100000000}`:              `write at most 65536`,
		`board: lever`:                     `cannot unmarshal`,
		"- status: 500\n" + strings.Repeat("#", 1<<20): `the script has more than 1048576 bytes`,
	} {
		_, err := ReadScript(strings.NewReader(script))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q in it", script, err, want)
		}
	}
}

func TestAScriptIsReadAsItIsWritten(t *testing.T) {
	got, err := ReadScript(strings.NewReader(`
# Comments are for people.
- board: workday
  path: "*/jobs"
  from: 3
  times: 2
  status: 429
  headers: {Retry-After: "120"}
- host: hn.algolia.com
  every: 5
  drip: 100
  pace: 50ms
`))
	want := Script{
		{Board: "workday", Path: "*/jobs", From: 3, Times: 2, Status: 429, Headers: map[string]string{"Retry-After": "120"}},
		{Host: "hn.algolia.com", Every: 5, Drip: 100, Pace: Duration(50 * time.Millisecond)},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := ReadScript(strings.NewReader("")); len(got) != 0 || err != nil {
		t.Errorf("an empty script: %v, %v", got, err)
	}
}

func TestARuleMeetsItsRequestsOnly(t *testing.T) {
	for _, test := range []struct {
		rule Rule
		met  []int // of ten requests, from 1
	}{
		{Rule{}, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{Rule{From: 9}, []int{9, 10}},
		{Rule{From: 3, Times: 2}, []int{3, 4}},
		{Rule{Every: 4}, []int{1, 5, 9}},
		{Rule{From: 2, Every: 3, Times: 2}, []int{2, 5}},
		{Rule{Board: "hn"}, nil},
		{Rule{Host: "hn.*"}, nil},
		{Rule{Host: "remotive.*", Path: "/api/*", Query: "*n=1*", Method: "get", Times: 1}, []int{1}},
		{Rule{Method: "POST"}, nil},
		{Rule{Query: "n=4"}, []int{4}},
	} {
		s := New(World{})
		s.Play(Script{test.rule})
		for n := range 10 {
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", remotiveURL+"?n="+string("123456789X"[n]), nil))
		}
		var met []int
		for i, seen := range s.Requests() {
			if seen.Rule == 1 {
				met = append(met, i+1)
			}
		}
		if !reflect.DeepEqual(met, test.met) {
			t.Errorf("%+v met %v, want %v", test.rule, met, test.met)
		}
	}
}

func TestARuleLooksIntoTheBody(t *testing.T) {
	s := New(Generate(Plan{}))
	s.Play(Script{{Body: `"offset":20`, Status: 500}})
	for body, want := range map[string]int{
		`{"appliedFacets":{},"limit":20,"offset":0,"searchText":""}`:  200,
		`{"appliedFacets":{},"limit":20,"offset":20,"searchText":""}`: 500,
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", "http://acme.wd1.myworkdayjobs.com/wday/cxs/acme/External/jobs", strings.NewReader(body)))
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", body, w.Code, want)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "anything", true}, {"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*b", "ab", true}, {"*", "", true},
		{"a*b*c", "a12b34c", true}, {"a*b*c", "acb", false}, {"ab*bc", "abc", false}, {"*a*", "bab", true},
	} {
		if got := like(test.pattern, test.text); got != test.want {
			t.Errorf("like(%q, %q) = %v", test.pattern, test.text, got)
		}
	}
}
