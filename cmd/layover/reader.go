package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"layover/internal/cli"
)

// maxNodes bounds how many values of a document are looked at. Aliases can make
// a small file mean a huge one; no honest configuration comes near it.
const maxNodes = 200_000

// problem is one thing that is wrong with a configuration file.
type problem struct {
	line int // 0: the file as a whole
	text string
}

// problems are all that is wrong with the file, in the order of its lines.
type problems struct {
	file string
	list []problem
}

// Error returns one line per problem: file:line: what is wrong; the fix.
func (p *problems) Error() string { return strings.Join(p.lines(""), "\n") }

func (p *problems) lines(prefix string) []string {
	slices.SortStableFunc(p.list, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	p.list = slices.Compact(p.list)
	lines := make([]string, len(p.list))
	for i, problem := range p.list {
		at := p.file
		if problem.line > 0 {
			at += ":" + strconv.Itoa(problem.line)
		}
		lines[i] = at + ": " + prefix + problem.text
	}
	return lines
}

// print writes all of them to w as warnings.
func (p *problems) print(w io.Writer) {
	for _, line := range p.lines("warning: ") {
		fmt.Fprintln(w, line)
	}
}

func (p *problems) add(line int, format string, args ...any) {
	p.list = append(p.list, problem{line, fmt.Sprintf(format, args...)})
}

// reader takes values out of a YAML document and notes everything that is
// wrong with them. Its methods return the zero value for what they refuse, so
// that the caller goes on and all problems are found at once.
type reader struct {
	problems
	nodes int // looked at so far
}

// parse returns the root of the only document in data, nil if there is none.
func (r *reader) parse(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		r.syntax(data, err)
		return nil
	}
	if err := decoder.Decode(&second); err == nil {
		r.add(second.Line, "a second document begins here; keep one, without '---' between parts")
	}
	if len(document.Content) == 0 {
		return nil
	}
	return r.resolve(document.Content[0])
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func (r *reader) syntax(data []byte, err error) {
	text := err.Error()
	if text == "EOF" {
		r.add(0, "the file is empty; begin with the output of 'layover check --example'")
		return
	}
	line := 1 // the library leaves out the first
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
			if strings.HasPrefix(text, "did not find expected") || strings.HasPrefix(text, "found a tab") {
				line++ // it counts these from 0
			}
		}
	}
	if lines := bytes.Split(data, []byte("\n")); line <= len(lines) { // it says so of few tabs
		if rest, tab := bytes.CutPrefix(bytes.TrimLeft(lines[line-1], " "), []byte("\t")); tab && len(bytes.TrimSpace(rest)) > 0 {
			r.add(line, "this is not YAML: the line is indented with a tab; use spaces")
			return
		}
	}
	r.add(line, "this is not YAML: %s", text)
}

// resolve follows an alias. What it stands for is reported at the line where it
// is used.
func (r *reader) resolve(n *yaml.Node) *yaml.Node {
	r.nodes++
	if n.Kind != yaml.AliasNode || n.Alias == nil {
		return n
	}
	meant := *n.Alias
	meant.Line = n.Line
	return &meant
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries returns the keys of a mapping in the order of the file. An absent
// value has none.
func (r *reader) entries(n *yaml.Node, what string) []entry {
	if empty(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.add(n.Line, "%s is %s; write 'name: value' lines", what, kind(n))
		return nil
	}
	var all []entry
	first := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case r.nodes > maxNodes:
			r.add(key.Line, "the file stands for more than %d values; use fewer aliases", maxNodes)
			return all
		case key.Kind == yaml.ScalarNode && key.Tag == "!!merge":
			r.add(key.Line, "merge keys (<<) are not read; write the values out, or put shared ones under 'defaults'")
			continue
		case key.Kind != yaml.ScalarNode:
			r.add(key.Line, "a key of %s is %s; write a plain word", what, kind(key))
			continue
		case first[key.Value] > 0:
			r.add(key.Line, "%q is set twice in %s, first on line %d; delete one", key.Value, what, first[key.Value])
			continue
		}
		first[key.Value] = key.Line
		value := r.resolve(n.Content[i+1])
		all = append(all, entry{key.Value, key.Line, value})
	}
	return all
}

// fields is the values of a mapping whose keys are known.
type fields struct {
	what   string // how messages call the mapping
	line   int
	values map[string]*yaml.Node
	lines  map[string]int

	refused bool // it is no mapping: that has been said, and what it lacks need not be
}

// at returns the line of a field, the mapping's own if it is not set.
func (f fields) at(name string) int {
	if line, ok := f.lines[name]; ok {
		return line
	}
	return f.line
}

func (f fields) has(name string) bool { return f.values[name] != nil }

// fields reads a mapping that may have only the known keys.
func (r *reader) fields(n *yaml.Node, what string, known ...string) fields {
	f := fields{what: what, values: make(map[string]*yaml.Node), lines: make(map[string]int)}
	if n != nil {
		f.line = n.Line
		f.refused = !wellFormed(n)
	}
	for _, e := range r.entries(n, what) {
		if !slices.Contains(known, e.key) {
			r.add(e.line, "%s has no field %q; %s", what, e.key, cli.Suggest(e.key, known))
			continue
		}
		f.values[e.key], f.lines[e.key] = e.value, e.line
	}
	return f
}

// items returns the values of a list; a single value counts as a list of one.
func (r *reader) items(f fields, name string) []*yaml.Node {
	n := f.values[name]
	switch {
	case empty(n):
		return nil
	case n.Kind == yaml.ScalarNode:
		return []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		r.add(n.Line, "%s is %s; write a list", name, kind(n))
		return nil
	}
	var all []*yaml.Node
	for _, item := range n.Content {
		if r.nodes > maxNodes {
			r.add(item.Line, "the file stands for more than %d values; use fewer aliases", maxNodes)
			return all
		}
		all = append(all, r.resolve(item))
	}
	return all
}

// scalar returns the text of a plain value.
func (r *reader) scalar(n *yaml.Node, name string) (text string, ok bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.add(n.Line, "%s is %s; write one value", name, kind(n))
	case n.Tag == "!!null":
		r.add(n.Line, "%s has no value; write one or delete the line", name)
	case strings.ContainsRune(n.Value, 0):
		r.add(n.Line, "%s has a zero byte in it; delete that", name)
	default:
		return n.Value, true
	}
	return "", false
}

// given returns the text of a field that is set to one value, and where it is.
func (r *reader) given(f fields, name string) (n *yaml.Node, text string, ok bool) {
	if n = f.values[name]; n != nil {
		text, ok = r.scalar(n, name)
	}
	return n, text, ok
}

func (r *reader) text(f fields, name, otherwise string) string {
	if _, text, ok := r.given(f, name); ok {
		return text
	}
	return otherwise
}

func (r *reader) duration(f fields, name string, otherwise time.Duration) time.Duration {
	n, text, ok := r.given(f, name)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil && isNumber(text):
		r.add(n.Line, "%s %s has no unit; write %ss, or with another of ms, m, h", name, text, text)
	case err != nil:
		r.add(n.Line, "%s %q is not a duration; write one like 500ms, 10s or 1m30s", name, text)
	case d < 0:
		r.add(n.Line, "%s %s is negative; write a duration from 0 up", name, text)
	default:
		return d
	}
	return otherwise
}

func (r *reader) integer(f fields, name string, lowest, highest, otherwise int) int {
	n, text, ok := r.given(f, name)
	if !ok {
		return otherwise
	}
	i, err := strconv.Atoi(text)
	if err != nil || i < lowest || i > highest {
		r.add(n.Line, "%s %q is not allowed; write a whole number from %d to %d", name, text, lowest, highest)
		return otherwise
	}
	return i
}

func (r *reader) boolean(f fields, name string) bool {
	n, text, ok := r.given(f, name)
	if ok && text != "true" && text != "false" {
		r.add(n.Line, "%s %q is neither true nor false; write one of them", name, text)
	}
	return text == "true"
}

// choice reads a word out of a closed set.
func (r *reader) choice(f fields, name, otherwise string, allowed ...string) string {
	text := r.text(f, name, otherwise)
	if !slices.Contains(allowed, text) {
		r.add(f.at(name), "%s %q is not known; %s", name, text, cli.Suggest(text, allowed))
		return otherwise
	}
	return text
}

func empty(n *yaml.Node) bool {
	return n == nil || n.Kind == 0 || n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// wellFormed reports whether what should have fields has them, or is empty.
func wellFormed(n *yaml.Node) bool { return empty(n) || n.Kind == yaml.MappingNode }

func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}
