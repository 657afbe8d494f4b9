// Package tidy holds the rules of the house as tests: who may import whom,
// what every package and document owes its reader, and what no file may
// contain.
//
// # State model
//
// [Load] reads a tree of files once; a [Rule] looks at it and returns the
// faults that it found, as lines that name the place and the remedy. Rules
// have no state and change nothing. Nothing imports this package.
//
// # Failure
//
// A rule that cannot read what it judges reports that as a fault: it never
// passes because a file is missing. Each rule has a negative control among
// the tests, a small tree that breaks it.
package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"sort"
	"strings"
)

// Module is the module's path.
const Module = "seatflow"

// Tree is the files that rules look at.
type Tree struct {
	Texts map[string]string // every text file, by path from the root
	Paths map[string]bool   // every file and folder
	Go    []*GoFile         // sorted by path
	Fset  *token.FileSet
}

// GoFile is a parsed Go file.
type GoFile struct {
	Path    string
	Package string // directory from the root, "." for the root
	Test    bool
	Syntax  *ast.File
	Lines   int
}

// Rule is one thing that must hold for the whole tree.
type Rule struct {
	Name  string
	Check func(*Tree) []string
}

// Rules are the rules of the house.
var Rules = []Rule{
	{"imports", CheckImports},
	{"package comments", CheckPackageComments},
	{"file lengths", CheckLengths},
	{"forbidden", CheckForbidden},
	{"leak checks", CheckLeakChecks},
	{"go.mod", CheckGoMod},
	{"migrations", CheckMigrations},
	{"package map", CheckPackageMap},
	{"readmes", CheckReadmes},
	{"links", CheckLinks},
	{"make targets", CheckMakeTargets},
	{"settings", CheckSettings},
	{"lua", CheckLua},
}

// textKinds are the endings of files that are read as text.
var textKinds = map[string]bool{
	".go": true, ".md": true, ".js": true, ".mjs": true, ".css": true, ".html": true, ".sql": true,
	".sh": true, ".lua": true, ".yaml": true, ".yml": true, ".mod": true,
}

// Load reads a tree. Folders that hold no source of ours are left out.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{Texts: map[string]string{}, Paths: map[string]bool{}, Fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			hidden := strings.HasPrefix(base, ".") && name != "." && base != ".ci"
			if hidden || base == "node_modules" || base == "testdata" || base == "bin" || strings.HasPrefix(base, "seatflow-data") {
				return fs.SkipDir
			}
			t.Paths[name] = true
			return nil
		}
		t.Paths[name] = true
		if !textKinds[path.Ext(base)] && base != "Makefile" && name != ".ci/run" && base != "LICENSE" {
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		t.Texts[name] = string(data)
		if path.Ext(base) != ".go" {
			return nil
		}
		syntax, err := parser.ParseFile(t.Fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		t.Go = append(t.Go, &GoFile{Path: name, Package: path.Dir(name), Test: strings.HasSuffix(name, "_test.go"),
			Syntax: syntax, Lines: strings.Count(string(data), "\n")})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tidy: %w", err)
	}
	sort.Slice(t.Go, func(i, j int) bool { return t.Go[i].Path < t.Go[j].Path })
	return t, nil
}

// Packages lists the directories that hold Go files other than tests.
func (t *Tree) Packages() []string {
	seen := map[string]bool{}
	for _, f := range t.Go {
		if !f.Test {
			seen[f.Package] = true
		}
	}
	list := make([]string, 0, len(seen))
	for p := range seen {
		list = append(list, p)
	}
	sort.Strings(list)
	return list
}

// Names lists the text files whose path passes a filter, sorted.
func (t *Tree) Names(keep func(name string) bool) []string {
	var list []string
	for n := range t.Texts {
		if keep(n) {
			list = append(list, n)
		}
	}
	sort.Strings(list)
	return list
}

func (t *Tree) at(p token.Pos) string {
	where := t.Fset.Position(p)
	return fmt.Sprintf("%s:%d", where.Filename, where.Line)
}
