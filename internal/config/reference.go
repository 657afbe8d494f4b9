package config

import (
	"fmt"
	"strings"
)

// Reference renders the table of every setting in Markdown, as it stands in
// the documentation.
func Reference() string {
	var b strings.Builder
	b.WriteString("| key | variable | flag | default | values | meaning |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, k := range keys {
		values := k.Kind.String()
		switch {
		case len(k.OneOf) > 0:
			values = strings.Join(k.OneOf, ", ")
		case k.Kind == Int:
			values = fmt.Sprintf("%d to %d", k.Min, k.Max)
		}
		def := fmt.Sprintf("`%v`", k.Default)
		if k.Default == "" {
			def = "empty"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | `--%s` | %s | %s | %s |\n", k.Path, k.Env, k.Flag, def, values, k.Help)
	}
	return b.String()
}
