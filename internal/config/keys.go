package config

import (
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// Kind is the kind of value that a key takes.
type Kind uint8

// The kinds.
const (
	String Kind = iota
	Int
	Bool
)

// String returns the kind as it is written in messages and the reference.
func (k Kind) String() string { return [...]string{"text", "integer", "true/false"}[k] }

// Key is one setting: its names in the three layers, what it means and what
// it may be.
type Key struct {
	Path    string // in the file, e.g. http.readMs
	Env     string // e.g. SEATFLOW_HTTP_READ_MS
	Flag    string // without the dashes, e.g. http-read-ms
	Help    string
	Kind    Kind
	Default any   // string, int or bool
	Min     int64 // Int
	Max     int64
	OneOf   []string // String; empty: any

	index []int // of the field in Config
}

// Prefix begins every variable that the server reads.
const Prefix = "SEATFLOW_"

// Reserved lists the variables with the prefix that are no settings of the
// server, each with the reason why it may stand in the environment.
var Reserved = map[string]string{
	"SEATFLOW_CONFIG":           "path of the file, when no --config is given",
	"SEATFLOW_REQUIRE_BACKENDS": "tests fail instead of skipping when a program that they need is missing",
	"SEATFLOW_URL":              "the server that the browser tests use; set by the test that starts it",
	"SEATFLOW_ADMIN_TOKEN":      "the browser tests' token on it",
}

// ReservedPrefix begins variables of the tests, which the server ignores.
const ReservedPrefix = Prefix + "TEST_"

var (
	keys   = readKeys()
	byPath = index(func(k *Key) string { return k.Path })
	byEnv  = index(func(k *Key) string { return k.Env })
	byFlag = index(func(k *Key) string { return k.Flag })
)

// Keys lists every setting in the order of the struct.
func Keys() []Key { return append([]Key(nil), keys...) }

func readKeys() []Key {
	var list []Key
	def := reflect.ValueOf(Defaults())
	var walk func(t reflect.Type, at []int, prefix string)
	walk = func(t reflect.Type, at []int, prefix string) {
		for i := range t.NumField() {
			f := t.Field(i)
			path := prefix + f.Tag.Get("koanf")
			index := append(append([]int(nil), at...), i)
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type, index, path+".")
				continue
			}
			k := Key{Path: path, Help: f.Tag.Get("help"), index: index, Default: def.FieldByIndex(index).Interface()}
			switch f.Type.Kind() {
			case reflect.Int:
				k.Kind = Int
				k.Min, _ = strconv.ParseInt(f.Tag.Get("min"), 10, 64)
				k.Max, _ = strconv.ParseInt(f.Tag.Get("max"), 10, 64)
			case reflect.Bool:
				k.Kind = Bool
			}
			if s := f.Tag.Get("oneof"); s != "" {
				k.OneOf = strings.Split(s, ",")
			}
			words := words(path)
			k.Env = Prefix + strings.ToUpper(strings.Join(words, "_"))
			k.Flag = strings.Join(words, "-")
			list = append(list, k)
		}
	}
	walk(reflect.TypeOf(Config{}), nil, "")
	return list
}

// words splits http.readHeaderMs into http, read, header, ms.
func words(path string) []string {
	var b strings.Builder
	for _, r := range path {
		switch {
		case r == '.':
			b.WriteByte(' ')
		case unicode.IsUpper(r):
			b.WriteByte(' ')
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return strings.Fields(b.String())
}

func index(name func(*Key) string) map[string]*Key {
	m := make(map[string]*Key, len(keys))
	for i := range keys {
		m[name(&keys[i])] = &keys[i]
	}
	return m
}

// nearest returns the known name that takes the fewest edits to reach.
func nearest(name string, known map[string]*Key) string {
	best, least := "", 0
	for n := range known {
		d := distance(strings.ToLower(name), strings.ToLower(n))
		if best == "" || d < least || d == least && n < best {
			best, least = n, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
