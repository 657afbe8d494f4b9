package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"seatflow"
	"seatflow/internal/seatplan"
)

func planCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan", Short: "Check, import, export and generate seat plans",
		Long: `Seat plans come in the exchange format of the pretix seating-plan editor, with
its older or newer fields. A plan is published in a hall as a version that
never changes again; a seat keeps its id in every later version.`,
		Example: `  seatflow plan check theatre.json
  seatflow plan import theatre.json --hall-name "Lindenhof Theatre" --zone Europe/Berlin
  seatflow plan export --hall 1 -o theatre.json
  seatflow plan generate --stadium | seatflow plan import -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q for %q; it is one of check, import, export, generate", args[0], cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(planCheckCommand(), planImportCommand(), planExportCommand(), planGenerateCommand())
	return cmd
}

// oneFile wants a file, or - for standard input.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s takes one FILE, or - for standard input\nRun '%s --help' for usage", cmd.CommandPath(), cmd.CommandPath())}
	}
	return nil
}

// planInput is how a plan is read, by check and by import.
type planInput struct {
	disambiguate string
	output       string
}

func (in *planInput) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&in.disambiguate, "disambiguate", "", "zone: seats of two zones may have one guid; keep them apart by zone")
	cmd.Flags().StringVar(&in.output, "output", "text", "text or json")
}

func (in *planInput) check() error {
	if in.disambiguate != "" && in.disambiguate != seatplan.DisambiguateZone {
		return usageError{fmt.Errorf("--disambiguate %q: the one choice is %s", in.disambiguate, seatplan.DisambiguateZone)}
	}
	return checkOutput(in.output)
}

// read parses the file and reports on it; the document is nil when it has
// faults. Any other failure is an error.
func (in *planInput) read(cmd *cobra.Command, file string) (*seatplan.Document, *planReport, error) {
	r := cmd.InOrStdin()
	report := &planReport{File: file}
	if file == "-" {
		report.File = "standard input"
	} else {
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		r = f
	}
	bar := newProgress(cmd.ErrOrStderr(), "Reading")
	doc, err := seatplan.Parse(r, seatplan.Options{Disambiguate: in.disambiguate, Progress: bar.set})
	bar.done()
	var faults *seatplan.FaultsError
	switch {
	case errors.As(err, &faults):
		report.Faults, report.Kinds, report.Total = faults.Faults, faults.Kinds, faults.Total
		return nil, report, nil
	case err != nil:
		return nil, nil, err
	}
	report.OK, report.Name, report.Seats, report.Warnings = true, doc.Name, doc.Seats(), doc.Warnings
	report.Categories, report.Zones = doc.SeatsByCategory(), doc.SeatsByZone()
	return doc, report, nil
}

// planReport is what is said about a plan.
type planReport struct {
	File       string               `json:"file"`
	OK         bool                 `json:"ok"`
	Name       string               `json:"name,omitzero"`
	Seats      int                  `json:"seats"`
	Categories []seatplan.Count     `json:"categories,omitzero"`
	Zones      []seatplan.Count     `json:"zones,omitzero"`
	Warnings   []string             `json:"warnings,omitempty"`
	Total      int                  `json:"faultCount"`
	Kinds      []seatplan.KindCount `json:"faultKinds,omitzero"`
	Faults     []seatplan.Fault     `json:"faults,omitzero"`
}

// print writes the report in text.
func (p *planReport) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if !p.OK {
		fmt.Fprintf(w, "%s: %s\n\n", p.File, counted(p.Total, "fault"))
		for _, k := range p.Kinds {
			fmt.Fprintf(t, "  %s\t%s\n", k.Kind, grouped(k.Count))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
		for _, f := range p.Faults {
			fmt.Fprintln(w, f)
		}
		if more := p.Total - len(p.Faults); more > 0 {
			fmt.Fprintf(w, "and %s more\n", counted(more, "fault"))
		}
		if p.only(seatplan.KindRepeatedAcross) {
			fmt.Fprint(w, "\nIf these are different chairs, --disambiguate zone keeps them apart.\n")
		}
		return nil
	}
	fmt.Fprintf(w, "%s: %q, %s\n", p.File, p.Name, counted(p.Seats, "seat"))
	for _, part := range []struct {
		what   string
		counts []seatplan.Count
	}{{"category", p.Categories}, {"zone", p.Zones}} {
		fmt.Fprintf(t, "\n  %s\tseats\n", part.what)
		for _, c := range part.counts {
			fmt.Fprintf(t, "  %s\t%s\n", cmp.Or(c.Name, "(no name)"), grouped(c.Seats))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(p.Warnings) > 0 {
		fmt.Fprintln(w)
	}
	for _, warning := range p.Warnings {
		fmt.Fprintln(w, "warning:", warning)
	}
	return nil
}

func (p *planReport) only(kind seatplan.Kind) bool {
	return len(p.Kinds) == 1 && p.Kinds[0].Kind == kind
}

func printJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", b)
	}
	return err
}

func (in *planInput) say(w io.Writer, p *planReport) error {
	if in.output == "json" {
		return printJSON(w, p)
	}
	return p.print(w)
}

func planCheckCommand() *cobra.Command {
	var in planInput
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Say whether a plan can be sold, or everything that is wrong with it", Args: oneFile,
		Long: `Check a seat plan without storing anything. A plan that holds is told by its
seats in every category and zone. One that does not is told by the number of
faults of every kind and by each fault with its place, and the exit code is 1.`,
		Example: `  seatflow plan check theatre.json
  seatflow plan check theatre.json --disambiguate zone
  seatflow plan check - --output json < theatre.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := in.check(); err != nil {
				return err
			}
			doc, report, err := in.read(cmd, args[0])
			if err != nil {
				return err
			}
			if err := in.say(cmd.OutOrStdout(), report); err != nil {
				return err
			}
			if doc == nil {
				return errSaid
			}
			return nil
		},
	}
	in.flags(cmd)
	return cmd
}

// imported is what an import has done.
type imported struct {
	HallID   seatflow.HallID      `json:"hallId"`
	Hall     string               `json:"hall"`
	NewHall  bool                 `json:"newHall"`
	Version  seatflow.PlanVersion `json:"version"`
	Seats    int                  `json:"seats"`
	Warnings []string             `json:"warnings,omitempty"`
}

func planImportCommand() *cobra.Command {
	var in planInput
	var data, hallName, zone, facts string
	var hall int64
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Publish a plan in a hall", Args: oneFile,
		Long: `Publish a seat plan as the next version of a hall's plan. A plan with faults is
refused with the whole list, and nothing is stored.

The hall is the one with --hall, or the one that is called --hall-name (the
plan's own name unless given); when there is none of that name it is made, in
the time zone --zone. A seat that an earlier version had, by its guid, keeps
its id; the id of a seat that is gone is never given again.

When a server runs on the data folder the plan is sent to it.`,
		Example: `  seatflow plan import theatre.json
  seatflow plan import theatre.json --hall-name "Lindenhof Theatre" --zone Europe/Berlin
  seatflow plan import theatre.json --hall 1 --disambiguate zone
  seatflow plan generate --stadium | seatflow plan import - --hall-name Arena`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := in.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("hall") && (hallName != "" || hall < 1) {
				return usageError{errors.New("--hall is a number from 1, and goes without --hall-name")}
			}
			doc, report, err := in.read(cmd, args[0])
			if err != nil {
				return err
			}
			if doc == nil {
				if err := in.say(cmd.OutOrStdout(), report); err != nil {
					return err
				}
				return errSaid
			}
			name := cmp.Or(hallName, doc.Name)
			if name == "" && hall == 0 && args[0] != "-" {
				name = filepath.Base(args[0])
			}
			done := imported{Seats: report.Seats, Warnings: report.Warnings}
			if err := withPlans(cmd.Context(), data, facts, func(ctx context.Context, s planStore) error {
				h, made, err := chooseHall(ctx, s, seatflow.HallID(hall), name, zone, cmd.Flags().Changed("zone"))
				if err != nil {
					return err
				}
				done.HallID, done.Hall, done.NewHall = h.ID, h.Name, made
				bar := newProgress(cmd.ErrOrStderr(), "Publishing")
				defer bar.done()
				done.Version, done.Seats, err = s.publish(ctx, h.ID, doc, bar.set)
				return err
			}); err != nil {
				return err
			}
			if in.output == "json" {
				return printJSON(cmd.OutOrStdout(), done)
			}
			for _, w := range done.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
			}
			made := ""
			if done.NewHall {
				made = " (new)"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "hall %d%s %q, plan version %d, %s\n",
				done.HallID, made, done.Hall, done.Version, counted(done.Seats, "sellable seat"))
			return nil
		},
	}
	in.flags(cmd)
	cmd.Flags().StringVar(&data, "data", defaultData(), "data folder")
	cmd.Flags().StringVar(&facts, "ledger", "", "facts that nodes share, instead of a data folder: mysql://USER:PASSWORD@HOST:PORT/DATABASE")
	cmd.Flags().Int64Var(&hall, "hall", 0, "id of the hall")
	cmd.Flags().StringVar(&hallName, "hall-name", "", "name of the hall (default: the plan's name)")
	cmd.Flags().StringVar(&zone, "zone", "UTC", "IANA time zone of a hall that is made")
	return cmd
}

// chooseHall finds the hall to import into, or makes it.
func chooseHall(ctx context.Context, s planStore, id seatflow.HallID, name, zone string, zoned bool) (h seatflow.Hall, made bool, err error) {
	halls, err := s.halls(ctx)
	if err != nil {
		return h, false, err
	}
	if id != 0 {
		for _, h := range halls {
			if h.ID == id {
				return h, false, nil
			}
		}
		return h, false, fmt.Errorf("there is no hall %d%s", id, hallList(halls))
	}
	if name == "" {
		return h, false, usageError{errors.New("the plan has no name: give the hall's with --hall-name, or its id with --hall")}
	}
	var found []seatflow.Hall
	for _, h := range halls {
		if h.Name == name && (!zoned || h.Zone == zone) {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 0:
		h, err := s.createHall(ctx, seatflow.Hall{Name: name, Zone: zone})
		return h, true, err
	case 1:
		return found[0], false, nil
	}
	return h, false, fmt.Errorf("several halls are called %q; choose with --hall%s", name, hallList(found))
}

// hallList names halls below an error.
func hallList(halls []seatflow.Hall) string {
	if len(halls) == 0 {
		return "; there is none at all yet"
	}
	s := ""
	for i, h := range halls {
		if i == 20 {
			return s + fmt.Sprintf("\n  and %d more", len(halls)-i)
		}
		s += fmt.Sprintf("\n  --hall %d  %q, %s", h.ID, h.Name, h.Zone)
	}
	return ":" + s
}

func planExportCommand() *cobra.Command {
	var data, file, facts string
	var hall int64
	var version int32
	cmd := &cobra.Command{
		Use: "export", Short: "Write a published plan as a document", Args: noArgs,
		Long: `Write a published plan in the exchange format with the newest fields, to
standard output or a file. Seat ids are not part of the format: importing the
document into the same hall finds them by the guids.`,
		Example: `  seatflow plan export > theatre.json
  seatflow plan export --hall 2 --version 3 -o arena-v3.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("hall") && hall < 1 || cmd.Flags().Changed("version") && version < 1 {
				return usageError{errors.New("--hall and --version are numbers from 1")}
			}
			var body []byte
			if err := withPlans(cmd.Context(), data, facts, func(ctx context.Context, s planStore) error {
				id := seatflow.HallID(hall)
				if id == 0 {
					halls, err := s.halls(ctx)
					if err != nil {
						return err
					}
					if len(halls) != 1 {
						return usageError{fmt.Errorf("choose a hall with --hall%s", hallList(halls))}
					}
					id = halls[0].ID
				}
				var err error
				body, err = s.export(ctx, id, seatflow.PlanVersion(version))
				return err
			}); err != nil {
				return err
			}
			return writeOut(cmd, file, body)
		},
	}
	cmd.Flags().StringVar(&data, "data", defaultData(), "data folder")
	cmd.Flags().StringVar(&facts, "ledger", "", "facts that nodes share, instead of a data folder: mysql://USER:PASSWORD@HOST:PORT/DATABASE")
	cmd.Flags().Int64Var(&hall, "hall", 0, "id of the hall (default: the only one)")
	cmd.Flags().Int32Var(&version, "version", 0, "version of its plan (default: the latest)")
	cmd.Flags().StringVarP(&file, "out", "o", "", "file to write (default: standard output)")
	return cmd
}

func planGenerateCommand() *cobra.Command {
	var o seatplan.GenerateOptions
	var file string
	cmd := &cobra.Command{
		Use: "generate", Short: "Draw up a hall of curved rows, or a stadium", Args: noArgs,
		Long: `Draw up a plan that can be imported as it is: a hall of equal, gently curved
rows before a stage, or a stadium whose sections stand in three tiers around a
pitch. The number of seats is exact, and no two of them overlap.`,
		Example: `  seatflow plan generate --rows 10 --seats 10 -o hall.json
  seatflow plan generate --stadium -o arena.json
  seatflow plan generate --stadium --capacity 25000 --name "Hafen Arena" | seatflow plan check -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			changed := cmd.Flags().Changed
			switch {
			case o.Stadium && (changed("rows") || changed("seats")):
				return usageError{errors.New("--rows and --seats are for a hall; a stadium takes --capacity")}
			case !o.Stadium && changed("capacity"):
				return usageError{errors.New("--capacity is for a --stadium; a hall takes --rows and --seats")}
			case o.Rows < 1 || o.Seats < 1 || o.Capacity < 1:
				return usageError{errors.New("--rows, --seats and --capacity are numbers from 1")}
			}
			if err := o.Check(); err != nil {
				return usageError{err}
			}
			body, err := seatplan.Generate(o).JSON()
			if err != nil {
				return err
			}
			return writeOut(cmd, file, body)
		},
	}
	cmd.Flags().IntVar(&o.Rows, "rows", 10, "rows of the hall")
	cmd.Flags().IntVar(&o.Seats, "seats", 10, "seats in each row")
	cmd.Flags().BoolVar(&o.Stadium, "stadium", false, "a stadium instead of a hall")
	cmd.Flags().IntVar(&o.Capacity, "capacity", seatplan.DefaultStadium, "seats of the stadium")
	cmd.Flags().StringVar(&o.Name, "name", "", "name of the plan")
	cmd.Flags().StringVarP(&file, "out", "o", "", "file to write (default: standard output)")
	return cmd
}

// writeOut writes a document to a file, or to standard output for none or -.
func writeOut(cmd *cobra.Command, file string, body []byte) error {
	if file == "" || file == "-" {
		_, err := cmd.OutOrStdout().Write(body)
		return err
	}
	if err := os.WriteFile(file, body, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s bytes\n", file, grouped(len(body)))
	return nil
}

// progress is a bar on a terminal, and nothing anywhere else.
type progress struct {
	bar  *progressbar.ProgressBar
	what string
	w    io.Writer
}

func newProgress(w io.Writer, what string) *progress {
	p := &progress{what: what, w: w}
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		p.w = nil
	}
	return p
}

// set shows that done of total is done; the bar appears with the first call.
func (p *progress) set(done, total int) {
	if p.w == nil {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(p.what),
			progressbar.OptionShowBytes(true), progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(),
			progressbar.OptionEnableColorCodes(os.Getenv("NO_COLOR") == ""), progressbar.OptionThrottle(0))
	}
	_ = p.bar.Set(done) // a bar that cannot be drawn is no reason to stop
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}

// grouped writes a count with separators of thousands.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
