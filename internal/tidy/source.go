package tidy

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// CheckPackageComments wants a comment that teaches above every package
// clause, in one file of the package.
func CheckPackageComments(t *Tree) []string {
	comments := map[string][]string{}
	for _, f := range t.Go {
		if f.Test {
			continue
		}
		if _, ok := comments[f.Package]; !ok {
			comments[f.Package] = nil
		}
		if f.Syntax.Doc != nil {
			comments[f.Package] = append(comments[f.Package], f.Syntax.Doc.Text())
		}
	}
	var faults []string
	for _, p := range t.Packages() {
		list := comments[p]
		switch {
		case len(list) == 0:
			faults = append(faults, p+": no package comment")
		case len(list) > 1:
			faults = append(faults, p+": more than one file has a package comment")
		case len(list[0]) < 80:
			faults = append(faults, p+": the package comment says too little")
		case !strings.HasPrefix(list[0], "Package ") && !strings.HasPrefix(list[0], "Command "):
			faults = append(faults, p+`: the package comment begins with neither "Package" nor "Command"`)
		}
	}
	return faults
}

// The most lines that a file may have, so that it can be read in one sitting.
const (
	maxLines       = 600
	maxTestLines   = 900
	maxScriptLines = 100
)

// CheckLengths bounds the length of source files.
func CheckLengths(t *Tree) []string {
	var faults []string
	for _, name := range t.Names(func(string) bool { return true }) {
		most := 0
		switch ext := path.Ext(name); {
		case strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, ".test.mjs"), strings.HasSuffix(name, ".test.js"):
			most = maxTestLines
		case slices.Contains([]string{".go", ".js", ".mjs", ".css", ".sql", ".html"}, ext):
			most = maxLines
		case ext == ".sh", name == ".ci/run", ext == ".lua":
			most = maxScriptLines
		default:
			continue
		}
		if n := strings.Count(t.Texts[name], "\n"); n > most {
			faults = append(faults, fmt.Sprintf("%s: %d lines; the most is %d", name, n, most))
		}
	}
	return faults
}

// Words that must not stand in a source file. Written in halves, so that this
// file passes its own rule.
var forbiddenWords = []string{"TO" + "DO", "FIX" + "ME", "XX" + "X:"}

// CheckForbidden looks for marks of unfinished work, skipped tests, tests that
// sleep, and library code that ends the process or writes to its output.
func CheckForbidden(t *Tree) []string {
	var faults []string
	for _, name := range t.Names(func(n string) bool { return path.Ext(n) != ".md" && n != "LICENSE" }) {
		for i, line := range strings.Split(t.Texts[name], "\n") {
			for _, w := range forbiddenWords {
				if strings.Contains(line, w) {
					faults = append(faults, fmt.Sprintf("%s:%d: contains %s", name, i+1, w))
				}
			}
		}
	}
	for _, f := range t.Go {
		forbiddenCalls(t, f, &faults)
	}
	return faults
}

func forbiddenCalls(t *Tree, f *GoFile, faults *[]string) {
	fault := func(n ast.Node, format string, args ...any) {
		*faults = append(*faults, t.at(n.Pos())+": "+fmt.Sprintf(format, args...))
	}
	command := strings.HasPrefix(f.Package, "cmd/") || strings.HasPrefix(f.Package, "bench") || f.Syntax.Name.Name == "main"
	// In a file of synctest, sleeping moves a bubble's own clock only.
	bubble := slices.ContainsFunc(f.Syntax.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
	for _, decl := range f.Syntax.Decls {
		sanctioned := requiresBackend(decl)
		ast.Inspect(decl, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			receiver, name := selector(call.Fun)
			switch full := receiver + "." + name; {
			case full == "time.Sleep" && (f.Test || f.Package == "internal/conformance") && !bubble:
				fault(call, "a test sleeps; wait for a signal, or use a fake clock")
			case (name == "Skip" || name == "Skipf" || name == "SkipNow") && isTestingName(receiver) && !sanctioned:
				fault(call, "a test is skipped; use requireBackend")
			case !command && !f.Test && (full == "os.Exit" || receiver == "log" && strings.HasPrefix(name, "Fatal")):
				fault(call, "%s ends the process; return an error", full)
			case !command && !f.Test && (full == "fmt.Print" || full == "fmt.Println" || full == "fmt.Printf"):
				fault(call, "%s writes to standard output; take an io.Writer or a logger", full)
			}
			return true
		})
	}
}

// requiresBackend reports whether a declaration is the one kind of helper that
// may skip a test: it asks for a program, and fails instead of skipping where
// nothing may be skipped.
func requiresBackend(decl ast.Decl) bool {
	fn, ok := decl.(*ast.FuncDecl)
	if !ok || !strings.EqualFold(fn.Name.Name, "requireBackend") {
		return false
	}
	asks, fails := false, false
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			asks = asks || n.Value == `"SEATFLOW_REQUIRE_BACKENDS"`
		case *ast.SelectorExpr:
			fails = fails || strings.HasPrefix(n.Sel.Name, "Fatal")
		}
		return true
	})
	return asks && fails
}

func isTestingName(receiver string) bool {
	return receiver == "t" || receiver == "b" || receiver == "f" || receiver == "tb"
}

func selector(e ast.Expr) (receiver, name string) {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name, s.Sel.Name
	}
	return "", s.Sel.Name
}

// CheckLeakChecks wants goleak in the tests of every package that starts a
// goroutine.
func CheckLeakChecks(t *Tree) []string {
	starts, checks := map[string]string{}, map[string]bool{}
	for _, f := range t.Go {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if !f.Test && starts[f.Package] == "" {
					starts[f.Package] = t.at(n.Pos())
				}
			case *ast.CallExpr:
				receiver, name := selector(n.Fun)
				if name == "Go" && !f.Test && starts[f.Package] == "" {
					starts[f.Package] = t.at(n.Pos())
				}
				if f.Test && receiver == "goleak" && (name == "VerifyTestMain" || name == "VerifyNone") {
					checks[f.Package] = true
				}
			}
			return true
		})
	}
	var faults []string
	for _, p := range t.Packages() {
		exempt := p == "internal/conformance" || p == "internal/testkit" || strings.HasPrefix(p, "bench/")
		if starts[p] != "" && !checks[p] && !exempt {
			faults = append(faults, fmt.Sprintf("%s: starts a goroutine (%s) but its tests have no goleak.VerifyTestMain", p, starts[p]))
		}
	}
	return faults
}
