// Package layover_test holds the rules that no compiler checks: which folder
// may import which, and what must not stand anywhere in the tree.
package layover_test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// imports says what of this module a folder may import; the longest folder
// that matches counts. "std" alone means: nothing but the standard library and
// what is listed. Changing this table is a decision to be seen in review.
var imports = map[string]struct {
	std     bool // no other module either
	layover []string
}{
	"turnstile": {std: true},
	"budget":    {std: true},
	"parking":   {std: true},
	"lane":      {layover: []string{"budget", "turnstile"}},
	"crew":      {std: true, layover: []string{"turnstile"}},

	"internal/router":           {std: true, layover: []string{"turnstile", "budget", "parking"}},
	"internal/router/planetest": {std: true, layover: []string{"internal/router", "turnstile", "budget", "parking"}},
	"internal/answer":           {std: true, layover: []string{"internal/router"}},
	"internal/proxy":            {layover: []string{"internal/router", "internal/answer", "budget", "turnstile"}},
	"internal/extproc":          {layover: []string{"internal/router", "internal/answer", "budget", "turnstile"}},
	"internal/envoy":            {}, // a configuration: it knows nothing of what stands behind it
	"internal/local":            {layover: []string{"internal/router", "turnstile", "budget"}},
	"internal/sampled":          {std: true, layover: []string{"internal/router"}},
	"internal/tracing":          {layover: []string{"internal/extproc", "internal/proxy", "internal/router", "internal/sampled"}},
	"internal/substrate":        {layover: []string{"internal/router", "internal/substrate", "turnstile", "budget"}},
	"internal/kube":             {layover: []string{"internal/router", "turnstile", "budget"}},
	"internal/lateness":         {std: true}, // for tests
	"internal/jobs":             {layover: []string{"lane", "crew", "turnstile", "budget", "parking", "internal/jobs"}},
	"internal/admin":            {layover: []string{"internal/router", "crew"}},
	"internal/cli":              {}, // what is said at a terminal: it knows nothing of what is run
	"cmd":                       {layover: []string{"internal", "turnstile", "budget", "parking", "lane", "crew"}},
	"bench":                     {layover: []string{""}},
	"e2e":                       {layover: []string{""}},
	"examples":                  {layover: []string{"turnstile", "budget", "parking", "lane", "crew", "e2e/postgres"}},
	"":                          {std: true},
}

// testImports are further packages that a folder's tests may import.
var testImports = map[string][]string{
	"internal/router":    {"internal/router/planetest"},
	"internal/answer":    {"internal/router/planetest"},
	"internal/local":     {"internal/router/planetest", "parking"},
	"internal/substrate": {"internal/router/planetest", "parking"},
	"internal/proxy":     {"internal/router/planetest", "internal/lateness", "parking"},
	"lane":               {"internal/lateness"},
	"internal/admin":     {"internal/router/planetest", "parking", "budget", "turnstile"},
	"internal/tracing":   {"budget"},
	"internal/extproc":   {"internal/router/planetest", "parking", "internal/envoy"},
}

func TestImportTable(t *testing.T) {
	for file := range goFiles(t) {
		folder := path.Dir(file.path)
		rule, ruleFolder := ruleFor(folder)
		test := strings.HasSuffix(file.path, "_test.go")
		for _, spec := range file.ast.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			own, inModule := strings.CutPrefix(imported, "layover/")
			switch {
			case !inModule:
				if rule.std && !test && strings.Contains(strings.Split(imported, "/")[0], ".") {
					t.Errorf("%s imports %s: %s uses the standard library only", file.path, imported, ruleFolder)
				}
			case own == folder: // an external test package
			case slices.ContainsFunc(rule.layover, func(allowed string) bool {
				return within(own, allowed) && (allowed != "internal/router" || own == allowed || test)
			}):
			case test && slices.Contains(testImports[ruleFolder], own):
			default:
				t.Errorf("%s imports layover/%s: the table in policy_test.go does not allow that", file.path, own)
			}
		}
	}
}

func ruleFor(folder string) (rule struct {
	std     bool
	layover []string
}, of string) {
	for of = folder; ; of = path.Dir(of) {
		if of == "." {
			of = ""
		}
		if rule, ok := imports[of]; ok {
			return rule, of
		}
	}
}

func within(folder, top string) bool {
	return top == "" || folder == top || strings.HasPrefix(folder, top+"/")
}

func TestEveryPackageHasAPackageComment(t *testing.T) {
	has := make(map[string]bool)
	for file := range goFiles(t) {
		if strings.HasSuffix(file.path, "_test.go") && path.Dir(file.path) != "." {
			continue
		}
		folder := path.Dir(file.path)
		has[folder] = has[folder] || file.ast.Doc.Text() != ""
	}
	for folder, ok := range has {
		if !ok {
			t.Errorf("package in %s has no package comment", folder)
		}
	}
}

func TestNoGoFileIsOver800Lines(t *testing.T) {
	for file := range goFiles(t) {
		if lines := bytes.Count(file.text, []byte("\n")); lines > 800 && !ast.IsGenerated(file.ast) {
			t.Errorf("%s has %d lines: split it", file.path, lines)
		}
	}
}

// Budget rule B2: a deadline that came over the wire is compared with the
// clock once, in package budget; everywhere else the monotonic end counts.
func TestNobodyAsksTheWallClockForADeadline(t *testing.T) {
	for file := range goFiles(t) {
		if within(path.Dir(file.path), "budget") || strings.HasSuffix(file.path, "_test.go") {
			continue
		}
		deadlines := deadlineVariables(file.ast)
		ast.Inspect(file.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, ok := sel.X.(*ast.Ident)
			if ok && (of.Name == "time" && sel.Sel.Name == "Until" || deadlines[of.Name] && sel.Sel.Name == "Sub") {
				t.Errorf("%s: %s.%s: use budget.From(ctx).Remaining()", file.at(sel), of.Name, sel.Sel.Name)
			}
			return true
		})
	}
}

// deadlineVariables returns the names in a file that are called a deadline or
// were assigned from a call of Deadline.
func deadlineVariables(file *ast.File) map[string]bool {
	names := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if strings.Contains(strings.ToLower(n.Name), "deadline") {
				names[n.Name] = true
			}
		case *ast.AssignStmt:
			if len(n.Rhs) != 1 {
				break
			}
			call, ok := n.Rhs[0].(*ast.CallExpr)
			if !ok {
				break
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Deadline" {
				if to, ok := n.Lhs[0].(*ast.Ident); ok {
					names[to.Name] = true
				}
			}
		}
		return true
	})
	return names
}

func TestFoldersSayWhatTheyAreFor(t *testing.T) {
	for file := range goFiles(t) {
		for _, part := range strings.Split(path.Dir(file.path), "/") {
			if slices.Contains([]string{"util", "utils", "common", "types", "models", "pkg", "helpers", "misc"}, part) {
				t.Errorf("%s: a folder called %s says nothing about what is in it", file.path, part)
			}
		}
	}
}

// A test that sleeps on the real clock is slow or flaky, usually both. Inside
// a synctest bubble time.Sleep only moves the fake clock.
func TestTestsSleepOnlyInBubbles(t *testing.T) {
	type function struct {
		sleeps []string // where it sleeps outside a bubble
		uses   map[string]bool
	}
	folders := make(map[string]map[string][]*function) // by folder and name: methods of several types share one
	bubbles := bubbleMakers(t)
	for file := range goFiles(t) {
		if !strings.HasSuffix(file.path, "_test.go") {
			continue
		}
		folder := path.Dir(file.path)
		if folders[folder] == nil {
			folders[folder] = make(map[string][]*function)
		}
		for name, body := range bodies(file.ast) {
			f := &function{uses: make(map[string]bool)}
			folders[folder][name] = append(folders[folder][name], f)
			ast.Inspect(body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					called, ok := n.Fun.(*ast.Ident)
					return !isCall(n, "synctest", "Test") && !(ok && bubbles[folder+"/"+called.Name])
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); ok && of.Name == "time" && n.Sel.Name == "Sleep" {
						f.sleeps = append(f.sleeps, file.at(n))
					}
					f.uses[n.Sel.Name] = true
				case *ast.Ident:
					f.uses[n.Name] = true
				}
				return true
			})
		}
	}
	for folder, functions := range folders {
		var visit func(name string, seen map[string]bool) []string
		visit = func(name string, seen map[string]bool) (sleeps []string) {
			if seen[name] {
				return nil
			}
			seen[name] = true
			for _, f := range functions[name] {
				sleeps = append(sleeps, f.sleeps...)
				for used := range f.uses {
					sleeps = append(sleeps, visit(used, seen)...)
				}
			}
			return sleeps
		}
		for name := range functions {
			if regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`).MatchString(name) {
				for _, where := range visit(name, make(map[string]bool)) {
					t.Errorf("%s: %s/%s sleeps on the real clock: wait for the event, or use a synctest bubble", where, folder, name)
				}
			}
		}
	}
}

// bodies yields the functions of a file with their names, also those that are
// the value of a variable of the package.
func bodies(file *ast.File) func(yield func(string, ast.Node) bool) {
	return func(yield func(string, ast.Node) bool) {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Body != nil && !yield(decl.Name.Name, decl.Body) {
					return
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					value, ok := spec.(*ast.ValueSpec)
					if !ok {
						continue
					}
					for _, name := range value.Names {
						for _, v := range value.Values {
							if !yield(name.Name, v) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// bubbleMakers returns the functions that hand a parameter of theirs to
// synctest.Test, by folder and name.
func bubbleMakers(t *testing.T) map[string]bool {
	makers := make(map[string]bool)
	for file := range goFiles(t) {
		for _, decl := range file.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			params := make(map[string]bool)
			for _, field := range fn.Type.Params.List {
				for _, name := range field.Names {
					params[name.Name] = true
				}
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && isCall(call, "synctest", "Test") && len(call.Args) == 2 {
					if arg, ok := call.Args[1].(*ast.Ident); ok && params[arg.Name] {
						makers[path.Dir(file.path)+"/"+fn.Name.Name] = true
					}
				}
				return true
			})
		}
	}
	return makers
}

func isCall(call *ast.CallExpr, pkg, name string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	of, ok := sel.X.(*ast.Ident)
	return ok && of.Name == pkg
}

// Nothing in the tree points outside it: no path of somebody's machine, no
// link that leads out of the tree or to nothing.
func TestNothingPointsOutsideTheTree(t *testing.T) {
	machine := regexp.MustCompile(`/(?:home|Users|root|w` + `ork)/[\w.-]+`)
	link := regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	upward := regexp.MustCompile(`"((?:\.\./)+[^"]*)"|=>\s+((?:\.\./)+\S*|\.\.)`)
	for name, text := range textFiles(t) {
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			line := lines.Text()
			if found := machine.FindString(line); found != "" {
				t.Errorf("%s:%d: %s is a path of one machine", name, n, found)
			}
			var targets []string
			if strings.HasSuffix(name, ".md") {
				for _, m := range link.FindAllStringSubmatch(line, -1) {
					if !strings.Contains(m[1], ":") {
						targets = append(targets, m[1])
					}
				}
			}
			for _, m := range upward.FindAllStringSubmatch(line, -1) {
				if !strings.HasSuffix(name, "_test.go") || within(path.Dir(name), "e2e") || within(path.Dir(name), "bench") {
					targets = append(targets, m[1]+m[2])
				}
			}
			for _, target := range targets {
				full := path.Join(path.Dir(name), target)
				if strings.HasPrefix(full, "..") {
					t.Errorf("%s:%d: %s leads out of the tree", name, n, target)
				} else if _, err := os.Stat(full); err != nil {
					t.Errorf("%s:%d: %s leads to nothing", name, n, target)
				}
			}
		}
	}
}

type goFile struct {
	path string
	text []byte
	ast  *ast.File
	fset *token.FileSet
}

func (f goFile) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(n.Pos()).Line)
}

func goFiles(t *testing.T) func(yield func(goFile) bool) {
	t.Helper()
	files := textFiles(t)
	return func(yield func(goFile) bool) {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if !strings.HasSuffix(name, ".go") {
				continue
			}
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, name, files[name], parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(goFile{name, files[name], parsed, fset}) {
				return
			}
		}
	}
}

// textFiles returns the tree's files, without what git and the cache keep.
func textFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && slices.Contains([]string{".git", ".cache", "testdata", "node_modules"}, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular() || strings.HasSuffix(name, ".sum"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err == nil && !bytes.ContainsRune(text, 0) {
			files[filepath.ToSlash(name)] = text
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
