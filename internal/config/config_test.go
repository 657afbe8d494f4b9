package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the reference in docs/configuration.md")

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "seatflow.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestDefaultsAreValid(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Fatal(err)
	}
	got, err := Load("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Defaults(), got); diff != "" {
		t.Errorf("Load without layers differs from Defaults (-want +got):\n%s", diff)
	}
}

func TestExampleEqualsDefaults(t *testing.T) {
	const example = "../../seatflow.example.yaml"
	got, err := Load(example, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Defaults(), got); diff != "" {
		t.Errorf("example differs from the defaults (-default +example):\n%s", diff)
	}
	data, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	if faults := exampleFaults(string(data)); len(faults) > 0 {
		t.Errorf("example:\n%s", strings.Join(faults, "\n"))
	}
}

// exampleFaults lists keys that are missing from an example file and lines of
// keys without a comment above.
func exampleFaults(text string) []string {
	var faults []string
	seen := map[string]bool{}
	group, previous := "", ""
	for _, line := range strings.Split(text, "\n") {
		body := strings.TrimSpace(line)
		name, _, isKey := strings.Cut(body, ":")
		if body == "" || strings.HasPrefix(body, "#") || !isKey {
			previous = body
			continue
		}
		if !strings.HasPrefix(line, " ") {
			group = ""
			if strings.HasSuffix(body, ":") {
				group = name + "."
				previous = body
				continue
			}
		}
		seen[group+name] = true
		if !strings.HasPrefix(previous, "#") {
			faults = append(faults, group+name+" has no comment above it")
		}
		previous = body
	}
	for _, k := range Keys() {
		if !seen[k.Path] {
			faults = append(faults, k.Path+" is missing")
		}
	}
	return faults
}

func TestExampleFaultsAreSeen(t *testing.T) {
	faults := strings.Join(exampleFaults("# an address\nlisten: x\ndata: y\nlog:\n  # level\n  level: info\n  format: text\n"), "\n")
	for _, want := range []string{"data has no comment", "log.format has no comment", "http.readMs is missing"} {
		if !strings.Contains(faults, want) {
			t.Errorf("not reported: %s", want)
		}
	}
	if strings.Contains(faults, "listen") || strings.Contains(faults, "log.level") {
		t.Errorf("reported what is right: %s", faults)
	}
}

func TestLayers(t *testing.T) {
	file := write(t, "listen: 127.0.0.1:1\nlog:\n  level: warn\n  format: json\nhttp: {readMs: 9000}\n")
	env := []string{"SEATFLOW_LOG_LEVEL=error", "SEATFLOW_HTTP_READ_MS=8000", "SEATFLOW_GUEST_ENABLED=false", "PATH=/bin"}
	got, err := Load(file, env, map[string]any{"http-read-ms": "7000", "limits.seatsPerUser": 4, "sandbox.enabled": false})
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.Listen = "127.0.0.1:1"
	want.Log = Log{Level: "error", Format: "json"}
	want.HTTP.ReadMs = 7000
	want.Limits.SeatsPerUser = 4
	want.Guest.Enabled = false
	want.Sandbox.Enabled = false
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConfigVariableNamesTheFile(t *testing.T) {
	weak, strong := write(t, "changesKept: 100\n"), write(t, "changesKept: 200\n")
	for file, want := range map[string]int{"": 100, strong: 200} {
		got, err := Load(file, []string{"SEATFLOW_CONFIG=" + weak}, nil)
		if err != nil || got.ChangesKept != want {
			t.Errorf("Load(%q): %d, %v; want %d", file, got.ChangesKept, err, want)
		}
	}
	if _, err := Load("", []string{"SEATFLOW_CONFIG=/does/not/exist"}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name string
		file string
		env  []string
		args map[string]any
		want []string
	}{
		{"unknown key", "lisen: x", nil, nil, []string{`seatflow.yaml: unknown key "lisen"; the nearest is "listen"`}},
		{"unknown nested key", "http:\n  readMS: 5000", nil, nil, []string{`unknown key "http.readMS"; the nearest is "http.readMs"`}},
		{"unknown group", "htp:\n  readMs: 5000", nil, nil, []string{`unknown key "htp"`}},
		{"dotted key", "http.readMs: 5000", nil, nil, []string{`unknown key "http.readMs"`}},
		{"group as value", "http: 5", nil, nil, []string{"http: is a group of keys"}},
		{"value as group", "listen: {a: 1}", nil, nil, []string{"listen: ", "is not text"}},
		{"repeated key", "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2", nil, nil, []string{"already defined"}},
		{"second document", "changesKept: 100\n---\nchangesKept: 200", nil, nil, []string{"more than one document"}},
		{"not a map", "- 1\n- 2", nil, nil, []string{"seatflow.yaml: yaml"}},
		{"quoted number", `changesKept: "100"`, nil, nil, []string{`changesKept: "100" is not a whole number`}},
		{"fraction", "changesKept: 100.5", nil, nil, []string{`"100.5" is not a whole number`}},
		{"empty value", "listen:", nil, nil, []string{"listen: an empty value is not text"}},
		{"list", "listen: [1]", nil, nil, []string{"listen: ", "is not text"}},
		{"unknown variable", "", []string{"SEATFLOW_HTTP_READMS=1"}, nil, []string{`environment: unknown key "SEATFLOW_HTTP_READMS"; the nearest is "SEATFLOW_HTTP_READ_MS"`}},
		{"bad variable", "", []string{"SEATFLOW_HTTP_READ_MS=soon"}, nil, []string{`SEATFLOW_HTTP_READ_MS: http.readMs: "soon" is not a whole number`}},
		{"overflow", "", []string{"SEATFLOW_CHANGES_KEPT=99999999999999999999"}, nil, []string{"SEATFLOW_CHANGES_KEPT"}},
		{"bad bool", "", []string{"SEATFLOW_GUEST_ENABLED=maybe"}, nil, []string{"true or false"}},
		{"unknown flag", "", nil, map[string]any{"lissten": "x"}, []string{`flags: unknown key "lissten"; the nearest is "listen"`}},
		{"range", "graceSeconds: 0", nil, nil, []string{"seatflow.yaml: graceSeconds: 0 is not between 1 and 3600"}},
		{"word", "log: {level: loud}", nil, nil, []string{`log.level: "loud" is not one of debug, info, warn, error`}},
		{"address", "listen: localhost", nil, nil, []string{"HOST:PORT"}},
		{"port", "listen: 127.0.0.1:70000", nil, nil, []string{"no valid port"}},
		{"url", "publicUrl: example.org", nil, nil, []string{"publicUrl"}},
		{"url with a path", "publicUrl: https://example.org/a", nil, nil, []string{"publicUrl"}},
		{"no data", "data: ''", nil, nil, []string{"must name a folder"}},
		{"root as data", "data: /", nil, nil, []string{"root folder"}},
		{"seats", "", nil, map[string]any{"seats": "etcd://u:secret@h:1"}, []string{"--seats: seats: ", "neither \"memory\" nor a URL of redis://"}},
		{"ledger", "", nil, map[string]any{"ledger": "oracle://u:secret@h:1/d"}, []string{"--ledger: ledger: ", "neither \"sqlite\" nor a URL of mysql://"}},
		{"bus", "bus: kafka", nil, nil, []string{"neither \"embedded\" nor a URL of nats://"}},
		{"second bus", "bus: nats://a:1,http://b:2", nil, nil, []string{"bus: "}},
		{"locks", "locks: h:6379", nil, nil, []string{"locks: ", "nor a URL of redis://"}},
		{"shared seats, own facts", "seats: redis://u:secret@h:1", nil, nil, []string{"ledger: ", "mysql://"}},
		{"own seats, shared facts", "ledger: mysql://u:secret@h:1/d", nil, nil, []string{"ledger: ", "sqlite"}},
		{"cap", "hold: {seconds: 100, capSeconds: 99}", nil, nil, []string{"hold.capSeconds: 99 is less than hold.seconds (100)"}},
		{"read", "http: {readMs: 100}", nil, nil, []string{"less than http.readHeaderMs"}},
		{"write", "http: {writeMs: 100}", nil, nil, []string{"less than ledgerDeadlineMs"}},
		{"open profiler", "pprof: 0.0.0.0:6060", nil, nil, []string{"not a loopback address"}},
		{"all faults at once", "lisen: x\ngraceSeconds: 0", []string{"SEATFLOW_NO=1", "SEATFLOW_GUEST_ENABLED=x"}, map[string]any{"x": 1},
			[]string{"5 faults", `"lisen"`, "graceSeconds", `"SEATFLOW_NO"`, "guest.enabled", `"x"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := ""
			if test.file != "" {
				file = write(t, test.file)
			}
			got, err := Load(file, test.env, test.args)
			var faults *FaultsError
			if !errors.As(err, &faults) {
				t.Fatalf("err = %v, want *FaultsError", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("message lacks %q:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("message shows a password: %v", err)
			}
			if got != (Config{}) {
				t.Error("a refused configuration was returned")
			}
		})
	}
}

func TestReservedVariablesAreLeftAlone(t *testing.T) {
	env := []string{"SEATFLOW_REQUIRE_BACKENDS=1", "SEATFLOW_TEST_KILL=insert", "SEATFLOW_ADMIN_TOKEN=x", "SEATFLOW_URL=y"}
	if _, err := Load("", env, nil); err != nil {
		t.Error(err)
	}
}

func TestKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys() {
		if k.Help == "" {
			t.Errorf("%s has no help text", k.Path)
		}
		if k.Kind == Int && (k.Max <= k.Min) {
			t.Errorf("%s has no range", k.Path)
		}
		for _, name := range []string{k.Env, "--" + k.Flag, "path " + k.Path} {
			if seen[name] {
				t.Errorf("%s stands for two keys", name)
			}
			seen[name] = true
		}
		if Reserved[k.Env] != "" || strings.HasPrefix(k.Env, ReservedPrefix) {
			t.Errorf("%s is reserved", k.Env)
		}
	}
	k := byPath["http.readHeaderMs"]
	if k == nil || k.Env != "SEATFLOW_HTTP_READ_HEADER_MS" || k.Flag != "http-read-header-ms" {
		t.Errorf("derived names: %+v", k)
	}
}

func TestUnits(t *testing.T) {
	if Ms(1500).String() != "1.5s" || Seconds(90).String() != "1m30s" {
		t.Error("units are wrong")
	}
}

const (
	refBegin = "<!-- generated: make generate -->\n"
	refEnd   = "<!-- end -->\n"
)

func TestReferenceIsCurrent(t *testing.T) {
	const name = "../../docs/configuration.md"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(data), refBegin)
	old, tail, ok2 := strings.Cut(rest, refEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks the markers around the table", name)
	}
	for name, why := range Reserved {
		if row := "| `" + name + "` | " + why + " |\n"; !strings.Contains(tail, row) {
			t.Errorf("the reference lacks the row %s", row)
		}
	}
	if old == Reference() {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: run make generate", name)
	}
	if err := os.WriteFile(name, []byte(head+refBegin+Reference()+refEnd+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
