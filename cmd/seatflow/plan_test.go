package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"seatflow/internal/app"
	"seatflow/internal/config"
	"seatflow/internal/seatplan"
)

const theatre = "../../internal/seatplan/testdata/theatre.json"

// answer is what a command printed and how it ended.
type answer struct {
	out, errOut string
	code        int
}

// command runs the program's commands in process, as run does.
func command(t *testing.T, stdin string, args ...string) answer {
	t.Helper()
	var out, errOut bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errOut)
	err := root.ExecuteContext(t.Context())
	a := answer{code: 1}
	var usage usageError
	switch {
	case err == nil:
		a.code = 0
	case errors.As(err, &usage):
		a.code = 2
	}
	if err != nil && !errors.Is(err, errSaid) {
		fmt.Fprintln(&errOut, err)
	}
	a.out, a.errOut = out.String(), errOut.String()
	return a
}

func (a answer) want(t *testing.T, code int, out, errOut string) answer {
	t.Helper()
	if a.code != code || !strings.Contains(a.out, out) || !strings.Contains(a.errOut, errOut) {
		t.Errorf("exit code %d, want %d\nout %.600q, want %q\nerr %.600q, want %q", a.code, code, a.out, out, a.errOut, errOut)
	}
	return a
}

func TestPlanCheck(t *testing.T) {
	a := command(t, "", "plan", "check", theatre).want(t, 1, "52 faults", "")
	for row, seats := range map[string]int{"11": 26, "12": 26} {
		for n := range seats {
			if guid := fmt.Sprintf(`guid "%s-%d" is used in 2 zones`, row, n+1); strings.Count(a.out, guid) != 1 {
				t.Errorf("%s stands there %d times", guid, strings.Count(a.out, guid))
			}
		}
	}
	if !strings.Contains(a.out, "--disambiguate zone") {
		t.Error("the way out is not told")
	}
	a = command(t, "", "plan", "check", theatre, "--disambiguate", "zone").want(t, 0, `"Lindenhof Theatre", 384 seats`, "")
	for _, line := range []string{"Stalls front   60", "Gallery        82", "Stalls   276"} {
		if !strings.Contains(a.out, line) {
			t.Errorf("%q is missing in\n%s", line, a.out)
		}
	}

	var report planReport
	a = command(t, "", "plan", "check", theatre, "--output", "json").want(t, 1, "", "")
	if err := json.Unmarshal([]byte(a.out), &report); err != nil || report.OK || report.Total != 52 || len(report.Faults) != 52 ||
		len(report.Kinds) != 1 || report.Kinds[0].Kind != seatplan.KindRepeatedAcross {
		t.Errorf("%v, %d faults of %d, %v", err, len(report.Faults), report.Total, report.Kinds)
	}
	doc, err := os.ReadFile(theatre)
	if err != nil {
		t.Fatal(err)
	}
	report = planReport{}
	a = command(t, string(doc), "plan", "check", "-", "--output", "json", "--disambiguate", "zone").want(t, 0, "standard input", "")
	if err := json.Unmarshal([]byte(a.out), &report); err != nil || !report.OK || report.Seats != 384 || len(report.Categories) != 5 {
		t.Errorf("%v, %+v", err, report)
	}
}

func TestPlanUsage(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		code   int
		errOut string
		args   []string
	}{
		{2, "takes one FILE", []string{"check"}},
		{2, "takes one FILE", []string{"check", "a", "b"}},
		{2, "takes one FILE", []string{"import"}},
		{2, "the one choice is zone", []string{"check", theatre, "--disambiguate", "row"}},
		{2, "text or json", []string{"check", theatre, "--output", "xml"}},
		{2, "unknown flag", []string{"check", theatre, "--fast"}},
		{2, "it is one of check", []string{"chekc", theatre}},
		{2, "without --hall-name", []string{"import", theatre, "--hall", "1", "--hall-name", "A"}},
		{2, "a number from 1", []string{"import", theatre, "--hall", "0"}},
		{2, "takes no arguments", []string{"export", "1"}},
		{2, "numbers from 1", []string{"export", "--version", "0"}},
		{2, "choose a hall with --hall; there is none", []string{"export", "--data", dir}},
		{2, "numbers from 1", []string{"generate", "--rows", "0"}},
		{2, "at most 200,000", []string{"generate", "--rows", "1000", "--seats", "1000"}},
		{2, "a stadium takes --capacity", []string{"generate", "--stadium", "--rows", "10"}},
		{2, "for a --stadium", []string{"generate", "--capacity", "10"}},
		{2, "a stadium has 100 to 200,000", []string{"generate", "--stadium", "--capacity", "10"}},
		{1, "no such file", []string{"check", "nowhere.json"}},
		{1, "there is no hall 3", []string{"import", theatre, "--hall", "3", "--disambiguate", "zone", "--data", dir}},
		{1, "IANA time zone", []string{"import", theatre, "--zone", "Mars", "--disambiguate", "zone", "--data", dir}},
	} {
		command(t, "", append([]string{"plan"}, c.args...)...).want(t, c.code, "", c.errOut)
	}
}

// TestPlanHelp: every command explains itself and shows how it is called.
func TestPlanHelp(t *testing.T) {
	command(t, "", "plan").want(t, 0, "Available Commands", "")
	var all func(cmd *cobra.Command)
	all = func(cmd *cobra.Command) {
		if cmd.Example == "" || cmd.Long == "" {
			t.Errorf("%s has no example or no description", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			all(sub)
		}
	}
	all(planCommand())
}

// importsAndExports is the life of a hall's plans, on a folder or through the
// server that has it.
func importsAndExports(t *testing.T, dir string) {
	// A refused plan leaves nothing behind.
	command(t, "", "plan", "import", theatre, "--data", dir).want(t, 1, "52 faults", "")
	command(t, "", "plan", "export", "--data", dir).want(t, 2, "", "there is none at all yet")

	command(t, "", "plan", "import", theatre, "--disambiguate", "zone", "--data", dir, "--zone", "Europe/Berlin").
		want(t, 0, "hall 1 (new) \"Lindenhof Theatre\", plan version 1, 384 sellable seats\n", "")
	exported := command(t, "", "plan", "export", "--data", dir).want(t, 0, `"Gallery/11-1"`, "")

	// What was exported is imported as it is, into the hall of its name.
	a := command(t, exported.out, "plan", "import", "-", "--data", dir, "--output", "json").want(t, 0, "", "")
	var done imported
	if err := json.Unmarshal([]byte(a.out), &done); err != nil || done.HallID != 1 || done.Version != 2 || done.Seats != 384 || done.NewHall {
		t.Errorf("%v, %+v", err, done)
	}
	// Of another zone it is another hall.
	command(t, exported.out, "plan", "import", "-", "--data", dir, "--zone", "Asia/Tokyo").want(t, 0, "hall 2 (new)", "")
	command(t, exported.out, "plan", "import", "-", "--data", dir).want(t, 1, "", "several halls are called")
	command(t, exported.out, "plan", "import", "-", "--data", dir, "--hall", "2").want(t, 0, "hall 2 \"Lindenhof Theatre\", plan version 2", "")
	command(t, "", "plan", "export", "--data", dir).want(t, 2, "", "choose a hall with --hall:")

	file := filepath.Join(t.TempDir(), "hall.json")
	command(t, "", "plan", "generate", "--rows", "3", "--seats", "7", "-o", file).want(t, 0, "", "bytes")
	command(t, "", "plan", "import", file, "--hall", "1", "--data", dir).want(t, 0, "plan version 3, 21 sellable seats", "")
	generated, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if a := command(t, "", "plan", "export", "--hall", "1", "--data", dir); a.out != string(generated) {
		t.Error("the latest version is not the one imported last")
	}
	if a := command(t, "", "plan", "export", "--hall", "1", "--version", "1", "--data", dir); a.out != exported.out {
		t.Error("version 1 has changed")
	}
	command(t, "", "plan", "export", "--hall", "1", "--version", "9", "--data", dir).want(t, 1, "", "")
	command(t, "", "plan", "export", "--hall", "1", "--version", "9", "--data", dir, "-o", file)
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, generated) {
		t.Errorf("a failed export touched the file (%v)", err)
	}

	command(t, string(generated), "plan", "import", "-", "--hall-name", "a\tb", "--data", dir).want(t, 1, "", "control characters")
	nameless := strings.Replace(string(generated), `"name": "Hall, 3 × 7"`, `"name": ""`, 1)
	command(t, nameless, "plan", "import", "-", "--data", dir).want(t, 2, "", "--hall-name")
	command(t, nameless, "plan", "import", "-", "--data", dir, "--hall-name", "Studio").want(t, 0, "hall 3 (new) \"Studio\"", "")
}

func TestPlanOnFolder(t *testing.T) {
	importsAndExports(t, filepath.Join(t.TempDir(), "data"))
}

// TestPlanViaServer: the same commands give the same answers while a server
// has the folder.
func TestPlanViaServer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	cfg := config.Defaults()
	cfg.Data, cfg.Listen = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0"
	a, err := app.New(t.Context(), cfg, app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	importsAndExports(t, cfg.Data)
	if _, ok := app.DataServer(cfg.Data); !ok {
		t.Error("the server is not there; the commands did not go through it")
	}
	stop()
	if err := errors.Join(<-done, a.Close()); err != nil {
		t.Error(err)
	}
}

// TestPlanProgressIsQuiet: what is not a terminal gets no bar.
func TestPlanProgressIsQuiet(t *testing.T) {
	a := command(t, "", "plan", "generate", "--stadium", "--capacity", "3000")
	if a := command(t, a.out, "plan", "check", "-").want(t, 0, "3,000 seats", ""); a.errOut != "" {
		t.Errorf("standard error %q", a.errOut)
	}
}
