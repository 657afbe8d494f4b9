package tidy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Room is what a package may import beside the standard library.
type Room struct {
	Ours    []string // directories of ours
	Drivers []string // modules (or packages) of others; "unsafe" where bytes are shared on purpose
	Tests   []string // directories of ours that its tests may import too
}

const (
	root       = "."
	everything = "*"
)

// common may be imported by any package below the root: the strict JSON
// reader, and goroutine groups.
var common = []string{"github.com/go-json-experiment/json", "golang.org/x/sync"}

// testModules may be imported by any test.
var testModules = []string{
	"github.com/google/go-cmp", "go.uber.org/goleak", "pgregory.net/rapid", "github.com/anishathalye/porcupine",
	"github.com/oklog/ulid/v2",
}

// testRooms may be imported by any test, and by nothing else.
var testRooms = []string{"internal/testkit", "internal/conformance"}

// Rooms is the table of the house. Siblings do not know each other; the app
// alone knows them all; a transport never sees a backend.
var Rooms = map[string]Room{
	root: {},
	"cmd/seatflow": {
		Ours:    []string{root, "internal/app", "internal/config", "internal/seatplan", "internal/loadgen", "internal/verify"},
		Drivers: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/schollz/progressbar/v3", "github.com/jedib0t/go-pretty/v6", "golang.org/x/term"},
	},
	"internal/app": {
		Ours:    []string{everything},
		Drivers: []string{"github.com/gofrs/flock", "github.com/oklog/ulid/v2"},
	},
	"internal/config": {
		Drivers: []string{"github.com/knadh/koanf", "gopkg.in/yaml.v3"},
	},
	"internal/telemetry": {Drivers: []string{"github.com/prometheus/client_golang"}},
	"internal/seatplan":  {Ours: []string{root}},
	"internal/catalog":   {Ours: []string{root, "internal/seatplan"}, Tests: []string{"internal/ledger"}},
	"internal/auth":      {Ours: []string{root}, Drivers: []string{"github.com/golang-jwt/jwt/v5"}},
	"internal/booking": {
		Ours:    []string{root, "internal/sabotage"},
		Drivers: []string{"github.com/oklog/ulid/v2"},
		Tests:   []string{"internal/memseats", "internal/redisseats", "internal/ledger", "internal/verify", "internal/seatplan", "internal/catalog"},
	},
	"internal/guardian": {
		Ours:  []string{root, "internal/booking"},
		Tests: []string{"internal/memseats", "internal/ledger", "internal/verify", "internal/seatplan", "internal/catalog"},
	},
	"internal/payment": {
		Ours:  []string{root, "internal/booking", "internal/sabotage"},
		Tests: []string{"internal/memseats", "internal/ledger", "internal/verify", "internal/seatplan", "internal/catalog"},
	},
	"internal/memseats": {Ours: []string{root, "internal/sabotage"}},
	"internal/redisseats": {
		Ours:    []string{root},
		Drivers: []string{"github.com/redis/rueidis"},
		Tests:   []string{"internal/memseats"},
	},
	"internal/bus": {
		Ours:    []string{root},
		Drivers: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2"},
	},
	"internal/lock": {
		Ours:    []string{root},
		Drivers: []string{"github.com/redis/rueidis", "github.com/go-redsync/redsync/v4"},
	},
	"internal/relay": {
		Ours:  []string{root},
		Tests: []string{"internal/memseats", "internal/ledger", "internal/bus", "internal/lock", "internal/redisseats", "internal/booking", "internal/seatplan", "internal/catalog"},
	},
	"internal/admission":   {Ours: []string{root}, Tests: []string{"internal/redisseats"}},
	"internal/reservation": {Ours: []string{root}, Tests: []string{"internal/ledger", "internal/verify", "internal/seatplan", "internal/catalog"}},
	"internal/reconcile": {
		Ours:  []string{root, "internal/booking", "internal/sabotage"},
		Tests: []string{"internal/memseats", "internal/redisseats", "internal/ledger", "internal/lock", "internal/verify", "internal/seatplan", "internal/catalog", "internal/guardian", "internal/payment"},
	},
	"internal/ledger": {
		Ours:    []string{root, "internal/sabotage"},
		Drivers: []string{"modernc.org/sqlite", "modernc.org/libc", "unsafe", "github.com/pressly/goose/v3", "github.com/go-sql-driver/mysql"},
		Tests:   []string{"internal/seatplan"},
	},
	"internal/live":    {Ours: []string{root}, Drivers: []string{"unsafe"}, Tests: []string{"internal/memseats", "internal/bus", "internal/relay", "internal/lock"}},
	"internal/notice":  {Ours: []string{root}},
	"internal/wording": {Ours: []string{root}, Drivers: []string{"golang.org/x/text"}},
	"internal/httpapi": {
		Ours: []string{root, "internal/auth", "internal/catalog", "internal/seatplan", "internal/booking",
			"internal/payment", "internal/live", "internal/notice", "internal/admission", "internal/reconcile", "internal/wording"},
		Drivers: []string{"github.com/danielgtaylor/huma/v2", "golang.org/x/text", "golang.org/x/time"},
		Tests:   []string{"internal/memseats", "internal/ledger", "internal/guardian", "internal/verify", "internal/web"},
	},
	"internal/web":         {},
	"internal/loadgen":     {Ours: []string{root}, Drivers: []string{"github.com/HdrHistogram/hdrhistogram-go"}},
	"internal/verify":      {Ours: []string{root}, Drivers: []string{"github.com/bits-and-blooms/bloom/v3"}, Tests: []string{"internal/memseats", "internal/ledger"}},
	"internal/conformance": {Ours: []string{root, "internal/testkit"}, Drivers: testModules, Tests: []string{"internal/memseats", "internal/ledger"}},
	"internal/testkit":     {Ours: []string{root}, Drivers: append([]string{"github.com/Shopify/toxiproxy/v2", "github.com/redis/rueidis", "github.com/go-sql-driver/mysql", "github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2", "github.com/sirupsen/logrus", "github.com/rs/zerolog"}, testModules...)},
	"internal/tidy":        {Ours: []string{root}},
	"internal/sabotage":    {},
	"internal/simulate": {
		Ours: []string{root, "internal/booking", "internal/catalog", "internal/guardian", "internal/ledger", "internal/memseats",
			"internal/payment", "internal/reconcile", "internal/relay", "internal/seatplan", "internal/verify"},
		Tests: []string{"internal/sabotage"},
	},
	"bench": {Ours: []string{everything}, Drivers: []string{everything}},
	"test":  {Ours: []string{everything}, Drivers: []string{everything}},
}

// telemetryUsers is everybody but the root, configuration and pages.
func mayImportTelemetry(pkg string) bool {
	return pkg != root && pkg != "internal/config" && pkg != "internal/web"
}

// room finds a package's room; folders under bench and test share one.
func room(pkg string) (Room, bool) {
	if r, ok := Rooms[pkg]; ok {
		return r, true
	}
	if top, _, ok := strings.Cut(pkg, "/"); ok && (top == "bench" || top == "test") {
		return Rooms[top], true
	}
	return Room{}, false
}

// CheckImports holds every import against the table.
func CheckImports(t *Tree) []string {
	var faults []string
	unknown := map[string]bool{}
	for _, f := range t.Go {
		r, ok := room(f.Package)
		if !ok {
			if !unknown[f.Package] {
				unknown[f.Package] = true
				faults = append(faults, fmt.Sprintf("%s: no room in the table of internal/tidy/imports.go", f.Package))
			}
			continue
		}
		for _, spec := range f.Syntax.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil || !allowed(r, f, name) {
				faults = append(faults, fmt.Sprintf("%s: %s may not import %s", t.at(spec.Pos()), f.Package, name))
			}
		}
	}
	return faults
}

func allowed(r Room, f *GoFile, name string) bool {
	if dir, ours := ourDirectory(name); ours {
		switch {
		case dir == f.Package: // an external test of the package itself
			return f.Test
		case strings.HasPrefix(dir, "bench/") && strings.HasPrefix(f.Package, "bench/"): // benchmarks share their parts
			return true
		case strings.HasPrefix(dir, "bench"), strings.HasPrefix(dir, "test/"), dir == "internal/tidy":
			return false
		case slices.Contains(testRooms, dir):
			return f.Test || slices.Contains(r.Ours, dir) || strings.HasPrefix(f.Package, "bench") || strings.HasPrefix(f.Package, "test")
		case dir == "internal/telemetry":
			return mayImportTelemetry(f.Package)
		case strings.HasPrefix(dir, f.Package+"/") && f.Package != root: // a part of the room itself
			return true
		}
		return slices.Contains(r.Ours, everything) || slices.Contains(r.Ours, dir) || f.Test && slices.Contains(r.Tests, dir)
	}
	if !strings.Contains(strings.Split(name, "/")[0], ".") {
		return name != "C" && (name != "unsafe" || slices.Contains(r.Drivers, "unsafe"))
	}
	if f.Test && within(testModules, name) {
		return true
	}
	if f.Package != root && within(common, name) {
		return true
	}
	return slices.Contains(r.Drivers, everything) || within(r.Drivers, name)
}

func ourDirectory(name string) (string, bool) {
	if name == Module {
		return root, true
	}
	return strings.CutPrefix(name, Module+"/")
}

func within(modules []string, name string) bool {
	for _, m := range modules {
		if name == m || strings.HasPrefix(name, m+"/") {
			return true
		}
	}
	return false
}
