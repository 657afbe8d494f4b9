package verify

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Write prints the report as a table for people, its violations below.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tRESULT\tCHECK\tCOUNTS")
	for i := range r.Checks {
		c := &r.Checks[i]
		result := "ok"
		switch {
		case !c.OK:
			result = "FAILED"
		case c.Note != "" && len(c.Counts) == 0:
			result = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.Invariant, result, c.Name, c.counts())
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.OK {
			continue
		}
		fmt.Fprintf(&b, "\n%s, %s: %d violations\n", c.Invariant, c.Name, c.Counts["violations"])
		for _, v := range c.Violations {
			fmt.Fprintf(&b, "  %s\n", v)
		}
		if more := c.Counts["violations"] - int64(len(c.Violations)); more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	if r.OK() {
		b.WriteString("\nEverything that was checked holds.\n")
	} else {
		fmt.Fprintf(&b, "\n%d violations.\n", r.Violations())
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// counts lists the check's counts that are not zero, by name.
func (c *Check) counts() string {
	keys := make([]string, 0, len(c.Counts))
	for k, n := range c.Counts {
		if n != 0 && k != "violations" && k != "looks" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	parts := make([]string, 0, len(keys)+1)
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%s %d", k, c.Counts[k]))
	}
	if c.Note != "" {
		parts = append(parts, c.Note)
	}
	return strings.Join(parts, ", ")
}
