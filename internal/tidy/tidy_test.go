package tidy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"seatflow"
)

const top = "../.."

var house = sync.OnceValues(func() (*Tree, error) { return Load(os.DirFS(top)) })

func TestHouse(t *testing.T) {
	tree, err := house()
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range Rules {
		t.Run(rule.Name, func(t *testing.T) {
			for _, fault := range rule.Check(tree) {
				t.Error(fault)
			}
		})
	}
}

func TestRoomsExist(t *testing.T) {
	tree, err := house()
	if err != nil {
		t.Fatal(err)
	}
	for name := range Rooms {
		if !tree.Paths[name] {
			t.Errorf("the table has a room %s that is not there", name)
		}
	}
}

// tree makes a small tree from pairs of path and text.
func tree(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	loaded, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestRulesSeeWhatBreaksThem(t *testing.T) {
	const comment = "// Package p does one thing, and this comment says at some length what it is and when it fails.\n"
	skeleton := "# S\n\n```\ngo run x # here\nmake test\n```\n\n![p](p.png) [l](p.png)\n\n- a\n"
	tests := []struct {
		name  string
		rule  func(*Tree) []string
		files map[string]string
		want  []string // each in a fault of its own, in some order; none: must pass
	}{
		{"imports: good", CheckImports, map[string]string{
			"words.go":                      "package seatflow\nimport \"time\"",
			"words_test.go":                 "package seatflow_test\nimport (\"seatflow\"; \"github.com/google/go-cmp/cmp\")",
			"internal/booking/b.go":         "package booking\nimport (\"seatflow\"; \"seatflow/internal/telemetry\"; \"github.com/oklog/ulid/v2\")",
			"internal/booking/b_test.go":    "package booking\nimport (\"seatflow/internal/testkit\"; \"seatflow/internal/memseats\")",
			"internal/app/a.go":             "package app\nimport (\"seatflow/internal/ledger\"; \"seatflow/internal/httpapi\")",
			"bench/x/main.go":               "package main\nimport (\"seatflow/internal/ledger\"; \"github.com/redis/rueidis\")",
			"internal/ledger/sub/s.go":      "package sub",
			"internal/ledger/testdata/x.go": "not go at all",
		}, []string{"internal/ledger/sub: no room"}},
		{"imports: bad", CheckImports, map[string]string{
			"words.go":                "package seatflow\nimport (\"seatflow/internal/telemetry\"; \"github.com/go-json-experiment/json\")",
			"internal/httpapi/a.go":   "package httpapi\nimport (\"seatflow/internal/ledger\"; \"seatflow/internal/memseats\")",
			"internal/booking/b.go":   "package booking\nimport (\"seatflow/internal/testkit\"; \"seatflow/internal/payment\"; \"github.com/golang-jwt/jwt/v5\")",
			"internal/memseats/m.go":  "package memseats\nimport (\"seatflow/internal/ledger\"; \"unsafe\"; \"C\")",
			"internal/app/a.go":       "package app\nimport (\"seatflow/internal/tidy\"; \"seatflow/bench/x\"; \"seatflow/internal/conformance\")",
			"internal/web/w.go":       "package web\nimport \"seatflow/internal/telemetry\"",
			"internal/util/u.go":      "package util",
			"cmd/seatflow/main.go":    "package main\nimport \"seatflow/internal/ledger\"",
			"internal/config/c.go":    "package config\nimport \"github.com/knadh/koanfish\"",
			"internal/live/l_test.go": "package live\nimport \"seatflow/internal/ledger\"",
		}, []string{
			". may not import seatflow/internal/telemetry", ". may not import github.com/go-json-experiment/json",
			"httpapi may not import seatflow/internal/ledger", "httpapi may not import seatflow/internal/memseats",
			"booking may not import seatflow/internal/testkit", "booking may not import seatflow/internal/payment",
			"booking may not import github.com/golang-jwt/jwt/v5", "memseats may not import seatflow/internal/ledger",
			"memseats may not import unsafe", "memseats may not import C", "app may not import seatflow/internal/tidy",
			"app may not import seatflow/bench/x", "app may not import seatflow/internal/conformance",
			"web may not import seatflow/internal/telemetry", "internal/util: no room",
			"cmd/seatflow may not import seatflow/internal/ledger", "config may not import github.com/knadh/koanfish",
			"live may not import seatflow/internal/ledger",
		}},
		{"package comments: good", CheckPackageComments, map[string]string{"p/a.go": comment + "package p", "p/b.go": "package p", "p/c_test.go": "package p"}, nil},
		{"package comments: bad", CheckPackageComments, map[string]string{
			"p/a.go": "package p", "p/a_test.go": comment + "package p",
			"q/a.go": "// Package q is short.\npackage q",
			"r/a.go": comment + "package r", "r/b.go": comment + "package r",
			"s/a.go": "// " + strings.Repeat("This one talks about something else. ", 4) + "\npackage s",
		}, []string{"p: no package comment", "q: the package comment says too little", "r: more than one file", "s: the package comment begins"}},
		{"lengths", CheckLengths, map[string]string{
			"a.go": "package p" + strings.Repeat("\n", 600), "b.go": "package p" + strings.Repeat("\n", 601),
			"a_test.go": "package p" + strings.Repeat("\n", 900), "b_test.go": "package p" + strings.Repeat("\n", 901),
			"x.js": strings.Repeat("\n", 601), ".ci/run": strings.Repeat("\n", 101), "doc.md": strings.Repeat("\n", 5000),
		}, []string{"b.go: 601 lines", "b_test.go: 901 lines", "x.js: 601", ".ci/run: 101"}},
		{"forbidden: good", CheckForbidden, map[string]string{
			"p/a_test.go":                 "package p\nimport \"testing/synctest\"\nfunc TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }",
			"internal/testkit/backend.go": "package testkit\nfunc RequireBackend(t testing.TB) { if os.Getenv(\"SEATFLOW_REQUIRE_BACKENDS\") == \"1\" { t.Fatal() }; t.Skip() }",
			"cmd/x/main.go":               "package main\nfunc main() { fmt.Println(); os.Exit(1) }",
			"p/a.go":                      "package p\nfunc X() { time.Sleep(1); fmt.Fprintln(w) }",
		}, nil},
		{"forbidden: bad", CheckForbidden, map[string]string{
			"p/a.go":                    "package p\n// " + "TO" + "DO later\nfunc X() { os.Exit(1); log.Fatalf(\"\"); fmt.Printf(\"\") }",
			"p/a_test.go":               "package p\nfunc TestX(t *testing.T) { t.Skipf(\"\"); time.Sleep(1)\nsynctest.Test(t, f)\ntime.Sleep(2) }",
			"internal/testkit/other.go": "package testkit\nfunc Other(tb testing.TB) { tb.SkipNow() }\nfunc RequireBackend(t testing.TB) { t.Skip() }",
			"internal/conformance/c.go": "package conformance\nfunc X() { time.Sleep(1) }",
			"x.js":                      "// " + "FIX" + "ME",
		}, []string{
			"p/a.go:2: contains", "os.Exit ends", "log.Fatalf ends", "fmt.Printf writes", "p/a_test.go:2: a test is skipped",
			"p/a_test.go:2: a test sleeps", "p/a_test.go:4: a test sleeps", "other.go:2: a test is skipped", "other.go:3: a test is skipped", "c.go:2: a test sleeps", "x.js:1: contains",
		}},
		{"leak checks", CheckLeakChecks, map[string]string{
			"p/a.go": "package p\nfunc X() { go X() }", "p/a_test.go": "package p\nfunc TestMain(m *testing.M) { goleak.VerifyTestMain(m) }",
			"q/a.go": "package q\nfunc X() { go X() }", "q/a_test.go": "package q",
			"r/a.go": "package r\nfunc X() { group.Go(X) }",
			"s/a.go": "package s", "s/a_test.go": "package s\nfunc X() { go X() }",
		}, []string{"q: starts a goroutine (q/a.go:2)", "r: starts a goroutine"}},
		{"go.mod: good", CheckGoMod, map[string]string{"go.mod": "module seatflow\n\ngo 1.26\n"}, nil},
		{"go.mod: bad", CheckGoMod, map[string]string{"go.mod": "module other\nreplace a => b\nreplace (\n\tc => d\n)\n"}, []string{"not seatflow", "replace a", "replace ("}},
		{"go.mod: none", CheckGoMod, nil, []string{"not seatflow"}},
		{"migrations: good", CheckMigrations, map[string]string{
			"internal/ledger/migrations/sqlite/00001_first.sql": "-- +goose Up", "internal/ledger/migrations/sqlite/00002_more.sql": "-- +goose Up"}, nil},
		{"migrations: bad", CheckMigrations, map[string]string{
			"internal/ledger/migrations/sqlite/00001_first.sql": "-- +goose Up", "internal/ledger/migrations/sqlite/00003_gap.sql": "create table t"},
			[]string{"want number 00002", "no -- +goose Up"}},
		{"migrations: none", CheckMigrations, nil, []string{"no migrations"}},
		{"package map", CheckPackageMap, map[string]string{
			"README.md": "`internal/a` `internal/b`", "README.zh.md": "`internal/a`", "a.go": "package seatflow",
			"internal/a/a.go": "package a", "internal/b/b.go": "package b"}, []string{"README.zh.md: the map of packages lacks `internal/b`"}},
		{"readmes: good", CheckReadmes, map[string]string{"README.md": skeleton + "[zh](README.zh.md)", "README.zh.md": strings.Replace(skeleton, "# here", "# da", 1) + "[en](README.md)"}, nil},
		{"readmes: bad", CheckReadmes, map[string]string{"README.md": skeleton,
			"README.zh.md": "# S\n\n## T\n\n```\ngo run y\n```\n\n![p](q.png)\n"}, []string{"depths", "commands", "pictures", "links", "points"}},
		{"readmes: one", CheckReadmes, map[string]string{"README.md": skeleton}, []string{"README.zh.md: missing"}},
		{"links", CheckLinks, map[string]string{
			"a.md":      "[x](docs/b.md) [y](docs/b.md#the-end) [z](https://example.org/) [i](p.png) [self](#top)\n# Top\n`[code](no)`\n",
			"docs/b.md": "# The end!\n[up](../a.md) [out](../../a.md) [gone](c.md) [no](b.md#start) [dir](.)\n", "p.png": "x", "docs/alone.md": "[me](alone.md)"},
			[]string{"docs/alone.md: no document links to it", "../../a.md leads nowhere", "c.md leads nowhere", "b.md#start has no such heading"}},
		{"make targets", CheckMakeTargets, map[string]string{
			"Makefile":  "help: ## Say this\n\t@x\ntest: build ## Test\nbuild:\n\tgo build\nX := 1\n",
			"README.md": "Run `make test`, then make sense.\n\n```\nmake lint\n```\n", ".ci/run": "make nothing\n"},
			[]string{"target build has no ## help", "README.md: make lint", ".ci/run: make nothing"}},
		{"settings", CheckSettings, map[string]string{
			"internal/config/c.go":      "package config\ntype Config struct { Listen, Data string; Log Log; HTTP HTTP }\ntype Log struct { Level string }\ntype HTTP struct { ReadMs, IdleMs int }",
			"internal/config/l.go":      "package config\nfunc x(c Config) { use(c.HTTP.IdleMs) }",
			"internal/app/a.go":         "package app\nfunc x() { use(cfg.Listen, cfg.HTTP.ReadMs, cfg.HTTP.IdleMsToo) }",
			"internal/app/a_test.go":    "package app\nfunc y() { cfg.Data = t.TempDir() }",
			"internal/app/other_log.go": "package app\nfunc z() { log.Level() }",
		}, []string{"setting Data", "setting Log.Level", "setting HTTP.IdleMs"}},
		{"settings: none", CheckSettings, nil, []string{"no struct Config"}},
		{"make targets: none", CheckMakeTargets, nil, []string{"no targets"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.rule(tree(t, test.files))
			for _, want := range test.want {
				found := 0
				for _, fault := range got {
					if strings.Contains(fault, want) {
						found++
					}
				}
				if found != 1 {
					t.Errorf("%d faults say %q, want 1", found, want)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("%d faults, want %d:\n%s", len(got), len(test.want), strings.Join(got, "\n"))
			}
		})
	}
}

func TestLoadRefusesWhatItCannotParse(t *testing.T) {
	if _, err := Load(fstest.MapFS{"a.go": {Data: []byte("pack age")}}); err == nil {
		t.Error("a file that does not parse was passed over")
	}
}

func TestLicences(t *testing.T) {
	modules, err := LinkedModules(top, "./cmd/seatflow")
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) < 5 {
		t.Errorf("only %d modules: the list cannot be right", len(modules))
	}
	for _, fault := range CheckLicences(modules) {
		t.Error(fault)
	}
}

func TestLicencesSeeWhatIsNotAllowed(t *testing.T) {
	dir := t.TempDir()
	modules := map[string]string{}
	for module, text := range map[string]string{
		"good":   "Permission is hereby granted, free of\ncharge, to any person",
		"gpl":    "GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007",
		"agpl":   "GNU AFFERO GENERAL PUBLIC LICENSE\n   Version 3",
		"own":    "All rights reserved.",
		"absent": "",
	} {
		modules[module] = filepath.Join(dir, module)
		if err := os.Mkdir(modules[module], 0o700); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(filepath.Join(modules[module], "LICENSE.txt"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := CheckLicences(modules)
	if len(got) != 4 || strings.Contains(strings.Join(got, "\n"), "good") {
		t.Errorf("%d faults, want 4:\n%s", len(got), strings.Join(got, "\n"))
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStateMachinesAreDocumented(t *testing.T) {
	doc := read(t, "docs/state-machine.md")
	for _, table := range []string{SeatTable(seatflow.Transitions[:]), OrderTable(seatflow.OrderState.CanBecome)} {
		for _, fault := range CheckMachine(doc, table) {
			t.Error(fault)
		}
	}
}

func TestDiagramsShowTheMachines(t *testing.T) {
	doc := read(t, "docs/state-machine.md")
	if diff := cmp.Diff(SeatEdges(seatflow.Transitions[:]), DiagramEdges(doc, 0)); diff != "" {
		t.Errorf("seats (-code +diagram):\n%s", diff)
	}
	if diff := cmp.Diff(OrderEdges(seatflow.OrderState.CanBecome), DiagramEdges(doc, 1)); diff != "" {
		t.Errorf("orders (-code +diagram):\n%s", diff)
	}
	if got := DiagramEdges("```mermaid\n[*] --> a\n a --> b: x, y\n```\nb --> c", 0); !cmp.Equal(got, []string{"a --> b"}) {
		t.Errorf("edges read: %q", got)
	}
}

func TestMachineCheckSeesADrift(t *testing.T) {
	doc := "text\n" + SeatTable(seatflow.Transitions[:]) + "\ntext"
	more := append(seatflow.Transitions[:len(seatflow.Transitions):len(seatflow.Transitions)],
		seatflow.Edge{Verb: seatflow.VerbSell, From: seatflow.Available, To: seatflow.Sold})
	if len(CheckMachine(doc, SeatTable(seatflow.Transitions[:]))) != 0 {
		t.Error("a current document was refused")
	}
	if len(CheckMachine(doc, SeatTable(more))) == 0 {
		t.Error("a new edge was not missed in the document")
	}
	if len(CheckMachine(doc, SeatTable(seatflow.Transitions[:3]))) == 0 {
		t.Error("an edge that only the document has was not noticed")
	}
}

func TestLicenceOfTheProject(t *testing.T) {
	if name, ok := LicenceOf(read(t, "LICENSE")); name != "Apache-2.0" || !ok {
		t.Errorf("LICENSE is %s", name)
	}
}

func TestChangelogHasRoomForTheNextChange(t *testing.T) {
	if !strings.Contains(read(t, "CHANGELOG.md"), "\n## [Unreleased]") {
		t.Error("CHANGELOG.md has no heading [Unreleased]")
	}
}

func TestScriptsRun(t *testing.T) {
	tree, err := house()
	if err != nil {
		t.Fatal(err)
	}
	scripts := tree.Names(func(n string) bool { return n == ".ci/run" || filepath.Ext(n) == ".sh" })
	if len(scripts) == 0 {
		t.Error("no scripts")
	}
	for _, name := range scripts {
		info, err := os.Stat(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o100 == 0 {
			t.Errorf("%s is not executable", name)
		}
		if out, err := exec.Command("bash", "-n", filepath.Join(top, name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
