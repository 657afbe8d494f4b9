package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"seatflow"
)

// specDocument is what the tests read of the OpenAPI document.
type specDocument struct {
	OpenAPI string `json:"openapi"`
	Info    struct{ Title, Version string }
	Tags    []struct{ Name string }
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Summary     string
		Tags        []string
		Security    []map[string][]string
		Parameters  []struct {
			Name, In string
			Required bool
		}
		RequestBody *struct{ Content map[string]any } `json:"requestBody"`
		Responses   map[string]struct {
			Description string
			Content     map[string]struct {
				Schema map[string]any
			}
		}
		Codes []int `json:"x-codes"`
	}
	Components struct {
		Schemas map[string]struct {
			Properties map[string]any
			Required   []string
		}
	}
	Codes []struct{ Code, Status int } `json:"x-codes"`
}

func readSpec(t *testing.T, s *server) (spec specDocument, raw []byte) {
	t.Helper()
	raw = s.do("GET /openapi.json", "").is(200).Body.Bytes()
	if err := json.Unmarshal(raw, &spec); err != nil {
		t.Fatal(err)
	}
	return spec, raw
}

// TestEveryRouteIsDocumented holds the mux and the document together, in both
// directions.
func TestEveryRouteIsDocumented(t *testing.T) {
	s := newServer(t)
	spec, _ := readSpec(t, s)
	if !strings.HasPrefix(spec.OpenAPI, "3.1") || spec.Info.Version != "v0-test" {
		t.Errorf("version %s of %+v", spec.OpenAPI, spec.Info)
	}
	documented := map[string]bool{}
	ids := map[string]bool{}
	for path, item := range spec.Paths {
		for method, op := range item {
			name := strings.ToUpper(method) + " " + path
			documented[name] = true
			// What is documented is what the mux answers.
			r := httptest.NewRequest(strings.ToUpper(method), strings.NewReplacer("{", "", "}", "").Replace(path), nil)
			if _, pattern := s.api.mux.Handler(r); pattern != name {
				t.Errorf("%s is documented, and answered by %q", name, pattern)
			}
			if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s: operation %q, summary %q, tags %v", name, op.OperationID, op.Summary, op.Tags)
			}
			ids[op.OperationID] = true
			var inPath []string
			for _, p := range op.Parameters {
				if p.In == "path" {
					inPath = append(inPath, p.Name)
				}
			}
			if strings.Count(path, "{") != len(inPath) {
				t.Errorf("%s: parameters %v", name, inPath)
			}
		}
	}
	// What the mux was given is documented, and the contract is all there.
	for _, rt := range s.api.routes {
		if !documented[rt.name()] {
			t.Errorf("%s is not documented", rt.name())
		}
	}
	if len(documented) != len(s.api.routes) {
		t.Errorf("%d operations for %d routes", len(documented), len(s.api.routes))
	}
	for _, want := range strings.Fields(`
		GET:/api/v1/shows GET:/api/v1/shows/{id} GET:/api/v1/shows/{id}/plan GET:/api/v1/shows/{id}/seats GET:/api/v1/shows/{id}/sync GET:/api/v1/shows/{id}/events
		POST:/api/v1/guests POST:/api/v1/orders GET:/api/v1/orders GET:/api/v1/me/events GET:/api/v1/orders/{no} GET:/api/v1/orders/{no}/history
		POST:/api/v1/orders/{no}/cancel POST:/api/v1/orders/{no}/extend POST:/api/v1/orders/{no}/payments
		POST:/api/v1/sandbox/payments/{ref} POST:/api/v1/payments/{provider}/callback
		POST:/api/v1/admin/halls GET:/api/v1/admin/halls POST:/api/v1/admin/halls/{id}/plans GET:/api/v1/admin/halls/{id}/plans/{version}
		POST:/api/v1/admin/shows PATCH:/api/v1/admin/shows/{id} POST:/api/v1/admin/shows/{id}/blocks GET:/api/v1/admin/shows/{id}/blocks
		POST:/api/v1/admin/blocks/{no}/release POST:/api/v1/admin/orders/{no}/refund GET:/api/v1/admin/payments/unknown
		POST:/api/v1/admin/shows/{id}/rebuild POST:/api/v1/admin/verify POST:/api/v1/admin/reconcile GET:/openapi.json GET:/docs GET:/livez GET:/readyz GET:/metrics`) {
		if name := strings.Replace(want, ":", " ", 1); !documented[name] {
			t.Errorf("%s is not there", name)
		}
	}
}

// TestEveryFailureIsDocumented: each operation lists what it may answer, and
// all failures are problem documents.
func TestEveryFailureIsDocumented(t *testing.T) {
	s := newServer(t)
	spec, _ := readSpec(t, s)
	seen := map[int]bool{}
	for path, item := range spec.Paths {
		for method, op := range item {
			name := method + " " + path
			for _, code := range op.Codes {
				seen[code] = true
				status := fmt.Sprint(seatflow.Code(code).Status())
				if !strings.Contains(op.Responses[status].Description, fmt.Sprint(code)) {
					t.Errorf("%s: code %d is not described under %s", name, code, status)
				}
			}
			for status, r := range op.Responses {
				if status >= "400" && r.Content[problemType].Schema["$ref"] != "#/components/schemas/Problem" {
					t.Errorf("%s: %s is not a problem document", name, status)
				}
			}
			if len(op.Security) > 0 && (!slices.Contains(op.Codes, 1001) || !slices.Contains(op.Codes, 1002)) {
				t.Errorf("%s: codes %v lack those of access", name, op.Codes)
			}
			if !slices.Contains(op.Codes, 2000) {
				t.Errorf("%s: codes %v lack 2000", name, op.Codes)
			}
			if op.RequestBody != nil && (op.Responses["413"].Description == "") {
				t.Errorf("%s takes a body and does not say what is too large", name)
			}
		}
	}
	// Everything that this server can answer; the others belong to
	// reservations.
	for _, code := range []int{1000, 1001, 1002, 1003, 1004, 1005, 1029, 2000, 2003, 3001, 3002, 3004, 3005, 3008, 3010} {
		if !seen[code] {
			t.Errorf("code %d is on no operation", code)
		}
	}
	if len(spec.Codes) != len(seatflow.Codes) {
		t.Errorf("%d codes in the table", len(spec.Codes))
	}
}

// TestReferencesResolve walks the whole document.
func TestReferencesResolve(t *testing.T) {
	s := newServer(t)
	spec, raw := readSpec(t, s)
	var whole any
	if err := json.Unmarshal(raw, &whole); err != nil {
		t.Fatal(err)
	}
	refs := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				refs++
				if _, ok := spec.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]; !ok {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(whole)
	if refs < 50 {
		t.Errorf("only %d references", refs)
	}
}

// TestSchemasAreTheTypes: member by member, the schema of a type says what
// its encoding says, also where that is written by hand.
func TestSchemasAreTheTypes(t *testing.T) {
	s := newServer(t)
	spec, _ := readSpec(t, s)
	for _, v := range []any{Order{}, OrderSeat{}, Problem{}, Show{}, Seat{}, SeatMap{}, CompactMap{}, Plan{}, PlanSeats{}, Guest{},
		CreateOrder{}, Checkout{}, Hall{}, SeatUpdate{}} {
		typ := reflect.TypeOf(v)
		schema, ok := spec.Components.Schemas[typ.Name()]
		if !ok {
			t.Errorf("%s has no schema", typ.Name())
			continue
		}
		for i := range typ.NumField() {
			name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if schema.Properties[name] == nil {
				t.Errorf("%s.%s is not in its schema", typ.Name(), name)
			}
			if required := slices.Contains(schema.Required, name); required == strings.Contains(options, "omit") {
				t.Errorf("%s.%s: required %v, tag %q", typ.Name(), name, required, options)
			}
		}
	}
	// Members that are always sent, against a real answer.
	var order map[string]any
	s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer").is(201).into(&order)
	for _, name := range spec.Components.Schemas["Order"].Required {
		if _, ok := order[name]; !ok {
			t.Errorf("an order lacks %s", name)
		}
	}
}

func TestDocsPage(t *testing.T) {
	s := newServer(t)
	page := s.do("GET /docs", "").is(200)
	script := s.do("GET /docs/docs.js", "").is(200)
	style := s.do("GET /docs/docs.css", "").is(200)
	for a, want := range map[*answer]string{page: "text/html", script: "text/javascript", style: "text/css"} {
		if got := a.Header().Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("content type %q, want %s", got, want)
		}
		// It works offline and under the policy: nothing from elsewhere,
		// nothing inline.
		body := a.Body.String()
		for _, bad := range []string{"http://", "https://", "//cdn", "<style", " style=", " onclick", "innerHTML", "eval("} {
			if strings.Contains(body, bad) {
				t.Errorf("%s contains %q", want, bad)
			}
		}
	}
	if strings.Contains(strings.ReplaceAll(page.Body.String(), "<script type=\"module\" src=\"/docs/docs.js\"></script>", ""), "<script") {
		t.Error("the page has an inline script")
	}
}
