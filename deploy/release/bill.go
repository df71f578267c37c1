package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// bill is what the programs of an archive are made of: a bill of materials in
// CycloneDX 1.6, from what Go has written into them.
type bill struct {
	Name, Version, Platform string
	Time                    time.Time

	programs []component
	modules  []component
	uses     []dependency
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Purl       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

// add adds a program, the modules that are linked into it, and the Go that it
// was built with.
func (b *bill) add(name, sum string, info *debug.BuildInfo) {
	program := component{Type: "application", Ref: "program:" + name, Name: name, Version: info.Main.Version,
		Hashes: []hash{{"SHA-256", sum}}}
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs.") || s.Key == "CGO_ENABLED" || s.Key == "GOOS" || s.Key == "GOARCH" {
			program.Properties = append(program.Properties, property{"go:build:" + s.Key, s.Value})
		}
	}
	version := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
	modules := []component{{Type: "library", Name: "std", Version: version, Ref: "pkg:golang/std@" + version, Purl: "pkg:golang/std@" + version}}
	for _, m := range info.Deps {
		modules = append(modules, module(m))
	}
	uses := dependency{Ref: program.Ref}
	for _, m := range modules {
		uses.On = append(uses.On, m.Ref)
		if !slices.ContainsFunc(b.modules, func(have component) bool { return have.Ref == m.Ref }) {
			b.modules = append(b.modules, m)
		}
	}
	b.programs, b.uses = append(b.programs, program), append(b.uses, uses)
}

func module(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := "pkg:golang/" + strings.ReplaceAll(m.Path, "+", "%2B") + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	c := component{Type: "library", Name: m.Path, Version: m.Version, Ref: purl, Purl: purl}
	if m.Sum != "" { // of the module's files, not of one file: no hash in CycloneDX's sense
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}

func (b *bill) json() ([]byte, error) {
	slices.SortFunc(b.modules, func(a, c component) int { return cmp.Compare(a.Ref, c.Ref) })
	whole := component{Type: "application", Ref: "release", Name: b.Name, Version: b.Version, Properties: []property{{"platform", b.Platform}}}
	uses := dependency{Ref: whole.Ref}
	for _, p := range b.programs {
		uses.On = append(uses.On, p.Ref)
	}
	document := struct {
		Format   string `json:"bomFormat"`
		Spec     string `json:"specVersion"`
		Serial   string `json:"serialNumber"`
		Version  int    `json:"version"`
		Metadata struct {
			Timestamp string    `json:"timestamp"`
			Component component `json:"component"`
		} `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}{Format: "CycloneDX", Spec: "1.6", Version: 1, Components: slices.Concat(b.programs, b.modules), Dependencies: append([]dependency{uses}, b.uses...)}
	document.Metadata.Timestamp = b.Time.Format(time.RFC3339)
	document.Metadata.Component = whole
	content, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	// A serial number has to be a UUID; made of the content it is the same again.
	id := sha256.Sum256(content)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8, of one's own making
	document.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
	text, err := json.MarshalIndent(document, "", "  ")
	return append(text, '\n'), err
}
