package fakeboards

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Script is a list of faults. Each rule counts the requests that match it; of
// those that are due for a request, the first is what happens. As a file it is a YAML list, each member one Rule:
//
//	# The third and fourth page of any Workday site are refused for two minutes.
//	- board: workday
//	  path: "*/jobs"
//	  from: 3
//	  times: 2
//	  status: 429
//	  headers: {Retry-After: "120"}
//
//	# Every fifth answer of Lever comes in drops of 100 bytes.
//	- host: api.lever.co
//	  every: 5
//	  drip: 100
//	  pace: 50ms
type Script []Rule

// Rule says which requests meet a fault and what happens to them. Fields left
// out ask for nothing.
type Rule struct {
	// Which requests: all of these must hold. In Host and Path "*" stands for
	// any text.
	Board  string `yaml:"board"`
	Host   string `yaml:"host"`
	Path   string `yaml:"path"` // the path without its query
	Query  string `yaml:"query"`
	Body   string `yaml:"body"` // a text that the request's body has in it
	Method string `yaml:"method"`

	// Which of them, in the order in which they come: beginning with the From-th
	// (default 1), every Every-th (default 1), Times of them (default: all).
	From  int `yaml:"from"`
	Every int `yaml:"every"`
	Times int `yaml:"times"`

	// What happens. Delay goes with everything else.
	Delay Duration `yaml:"delay"` // before anything is answered

	// Instead of the board's answer, one of these:
	Status    int    `yaml:"status"`    // this status, with Text as the body
	Challenge bool   `yaml:"challenge"` // status 200 and a page that asks for a browser
	Redirect  string `yaml:"redirect"`  // 302 to this address
	Reset     bool   `yaml:"reset"`     // the connection is reset
	Bomb      int64  `yaml:"bomb"`      // a small gzip body that unpacks to so many MiB of blanks
	Repeat    bool   `yaml:"repeat"`    // what the board answered last to a request like these
	Text      string `yaml:"text"`      // this body; with Status 200 unless it says otherwise

	// With the board's answer, or with Status and Text:
	Headers   map[string]string `yaml:"headers"`    // set; an empty value removes
	RetryDate Duration          `yaml:"retry_date"` // Retry-After as the date of so long from now
	Type      string            `yaml:"type"`       // this Content-Type
	Truncate  int               `yaml:"truncate"`   // only the first so many bytes, as if they were all
	BOM       bool              `yaml:"bom"`        // a byte order mark before the body

	// On the way:
	Cut   int      `yaml:"cut"`   // the connection ends after so many bytes of the body
	Stall int      `yaml:"stall"` // nothing comes after so many bytes of the body; 0 < Stall
	Drip  int      `yaml:"drip"`  // so many bytes at a time ...
	Pace  Duration `yaml:"pace"`  // ... with this between them; default 100ms

	// Shift changes the board before it answers: so many new jobs are on top of
	// each company's list; below zero, so many of the first are gone.
	Shift int `yaml:"shift"`
}

// Duration is a time.Duration that YAML writes as "1m30s".
type Duration time.Duration

// UnmarshalYAML reads "250ms", "3s", "1h".
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	parsed, err := time.ParseDuration(n.Value)
	if err != nil || parsed < 0 {
		return fmt.Errorf("line %d: %q is no length of time: write 250ms, 3s or 1h", n.Line, n.Value)
	}
	*d = Duration(parsed)
	return nil
}

// maxScript bounds a script's text, in bytes.
const maxScript = 1 << 20

// ReadScript reads a script. Its errors say where and what is wrong.
func ReadScript(r io.Reader) (Script, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxScript+1))
	if err != nil {
		return nil, fmt.Errorf("fakeboards: read the script: %w", err)
	}
	if len(text) > maxScript {
		return nil, fmt.Errorf("fakeboards: the script has more than %d bytes", maxScript)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var script Script
	if err := decoder.Decode(&script); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("fakeboards: the script: %w", err)
	}
	for i, rule := range script {
		if err := rule.check(); err != nil {
			return nil, fmt.Errorf("fakeboards: rule %d of the script: %w", i+1, err)
		}
	}
	return script, nil
}

func (r Rule) check() error {
	if names := Boards(); r.Board != "" && !slices.Contains(names, r.Board) {
		return fmt.Errorf("board: there is no %q: write one of %s", r.Board, strings.Join(names, ", "))
	}
	for name, n := range map[string]int{
		"from": r.From, "every": r.Every, "times": r.Times, "truncate": r.Truncate, "cut": r.Cut, "stall": r.Stall,
		"drip": r.Drip, "bomb": int(min(r.Bomb, 1<<30)),
	} {
		if n < 0 {
			return fmt.Errorf("%s: %d is below zero", name, n)
		}
	}
	if r.Status != 0 && (r.Status < 200 || r.Status > 599) {
		return fmt.Errorf("status: %d is none: write 200 to 599", r.Status)
	}
	if r.Bomb > 64<<10 {
		return fmt.Errorf("bomb: %d MiB: write at most %d", r.Bomb, 64<<10)
	}
	instead := count(r.Status != 0 || r.Text != "", r.Challenge, r.Redirect != "", r.Reset, r.Bomb != 0, r.Repeat)
	if instead > 1 {
		return errors.New("only one of status (with text), challenge, redirect, reset, bomb and repeat can be answered")
	}
	if count(r.Cut > 0, r.Stall > 0) > 1 {
		return errors.New("cut and stall exclude each other")
	}
	if r.Pace > 0 && r.Drip == 0 {
		return errors.New("pace goes with drip only")
	}
	return nil
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// instead reports whether the board itself is not asked.
func (r Rule) instead() bool {
	return r.Status != 0 || r.Text != "" || r.Challenge || r.Redirect != "" || r.Reset || r.Bomb != 0 || r.Repeat
}

// playing is a rule and how far it is. The server's lock guards it.
type playing struct {
	Rule
	count int     // requests that matched
	last  *answer // what the board answered last to one of them
}

func (p *playing) matches(board, host string, r *http.Request, body []byte) bool {
	return (p.Board == "" || p.Board == board) && like(p.Host, host) && like(p.Path, r.URL.EscapedPath()) &&
		like(p.Query, r.URL.RawQuery) && (p.Method == "" || strings.EqualFold(p.Method, r.Method)) &&
		bytes.Contains(body, []byte(p.Body))
}

// due reports whether the request that was just counted is one of those that
// the rule is about.
func (p *playing) due() bool {
	n := p.count - max(p.From, 1) // from 0
	every := max(p.Every, 1)
	return n >= 0 && n%every == 0 && (p.Times == 0 || n/every < p.Times)
}
