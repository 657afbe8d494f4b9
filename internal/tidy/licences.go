package tidy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// licenceKinds tells licences by sentences that only they contain. The order
// matters: the GNU ones are looked for first, since a text may hold several.
var licenceKinds = []struct {
	name     string
	allowed  bool
	sentence *regexp.Regexp
}{
	{"AGPL", false, regexp.MustCompile(`(?i)GNU\s+AFFERO\s+GENERAL\s+PUBLIC\s+LICENSE\s+Version`)},
	{"LGPL", false, regexp.MustCompile(`(?i)GNU\s+LESSER\s+GENERAL\s+PUBLIC\s+LICENSE\s+Version`)},
	{"GPL", false, regexp.MustCompile(`(?i)GNU\s+GENERAL\s+PUBLIC\s+LICENSE\s+Version`)},
	{"Apache-2.0", true, regexp.MustCompile(`Apache\s+License\s+Version\s+2\.0`)},
	{"MPL-2.0", true, regexp.MustCompile(`Mozilla\s+Public\s+License,?\s+[Vv]ersion\s+2\.0`)},
	{"BSD", true, regexp.MustCompile(`Redistribution\s+and\s+use\s+in\s+source\s+and\s+binary\s+forms`)},
	{"MIT", true, regexp.MustCompile(`Permission\s+is\s+hereby\s+granted,\s+free\s+of\s+charge`)},
	{"public domain", true, regexp.MustCompile(`dedicated\s+to\s+the\s+public\s+domain\s+by\s+the\s+authors`)},
	{"ISC", true, regexp.MustCompile(`Permission\s+to\s+use,\s+copy,\s+modify,\s+and(/or)?\s+distribute\s+this\s+software`)},
}

// LicenceOf names the licence whose text this is, and whether it may be in
// the binary: permissive ones and the MPL may, the GNU family may not.
func LicenceOf(text string) (name string, allowed bool) {
	for _, k := range licenceKinds {
		if k.sentence.MatchString(text) {
			return k.name, k.allowed
		}
	}
	return "unknown", false
}

// LinkedModules lists the folders of the modules whose packages a package of
// ours is built from, by module path.
func LinkedModules(dir, pkg string) (map[string]string, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Module", pkg)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("tidy: go list: %w: %s", err, stderr.String())
	}
	modules := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ Module *struct{ Path, Dir string } }
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return modules, nil
		case err != nil:
			return nil, fmt.Errorf("tidy: go list: %w", err)
		}
		if p.Module != nil && p.Module.Path != Module {
			modules[p.Module.Path] = p.Module.Dir
		}
	}
}

// CheckLicences reads the licence of every module and lists those that may
// not be linked in.
func CheckLicences(modules map[string]string) []string {
	var faults []string
	for module, dir := range modules {
		texts, err := licenceTexts(dir)
		if err != nil || len(texts) == 0 {
			faults = append(faults, fmt.Sprintf("%s: no licence found (%v)", module, err))
			continue
		}
		for file, text := range texts {
			if name, ok := LicenceOf(text); !ok {
				faults = append(faults, fmt.Sprintf("%s: %s is %s, which may not be in the binary", module, file, name))
			}
		}
	}
	sort.Strings(faults)
	return faults
}

func licenceTexts(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		if upper == "LICENSE-LOGO" { // of a picture in a README, which no binary contains
			continue
		}
		if e.IsDir() || !(strings.HasPrefix(upper, "LICENSE") || strings.HasPrefix(upper, "LICENCE") || strings.HasPrefix(upper, "COPYING")) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts[e.Name()] = string(data)
	}
	return texts, nil
}
