package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"seatflow"
	"seatflow/internal/auth"
	"seatflow/internal/wording"
)

// oneOf documents an answer that has one of several types.
type oneOf []any

// stream documents an answer that is a stream of events, by event name.
type stream map[string]any

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

// pathTexts says what the parameters in paths are.
var pathTexts = map[string]string{
	"id": "A number from 1", "no": "An order number", "version": "A plan version; 0 is the latest",
	"ref": "The payment's reference", "provider": "The payment provider's name",
}

// document makes the OpenAPI document of every route, from the routes and
// their types. Nothing in it is written twice.
func (a *API) document() ([]byte, error) {
	reg := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	api := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "SeatFlow", Version: a.opt.Version, Description: "Sells and reserves numbered seats. " +
			"Failures are problem documents (RFC 9457) whose `code` never changes its meaning; their words come in English " +
			"or Chinese by Accept-Language. JSON is read strictly: repeated and unknown members, trailing data and " +
			"oversized bodies are refused."},
		Paths: map[string]*huma.PathItem{},
		Components: &huma.Components{Schemas: reg, SecuritySchemes: map[string]*huma.SecurityScheme{
			"bearer": {Type: "http", Scheme: "bearer", BearerFormat: "JWT"},
		}},
		Extensions: map[string]any{"x-codes": codeTable()},
	}
	for _, tag := range []string{tagShows, tagOrders, tagMoney, tagHouse, tagOps} {
		api.Tags = append(api.Tags, &huma.Tag{Name: tag})
	}
	problem := huma.SchemaFromType(reg, reflect.TypeOf(Problem{}))
	reg.Schema(reflect.TypeOf(Problem{}), true, "")
	if problem == nil {
		return nil, fmt.Errorf("httpapi: no schema for problems")
	}
	for _, rt := range a.routes {
		item := api.Paths[rt.path]
		if item == nil {
			item = &huma.PathItem{}
			api.Paths[rt.path] = item
		}
		op := rt.operation(reg)
		switch rt.method {
		case http.MethodGet:
			item.Get = op
		case http.MethodPost:
			item.Post = op
		case http.MethodPatch:
			item.Patch = op
		default:
			return nil, fmt.Errorf("httpapi: %s has no place in the document", rt.name())
		}
	}
	body, err := json.Marshal(api)
	if err != nil {
		return nil, fmt.Errorf("httpapi: OpenAPI document: %w", err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, body, "", " "); err != nil {
		return nil, fmt.Errorf("httpapi: OpenAPI document: %w", err)
	}
	return pretty.Bytes(), nil
}

// operation documents one route.
func (rt *route) operation(reg huma.Registry) *huma.Operation {
	d := &rt.doc
	op := &huma.Operation{OperationID: d.id, Tags: []string{d.tag}, Summary: d.summary, Description: d.text,
		Responses: map[string]*huma.Response{}, Extensions: map[string]any{"x-action": rt.action.String()}}
	for _, m := range pathParam.FindAllStringSubmatch(rt.path, -1) {
		s := &huma.Schema{Type: huma.TypeString}
		if m[1] == "id" || m[1] == "version" {
			s = &huma.Schema{Type: huma.TypeInteger, Format: "int64"}
		}
		op.Parameters = append(op.Parameters, &huma.Param{Name: m[1], In: "path", Required: true, Description: pathTexts[m[1]], Schema: s})
	}
	for _, p := range d.query {
		op.Parameters = append(op.Parameters, p.document("query"))
	}
	for _, p := range d.headers {
		op.Parameters = append(op.Parameters, p.document("header"))
	}
	if d.body != nil {
		op.RequestBody = &huma.RequestBody{Required: !d.optional, Content: content(reg, d.body, d.bodyType),
			Description: "At most " + strconv.FormatInt(rt.limit, 10) + " bytes."}
	}
	if rt.action != auth.ActionPublic {
		op.Security = []map[string][]string{{"bearer": {}}}
		roles := auth.Roles(rt.action)
		names := make([]string, len(roles))
		for i, r := range roles {
			names[i] = string(r)
		}
		op.Extensions["x-roles"] = names
	}
	op.Responses[strconv.Itoa(rt.success())] = &huma.Response{Description: http.StatusText(rt.success()), Content: content(reg, d.answer, d.media)}
	for status, text := range d.also {
		r := &huma.Response{Description: text}
		if status >= 400 {
			r.Content = content(reg, d.answer, d.media)
		}
		op.Responses[strconv.Itoa(status)] = r
	}
	rt.failures(reg, op)
	return op
}

func (rt *route) success() int {
	if rt.doc.status != 0 {
		return rt.doc.status
	}
	return http.StatusOK
}

// failing lists every code that a route may answer with: its own, and those
// that follow from what it is.
func (rt *route) failing() []seatflow.Code {
	list := append(codes(seatflow.CodeSystem), rt.doc.codes...)
	if rt.action != auth.ActionPublic {
		list = append(list, seatflow.CodeUnauthorized, seatflow.CodeForbidden)
	}
	if rt.during > 0 {
		list = append(list, seatflow.CodeNotReady) // it ran out of time
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// failures documents them, by status.
func (rt *route) failures(reg huma.Registry, op *huma.Operation) {
	byStatus := map[int][]string{}
	all := []int{}
	for _, code := range rt.failing() {
		byStatus[code.Status()] = append(byStatus[code.Status()], fmt.Sprintf("%d: %s", code, wording.Titles[code][english]))
		all = append(all, int(code))
	}
	if rt.limit > 0 {
		byStatus[http.StatusRequestEntityTooLarge] = []string{fmt.Sprintf("%d: the body is too large", seatflow.CodeInvalid)}
		byStatus[http.StatusUnsupportedMediaType] = []string{fmt.Sprintf("%d: the body is of another type", seatflow.CodeInvalid)}
	}
	op.Extensions["x-codes"] = all
	for status, texts := range byStatus {
		key := strconv.Itoa(status)
		if op.Responses[key] != nil {
			op.Responses[key].Description += "; or " + strings.Join(texts, "; ")
			op.Responses[key].Content[problemType] = content(reg, Problem{}, problemType)[problemType]
			continue
		}
		op.Responses[key] = &huma.Response{Description: strings.Join(texts, "; "), Content: content(reg, Problem{}, problemType)}
	}
}

func (p *param) document(in string) *huma.Param {
	s := &huma.Schema{Type: huma.TypeString, Enum: p.enum}
	if p.integer {
		s.Type = huma.TypeInteger
	}
	return &huma.Param{Name: p.name, In: in, Description: p.text, Schema: s}
}

// content documents a body of a type.
func content(reg huma.Registry, value any, media string) map[string]*huma.MediaType {
	if media == "" {
		media = "application/json"
	}
	var s *huma.Schema
	switch v := value.(type) {
	case nil:
		s = &huma.Schema{Type: huma.TypeString}
	case []byte:
		s = &huma.Schema{Type: huma.TypeString, Format: "binary"}
	case oneOf:
		s = &huma.Schema{}
		for _, one := range v {
			s.OneOf = append(s.OneOf, schemaOf(reg, one))
		}
	case stream:
		s = &huma.Schema{Type: huma.TypeString, Extensions: map[string]any{}}
		events := map[string]any{}
		for name, one := range v {
			events[name] = schemaOf(reg, one)
		}
		s.Extensions["x-events"] = events
	default:
		s = schemaOf(reg, value)
	}
	return map[string]*huma.MediaType{media: {Schema: s}}
}

func schemaOf(reg huma.Registry, value any) *huma.Schema {
	return reg.Schema(reflect.TypeOf(value), true, "")
}

// codeTable lists the codes for the documentation page.
func codeTable() []map[string]any {
	table := make([]map[string]any, 0, len(seatflow.Codes))
	for _, c := range seatflow.Codes {
		table = append(table, map[string]any{"code": int(c), "status": c.Status(),
			"title": wording.Titles[c][english], "detail": wording.Details[c][english],
			"titleZh": wording.Titles[c][chinese], "detailZh": wording.Details[c][chinese]})
	}
	return table
}

func taggedEntity(body []byte) entity {
	sum := sha256.Sum256(body)
	return entity{etag: `"` + hex.EncodeToString(sum[:8]) + `"`, body: body}
}
