package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	yamlv3 "gopkg.in/yaml.v3"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Source  string // file, variable or flag; "" when only the value is known
	Key     string // path of the setting; "" when there is none
	Message string
}

// String returns the fault as one line.
func (f Fault) String() string {
	var parts []string
	for _, s := range []string{f.Source, f.Key, f.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// FaultsError is everything that is wrong with a configuration.
type FaultsError struct{ Faults []Fault }

// Error lists every fault, one a line when there are several.
func (e *FaultsError) Error() string {
	if len(e.Faults) == 1 {
		return "configuration: " + e.Faults[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "configuration: %d faults:", len(e.Faults))
	for _, f := range e.Faults {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// Load fills a Config: defaults, then the YAML file (empty: the one that
// SEATFLOW_CONFIG in env names, or none), then the SEATFLOW_* variables of
// env (NAME=value, as from os.Environ), then flags, keyed by path or flag
// name. It returns a [*FaultsError] with every fault of all layers.
func Load(file string, env []string, flags map[string]any) (Config, error) {
	l := loader{values: map[string]any{}, origin: map[string]string{}}
	if file == "" {
		file = lookup(env, "SEATFLOW_CONFIG")
	}
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return Config{}, fmt.Errorf("configuration: %w", err)
		}
		l.file(file, data)
	}
	l.env(env)
	l.flags(flags)

	k := koanf.New(".")
	for _, layer := range []map[string]any{defaults(), l.values} {
		if err := k.Load(confmap.Provider(layer, "."), nil); err != nil {
			return Config{}, fmt.Errorf("configuration: %w", err)
		}
	}
	var c Config
	if err := k.Unmarshal("", &c); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	if err := c.Validate(); err != nil {
		for _, f := range err.(*FaultsError).Faults {
			f.Source = l.origin[f.Key]
			l.faults = append(l.faults, f)
		}
	}
	if len(l.faults) > 0 {
		return Config{}, &FaultsError{Faults: l.faults}
	}
	return c, nil
}

func defaults() map[string]any {
	m := make(map[string]any, len(keys))
	for i := range keys {
		m[keys[i].Path] = keys[i].Default
	}
	return m
}

// loader gathers typed values by path, and what was wrong with the others.
type loader struct {
	values map[string]any
	origin map[string]string // where the value in effect came from
	faults []Fault
}

func (l *loader) set(k *Key, source string, v any, err error) {
	if err != nil {
		l.faults = append(l.faults, Fault{source, k.Path, err.Error()})
		return
	}
	l.values[k.Path], l.origin[k.Path] = v, source
}

func (l *loader) unknown(source, name string, known map[string]*Key) {
	l.faults = append(l.faults, Fault{source, "", fmt.Sprintf("unknown key %q; the nearest is %q", name, nearest(name, known))})
}

func (l *loader) file(name string, data []byte) {
	tree, err := yaml.Parser().Unmarshal(data)
	if err == nil {
		err = oneDocument(data)
	}
	if err != nil {
		l.faults = append(l.faults, Fault{name, "", err.Error()})
		return
	}
	l.tree(name, "", tree)
}

// oneDocument refuses what the parser would leave unread.
func oneDocument(data []byte) error {
	d := yamlv3.NewDecoder(bytes.NewReader(data))
	var skip yamlv3.Node
	for n := 0; ; n++ {
		switch err := d.Decode(&skip); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n > 0:
			return errors.New("holds more than one document")
		}
	}
}

func (l *loader) tree(source, prefix string, tree map[string]any) {
	for _, name := range sorted(tree) {
		path := prefix + name
		v := tree[name]
		if k := byPath[path]; k != nil && !strings.Contains(name, ".") {
			typed, err := k.typed(v)
			l.set(k, source, typed, err)
			continue
		}
		if sub, ok := v.(map[string]any); ok && isGroup(path) {
			l.tree(source, path+".", sub)
			continue
		}
		if isGroup(path) {
			l.faults = append(l.faults, Fault{source, path, "is a group of keys, not a value"})
			continue
		}
		l.unknown(source, path, byPath)
	}
}

func (l *loader) env(env []string) {
	sortedEnv := append([]string(nil), env...)
	sort.Strings(sortedEnv)
	for _, e := range sortedEnv {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, Prefix) || strings.HasPrefix(name, ReservedPrefix) || Reserved[name] != "" {
			continue
		}
		k := byEnv[name]
		if k == nil {
			l.unknown("environment", name, byEnv)
			continue
		}
		v, err := k.parse(value)
		l.set(k, name, v, err)
	}
}

func (l *loader) flags(flags map[string]any) {
	for _, name := range sorted(flags) {
		k := byPath[name]
		if k == nil {
			k = byFlag[name]
		}
		if k == nil {
			l.unknown("flags", name, byFlag)
			continue
		}
		var v any
		var err error
		if s, ok := flags[name].(string); ok {
			v, err = k.parse(s)
		} else {
			v, err = k.typed(flags[name])
		}
		l.set(k, "--"+k.Flag, v, err)
	}
}

// typed checks a value that has a type already. A file that says "900" in
// quotes where a number belongs is refused: it may have meant something else.
func (k *Key) typed(v any) (any, error) {
	switch x := v.(type) {
	case string:
		if k.Kind == String {
			return x, nil
		}
	case bool:
		if k.Kind == Bool {
			return x, nil
		}
	case int:
		if k.Kind == Int {
			return x, nil
		}
	case int64:
		if k.Kind == Int && x >= math.MinInt && x <= math.MaxInt {
			return int(x), nil
		}
	}
	return nil, fmt.Errorf("%s is not %s", show(v), k.wants())
}

func (k *Key) parse(s string) (any, error) {
	switch k.Kind {
	case Int:
		if n, err := strconv.Atoi(s); err == nil {
			return n, nil
		}
	case Bool:
		switch strings.ToLower(s) {
		case "true", "1":
			return true, nil
		case "false", "0":
			return false, nil
		}
	default:
		return s, nil
	}
	return nil, fmt.Errorf("%s is not %s", show(s), k.wants())
}

func (k *Key) wants() string {
	switch k.Kind {
	case Int:
		return "a whole number"
	case Bool:
		return "true or false"
	}
	return "text (quote it)"
}

// show renders a value for a message, and no more of it than helps.
func show(v any) string {
	if v == nil {
		return "an empty value"
	}
	s := fmt.Sprintf("%v", v)
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strconv.Quote(s)
}

func isGroup(path string) bool {
	for i := range keys {
		if strings.HasPrefix(keys[i].Path, path+".") {
			return true
		}
	}
	return false
}

func lookup(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

func sorted(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
