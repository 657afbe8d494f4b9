package tidy

import (
	"strings"
	"testing"
)

func TestLuaRuleSeesWhatBreaksIt(t *testing.T) {
	const good = `#!lua flags=allow-oom
-- Frees a seat.
--
-- KEYS  1 seats, 2 meta
-- ARGV  1 show (32 letters, or -), 2 lease (ms; 0: none),
--       3… seat ids
-- Reply {done}
-- Edges 1→0
local seats, meta = KEYS[1], KEYS[2]
local show, lease, first = ARGV[1], tonumber(ARGV[2]), 3
return {'done', seats, meta, show, lease, ARGV[first]}
`
	const table = `package redisseats
var scripts = []script{{name: "free", keys: 2, args: 2, more: true, with: "common"}}
`
	const library = "-- What scripts share.\nlocal x = ARGV[1]\n"
	check := func(script, table, library string) []string {
		return CheckLua(tree(t, map[string]string{luaFolder + "free.lua": script, luaFolder + "common.lua": library, luaTable: table}))
	}
	if faults := check(good, table, library); len(faults) != 0 {
		t.Fatalf("a good script: %q", faults)
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"no flag", " flags=allow-oom", "", "first line"},
		{"no purpose", "-- Frees a seat.", "--", "lacks its purpose"},
		{"no reply", "-- Reply {done}\n", "", "lacks its Reply"},
		{"no edges", "-- Edges 1→0\n", "", "lacks its Edges"},
		{"a key too many in the header", "2 meta\n", "2 meta, 3 users\n", "keys, the table"},
		{"a key out of place", "1 seats, 2 meta", "1 seats, 3 meta", "stands in place"},
		{"an argument too few in the header", ", 2 lease (ms; 0: none),\n--       3… seat ids", ", 2… seat ids", "arguments, the table"},
		{"no more in the header", "3… seat", "3 seat", "arguments, the table"},
		{"no unit", "(ms; 0: none)", "(0: none)", "no unit"},
		{"no list", "1 seats, 2 meta\n", "seats and meta\n", "a numbered list"},
		{"a key without a name", "{'done', seats,", "{'done', KEYS[1],", "used without a name"},
		{"an argument bound twice", "tonumber(ARGV[2])", "tonumber(ARGV[1])", "bound 2 times"},
		{"an argument not bound", "tonumber(ARGV[2])", "5", "bound 0 times"},
		{"one that the header does not know", "= ARGV[1],", "= ARGV[1] or ARGV[7],", "not in the header"},
		{"the wrong tail", ", 3\n", ", 4\n", "may follow"},
		{"too long", "return", strings.Repeat("-- more\n", 100) + "return", "lines; a script"},
	} {
		broken := strings.Replace(good, c.from, c.to, 1)
		if broken == good {
			t.Errorf("%s: nothing was broken", c.name)
		}
		if faults := strings.Join(check(broken, table, library), "\n"); !strings.Contains(faults, c.want) {
			t.Errorf("%s: %q, want %q", c.name, faults, c.want)
		}
	}
	for _, c := range []struct{ name, table, library, want string }{
		{"not called", strings.Replace(table, `"free"`, `"other"`, 1), library, "nothing calls it"},
		{"called and not there", strings.Replace(table, `{{`, `{{name: "gone"}, {`, 1), library, "no script gone"},
		{"another count in the table", strings.Replace(table, "keys: 2", "keys: 3", 1), library, "keys, the table"},
		{"a library without a purpose", table, "local x = 1\n", "what it is for"},
	} {
		if faults := strings.Join(check(good, c.table, c.library), "\n"); !strings.Contains(faults, c.want) {
			t.Errorf("%s: %q, want %q", c.name, faults, c.want)
		}
	}
}
