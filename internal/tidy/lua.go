package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	luaFolder = "internal/redisseats/lua/"
	luaTable  = "internal/redisseats/scripts.go"
	luaMost   = 100 // lines of a script, about what one reads at once
)

// luaLimited are the scripts that a server at its memory limit must refuse:
// all others free or finish what is there already.
var luaLimited = []string{"hold", "rebuild"}

var (
	luaFirst   = regexp.MustCompile(`^#!lua( flags=allow-oom)?$`)
	luaAside   = regexp.MustCompile(`\([^)]*\)`)
	luaItem    = regexp.MustCompile(`(?:^|, )(\d+)(…)? `)
	luaUse     = regexp.MustCompile(`\b(KEYS|ARGV)\[(\d+)\]`)
	luaTail    = regexp.MustCompile(`\bfirst\b.*?\b(\d+)$`)
	luaInstant = regexp.MustCompile(`\b(lifetime|deadline|lease|span|cap)\b`)
)

// luaList is what a header says of KEYS or ARGV: so many, and perhaps more.
type luaList struct {
	count int
	more  bool
}

// CheckLua holds the scripts together with their headers, and the headers with
// the table from which they are called.
func CheckLua(t *Tree) []string {
	var faults []string
	table, libraries := luaCalls(t)
	for _, name := range t.Names(func(n string) bool { return strings.HasPrefix(n, luaFolder) && path.Ext(n) == ".lua" }) {
		fault := func(format string, args ...any) {
			faults = append(faults, name+": "+fmt.Sprintf(format, args...))
		}
		text := strings.TrimSuffix(t.Texts[name], "\n")
		lines := strings.Split(text, "\n")
		if len(lines) >= luaMost {
			fault("%d lines; a script has fewer than %d", len(lines), luaMost)
		}
		base := strings.TrimSuffix(path.Base(name), ".lua")
		if slices.Contains(libraries, base) {
			if !strings.HasPrefix(text, "-- ") {
				fault("a library begins with what it is for")
			}
			continue
		}
		call, called := table[base]
		if !called {
			fault("nothing calls it by the table in %s", luaTable)
			continue
		}
		delete(table, base)
		first := luaFirst.FindStringSubmatch(lines[0])
		if limited := slices.Contains(luaLimited, base); first == nil || (first[1] == "") != limited {
			fault("wants the first line #!lua, with flags=allow-oom unless it is one of %v", luaLimited)
		}
		keys, args := luaHeader(lines[1:], fault)
		if keys != call.keys {
			fault("the header has %+v keys, the table in %s %+v", keys, luaTable, call.keys)
		}
		if args != call.args {
			fault("the header has %+v arguments, the table in %s %+v", args, luaTable, call.args)
		}
		luaBody(lines, map[string]luaList{"KEYS": keys, "ARGV": args}, fault)
	}
	for base := range table {
		faults = append(faults, fmt.Sprintf("%s: there is no script %s", luaTable, base))
	}
	return faults
}

type luaCall struct{ keys, args luaList }

// luaCalls reads the table of scripts, and the libraries that it names.
func luaCalls(t *Tree) (map[string]luaCall, []string) {
	table := make(map[string]luaCall)
	var libraries []string
	for _, f := range t.Go {
		if f.Path != luaTable {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := make(map[string]string)
			for _, element := range literal.Elts {
				pair, ok := element.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				field, ok := pair.Key.(*ast.Ident)
				if !ok {
					continue
				}
				switch v := pair.Value.(type) {
				case *ast.BasicLit:
					fields[field.Name] = v.Value
					if v.Kind == token.STRING {
						fields[field.Name], _ = strconv.Unquote(v.Value)
					}
				case *ast.Ident:
					fields[field.Name] = v.Name
				}
			}
			if name := fields["name"]; name != "" {
				keys, _ := strconv.Atoi(fields["keys"])
				args, _ := strconv.Atoi(fields["args"])
				table[name] = luaCall{luaList{keys, fields["moreKeys"] == "true"}, luaList{args, fields["more"] == "true"}}
				libraries = append(libraries, strings.Fields(fields["with"])...)
			}
			return true
		})
	}
	return table, libraries
}

// luaHeader reads the comment that begins a script.
func luaHeader(lines []string, fault func(string, ...any)) (keys, args luaList) {
	sections, section := map[string]string{}, "purpose"
	for _, line := range lines {
		text, comment := strings.CutPrefix(line, "--")
		if !comment {
			break
		}
		if word, rest, _ := strings.Cut(strings.TrimSpace(text), " "); strings.HasPrefix(text, " ") && !strings.HasPrefix(text, "  ") &&
			slices.Contains([]string{"KEYS", "ARGV", "Reply", "Edges"}, word) {
			section, text = word, rest
		}
		sections[section] = strings.TrimSpace(sections[section] + " " + strings.TrimSpace(text))
	}
	for _, want := range []string{"purpose", "KEYS", "ARGV", "Reply", "Edges"} {
		if sections[want] == "" {
			fault("the header lacks its %s", want)
		}
	}
	return luaItems("KEYS", sections["KEYS"], fault), luaItems("ARGV", sections["ARGV"], fault)
}

// luaItems reads a numbered list such as "1 show, 2 lease (ms), 3… seat ids".
func luaItems(what, text string, fault func(string, ...any)) (list luaList) {
	if text == "none" {
		return list
	}
	// What stands in brackets has numbers of its own; it is blanked, not cut,
	// so that places stay what they are.
	plain := luaAside.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("_", len(s)) })
	found := luaItem.FindAllStringSubmatchIndex(plain, -1)
	for i, m := range found {
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		if n := plain[m[2]:m[3]]; n != strconv.Itoa(i+1) || list.more {
			fault("%s: number %s stands in place %d", what, n, i+1)
		}
		if list.more = m[4] >= 0; !list.more {
			list.count++
		}
		if item := text[m[0]:end]; what == "ARGV" && luaInstant.MatchString(item) && !strings.Contains(item, "(ms") {
			fault("%s: no unit in %q", what, item)
		}
	}
	if len(found) == 0 {
		fault("%s: a numbered list, or none", what)
	}
	return list
}

// luaBody wants every key and argument bound to a local, once and there only.
func luaBody(lines []string, lists map[string]luaList, fault func(string, ...any)) {
	bound := make(map[string]int)
	tail := ""
	for i, line := range lines {
		if strings.HasPrefix(line, "--") {
			continue
		}
		local := strings.HasPrefix(line, "local ")
		if m := luaTail.FindStringSubmatch(line); local && m != nil {
			tail = m[1]
		}
		for _, m := range luaUse.FindAllStringSubmatch(line, -1) {
			if !local {
				fault("line %d: %s is used without a name", i+1, m[0])
			}
			bound[m[0]]++
		}
	}
	for what, list := range lists {
		for n := 1; n <= list.count; n++ {
			name := fmt.Sprintf("%s[%d]", what, n)
			if bound[name] != 1 {
				fault("%s is bound %d times, not once", name, bound[name])
			}
			delete(bound, name)
		}
	}
	for name := range bound {
		fault("%s is not in the header", name)
	}
	if list := lists["ARGV"]; list.more && tail != strconv.Itoa(list.count+1) {
		fault("the first of the arguments that may follow is %d, the local first says %q", list.count+1, tail)
	}
}
