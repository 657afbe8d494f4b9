package tidy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	moduleLine  = regexp.MustCompile(`(?m)^module (\S+)$`)
	replaceLine = regexp.MustCompile(`(?m)^(replace|exclude)\b.*$`)
)

// CheckGoMod wants a go.mod that builds the same everywhere.
func CheckGoMod(t *Tree) []string {
	text := t.Texts["go.mod"]
	var faults []string
	if m := moduleLine.FindStringSubmatch(text); m == nil || m[1] != Module {
		faults = append(faults, "go.mod: the module is not "+Module)
	}
	for _, line := range replaceLine.FindAllString(text, -1) {
		faults = append(faults, "go.mod: "+line)
	}
	return faults
}

var migrationName = regexp.MustCompile(`^(\d{5})_[a-z0-9_]+\.sql$`)

// CheckMigrations wants migrations numbered from 1 without a gap, each with
// the mark that the migrator looks for.
func CheckMigrations(t *Tree) []string {
	const folder = "internal/ledger/migrations/"
	var faults []string
	next := map[string]int{}
	for _, name := range t.Names(func(n string) bool { return strings.HasPrefix(n, folder) && path.Ext(n) == ".sql" }) {
		dir, base := path.Split(name)
		m := migrationName.FindStringSubmatch(base)
		next[dir]++
		if m == nil || m[1] != fmt.Sprintf("%05d", next[dir]) {
			faults = append(faults, fmt.Sprintf("%s: want number %05d and a lower-case name", name, next[dir]))
		}
		if !strings.Contains(t.Texts[name], "-- +goose Up") {
			faults = append(faults, name+": no -- +goose Up")
		}
	}
	if len(next) == 0 {
		faults = append(faults, folder+": no migrations")
	}
	return faults
}

// CheckPackageMap wants every package in both READMEs.
func CheckPackageMap(t *Tree) []string {
	var faults []string
	for _, readme := range readmes {
		for _, p := range t.Packages() {
			if p == root || strings.HasPrefix(p, "test/") {
				continue
			}
			if !strings.Contains(t.Texts[readme], "`"+p+"`") {
				faults = append(faults, fmt.Sprintf("%s: the map of packages lacks `%s`", readme, p))
			}
		}
	}
	return faults
}

var readmes = []string{"README.md", "README.zh.md"}

var (
	fenced   = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$")
	picture  = regexp.MustCompile(`!\[[^\]]*\]\(([^)]+)\)`)
	inlined  = regexp.MustCompile("`[^`]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^(#{1,6}) (.+)$`)
	comments = regexp.MustCompile(`(?m)\s*#.*$`)
)

// CheckReadmes wants the same skeleton in both languages: headings of the
// same depths, the same commands, pictures and links, as many rows and points.
func CheckReadmes(t *Tree) []string {
	var faults []string
	for _, r := range readmes {
		if t.Texts[r] == "" {
			faults = append(faults, r+": missing")
		}
	}
	if len(faults) > 0 {
		return faults
	}
	a, b := skeleton(t.Texts[readmes[0]]), skeleton(t.Texts[readmes[1]])
	for i, what := range []string{"depths of headings", "commands", "pictures", "links", "points and rows"} {
		if !slices.Equal(a[i], b[i]) {
			faults = append(faults, fmt.Sprintf("README.md and README.zh.md differ in %s:\n\t%q\n\t%q", what, a[i], b[i]))
		}
	}
	return faults
}

func skeleton(text string) (s [5][]string) {
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		for _, line := range strings.Split(comments.ReplaceAllString(m[1], ""), "\n") {
			if line = strings.TrimSpace(line); line != "" {
				s[1] = append(s[1], line)
			}
		}
	}
	text = fenced.ReplaceAllString(text, "")
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		s[0] = append(s[0], m[1])
	}
	for _, m := range picture.FindAllStringSubmatch(text, -1) {
		s[2] = append(s[2], m[1])
	}
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		// Each README links to the other; that pair counts as one.
		if m[1] != readmes[0] && m[1] != readmes[1] {
			s[3] = append(s[3], m[1])
		}
	}
	points := 0
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "|") || regexp.MustCompile(`^\d+\. `).MatchString(line) {
			points++
		}
	}
	s[4] = []string{fmt.Sprint(points)}
	return s
}

// CheckLinks wants every relative link of a document to lead somewhere, and
// every document under docs to be linked from another one.
func CheckLinks(t *Tree) []string {
	var faults []string
	linked := map[string]bool{}
	for _, name := range t.Names(func(n string) bool { return path.Ext(n) == ".md" }) {
		text := inlined.ReplaceAllString(fenced.ReplaceAllString(t.Texts[name], ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := m[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			full := name
			if file != "" {
				full = path.Join(path.Dir(name), file)
			}
			linked[full] = linked[full] || full != name
			if !t.Paths[full] {
				faults = append(faults, fmt.Sprintf("%s: %s leads nowhere", name, target))
				continue
			}
			if anchor != "" && !slices.Contains(anchors(t.Texts[full]), anchor) {
				faults = append(faults, fmt.Sprintf("%s: %s has no such heading", name, target))
			}
		}
	}
	for _, name := range t.Names(func(n string) bool { return strings.HasPrefix(n, "docs/") && path.Ext(n) == ".md" }) {
		if !linked[name] {
			faults = append(faults, name+": no document links to it")
		}
	}
	return faults
}

func anchors(text string) []string {
	var list []string
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(m[2]) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case r == '-' || r == '_' || r > 127 || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
				b.WriteRune(r)
			}
		}
		list = append(list, b.String())
	}
	return list
}

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):[^=\n]*?(## .+)?$`)
	makeUse    = regexp.MustCompile("make ([a-z][a-z-]*)")
)

// CheckMakeTargets wants a help text for every target, and every target that
// a document names to be there.
func CheckMakeTargets(t *Tree) []string {
	var faults []string
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(t.Texts["Makefile"], -1) {
		targets[m[1]] = true
		if m[2] == "" {
			faults = append(faults, fmt.Sprintf("Makefile: target %s has no ## help", m[1]))
		}
	}
	if len(targets) == 0 {
		faults = append(faults, "Makefile: no targets")
	}
	for _, name := range t.Names(func(n string) bool { return path.Ext(n) == ".md" || n == ".ci/run" }) {
		text := t.Texts[name]
		var code []string
		for _, m := range fenced.FindAllStringSubmatch(text, -1) {
			code = append(code, m[1])
		}
		code = append(code, inlined.FindAllString(fenced.ReplaceAllString(text, ""), -1)...)
		if name == ".ci/run" {
			code = []string{text}
		}
		for _, m := range makeUse.FindAllStringSubmatch(strings.Join(code, "\n"), -1) {
			if !targets[m[1]] {
				faults = append(faults, fmt.Sprintf("%s: make %s is no target", name, m[1]))
			}
		}
	}
	return faults
}
