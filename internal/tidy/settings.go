package tidy

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// onlyOneValue lists settings that validation holds to their one value until
// there is a second to choose.
var onlyOneValue = map[string]bool{"Seats": true, "Ledger": true}

// CheckSettings wants every setting of internal/config to be read somewhere
// outside it: a key that does nothing is worse than none.
func CheckSettings(t *Tree) []string {
	const pkg = "internal/config"
	structs := map[string]*ast.StructType{}
	var used strings.Builder
	for _, f := range t.Go {
		switch {
		case f.Test:
		case f.Package != pkg:
			used.WriteString(t.Texts[f.Path])
		default:
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if s, ok := spec.Type.(*ast.StructType); ok {
						structs[spec.Name.Name] = s
					}
				}
				return true
			})
		}
	}
	config := structs["Config"]
	if config == nil {
		return []string{pkg + ": no struct Config"}
	}
	var faults []string
	var walk func(s *ast.StructType, prefix string)
	walk = func(s *ast.StructType, prefix string) {
		for _, field := range s.Fields.List {
			for _, name := range field.Names {
				path := prefix + name.Name
				if typ, ok := field.Type.(*ast.Ident); ok && structs[typ.Name] != nil {
					walk(structs[typ.Name], path+".")
					continue
				}
				if onlyOneValue[path] {
					continue
				}
				if !regexp.MustCompile(`\bcfg\.` + path + `\b`).MatchString(used.String()) {
					faults = append(faults, fmt.Sprintf("%s: nothing reads the setting %s", t.at(name.Pos()), path))
				}
			}
		}
	}
	walk(config, "")
	return faults
}
