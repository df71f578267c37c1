package layover_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/api")

// TestExportedNamesOfTheLibraries keeps the list of what users may build on,
// so that a change of it is seen in review. `go test . -update` rewrites it.
func TestExportedNamesOfTheLibraries(t *testing.T) {
	for _, library := range []string{"turnstile", "budget", "parking", "crew", "lane"} {
		golden := filepath.Join("docs", "api", library+".txt")
		got := strings.Join(exported(t, library), "\n") + "\n"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the exported names of %s are not those of %s; got\n%s", library, golden, got)
		}
	}
}

// exported lists the exported declarations of a folder, one a line.
func exported(t *testing.T, folder string) (names []string) {
	t.Helper()
	for file := range goFiles(t) {
		if path.Dir(file.path) != folder || strings.HasSuffix(file.path, "_test.go") {
			continue
		}
		bare, err := parser.ParseFile(file.fset, file.path, file.text, parser.SkipObjectResolution) // without comments
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(bare)
		add := func(n any) {
			var text bytes.Buffer
			if err := printer.Fprint(&text, file.fset, n); err != nil {
				t.Fatal(err)
			}
			names = append(names, strings.Join(strings.Fields(text.String()), " "))
		}
		for _, decl := range bare.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				decl.Body = nil
				if receiverIsExported(decl) {
					add(decl)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						add(&ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{&ast.TypeSpec{Name: spec.Name, TypeParams: spec.TypeParams, Type: spec.Type}}})
					case *ast.ValueSpec:
						add(&ast.GenDecl{Tok: decl.Tok, Specs: []ast.Spec{&ast.ValueSpec{Names: spec.Names, Type: spec.Type}}})
					}
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func receiverIsExported(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	of := fn.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return false
		}
	}
}
