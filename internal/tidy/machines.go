package tidy

import (
	"fmt"
	"slices"
	"strings"

	"seatflow"
)

// OrderStates lists the states of an order in the order of the document.
var OrderStates = []seatflow.OrderState{
	seatflow.OrderPending, seatflow.OrderPaid, seatflow.OrderCancelled, seatflow.OrderExpired,
	seatflow.OrderRefunded, seatflow.OrderVoid, seatflow.OrderBlocked,
}

// SeatTable renders the seat state machine as the table that stands in
// docs/state-machine.md.
func SeatTable(edges []seatflow.Edge) string {
	var b strings.Builder
	b.WriteString("| operation | from | to | who |\n| --- | --- | --- | --- |\n")
	for _, e := range edges {
		who := "anyone"
		if e.OwnerOnly {
			who = "the owner"
		}
		fmt.Fprintf(&b, "| %s | `%c` %s | `%c` %s | %s |\n", e.Verb, e.From, e.From, e.To, e.To, who)
	}
	return b.String()
}

// OrderTable renders the order state machine likewise.
func OrderTable(can func(from, to seatflow.OrderState) bool) string {
	var b strings.Builder
	b.WriteString("| from | to |\n| --- | --- |\n")
	for _, from := range OrderStates {
		for _, to := range OrderStates {
			if can(from, to) {
				fmt.Fprintf(&b, "| %s | %s |\n", from, to)
			}
		}
	}
	return b.String()
}

// DiagramEdges lists the edges of a document's n-th mermaid diagram, without
// those that begin or end a life, as "from --> to".
func DiagramEdges(doc string, n int) []string {
	var edges []string
	parts := strings.Split(doc, "```mermaid\n")
	if n+1 >= len(parts) {
		return nil
	}
	diagram, _, _ := strings.Cut(parts[n+1], "```")
	for line := range strings.SplitSeq(diagram, "\n") {
		edge, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		if strings.Contains(edge, " --> ") && !strings.Contains(edge, "[*]") {
			edges = append(edges, edge)
		}
	}
	slices.Sort(edges)
	return edges
}

// SeatEdges lists the edges of the seat state machine likewise, once for each
// pair of states; repeats that change nothing are left out.
func SeatEdges(all []seatflow.Edge) []string {
	var edges []string
	for _, e := range all {
		if e.From != e.To || e.Verb == seatflow.VerbExtend {
			edges = append(edges, e.From.String()+" --> "+e.To.String())
		}
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

// OrderEdges lists those of the order state machine.
func OrderEdges(can func(from, to seatflow.OrderState) bool) []string {
	var edges []string
	for _, from := range OrderStates {
		for _, to := range OrderStates {
			if can(from, to) {
				edges = append(edges, string(from)+" --> "+string(to))
			}
		}
	}
	slices.Sort(edges)
	return edges
}

// CheckMachine wants a document to contain a table word for word, and no
// further row in it.
func CheckMachine(doc, table string) []string {
	at := strings.Index(doc, table)
	if at < 0 {
		return []string{"the document lacks this table:\n" + table}
	}
	if rest := doc[at+len(table):]; strings.HasPrefix(rest, "|") {
		row, _, _ := strings.Cut(rest, "\n")
		return []string{"the document has a row that the code does not know: " + row}
	}
	return nil
}
