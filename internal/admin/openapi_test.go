package admin

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"layover/internal/router"
)

// The document is held against the handlers: the same paths, and in each schema
// the fields that the Go type has in JSON.
func TestTheDocumentOfTheAPISaysWhatTheHandlersDo(t *testing.T) {
	text, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      map[string]map[string]any
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var documented []string
	for path, item := range doc.Paths {
		for key := range item {
			if key != "parameters" {
				documented = append(documented, strings.ToUpper(key)+" "+path)
			}
		}
	}
	slices.Sort(documented)
	if handled := slices.Sorted(maps.Keys(new(Admin).routes())); !slices.Equal(documented, handled) {
		t.Errorf("documented are\n%q\nhandled\n%q", documented, handled)
	}
	schemas := map[string]any{
		"Status": Status{}, "Setting": Setting{}, "Lot": Lot{}, "Totals": router.Totals{}, "Actors": Actors{}, "Actor": Actor{}, "Output": Output{},
		"Position": router.Position{}, "Pools": Pools{}, "Pool": Pool{}, "Waiter": Waiter{}, "Parked": Parked{}, "ParkedRequest": ParkedRequest{},
		"Requests": Requests{}, "Request": Request{}, "Phase": Phase{}, "Configuration": Configuration{}, "Problem": Problem{},
	}
	if got, want := slices.Sorted(maps.Keys(doc.Components.Schemas)), slices.Sorted(maps.Keys(schemas)); !slices.Equal(got, want) {
		t.Errorf("schemas %q, want %q", got, want)
	}
	for name, value := range schemas {
		got := slices.Sorted(maps.Keys(doc.Components.Schemas[name].Properties))
		if want := slices.Sorted(slices.Values(jsonFields(reflect.TypeOf(value)))); !slices.Equal(got, want) {
			t.Errorf("schema %s has\n%q, the answers have\n%q", name, got, want)
		}
	}
}

func jsonFields(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, jsonFields(f.Type)...)
		case name != "-":
			names = append(names, name)
		}
	}
	return names
}
