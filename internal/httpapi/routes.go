package httpapi

import (
	"net/http"

	"seatflow"
	"seatflow/internal/auth"
	"seatflow/internal/live"
)

// doc is what the OpenAPI document says of a route beside what the route
// itself tells.
type doc struct {
	id       string // of the operation, for code generators
	tag      string
	summary  string
	text     string
	query    []param
	headers  []param
	body     any    // a value of the request's type; nil: none
	bodyType string // media type of a body that is not our JSON
	optional bool   // the body may be left out
	status   int    // of success; 0: 200
	answer   any    // a value of the answer's type; nil: see media
	media    string // media type of an answer that is not our JSON
	codes    []seatflow.Code
	also     map[int]string // other answers, by status
}

// param is a parameter in the query or in a header.
type param struct {
	name, text string
	integer    bool
	enum       []any
}

// The tags of the document.
const (
	tagShows  = "Shows"
	tagOrders = "Orders"
	tagMoney  = "Payments"
	tagHouse  = "House"
	tagOps    = "Operations"
)

var (
	pageParams = []param{
		{name: "cursor", text: "Where the page begins: `next` of the page before"},
		{name: "limit", text: "Most entries of the page, 1 to 100; 50 when absent", integer: true},
	}
	tagParam    = param{name: "If-None-Match", text: "The ETag that the caller has"}
	deviceParam = param{name: "X-Origin-Device", text: "The terminal that the caller uses", enum: []any{"web", "mobile", "kiosk"}}
	keyParam    = param{name: "Idempotency-Key", text: "1 to 64 printable characters; the same key and body give the first answer again. Blank counts as absent"}
	devices     = []param{deviceParam}
	unchanged   = map[int]string{http.StatusNotModified: "The caller has it already"}
)

// Short names for the lists of codes below.
const (
	cInvalid   = seatflow.CodeInvalid
	cNotFound  = seatflow.CodeNotFound
	cNotReady  = seatflow.CodeNotReady
	cNoShow    = seatflow.CodeNoShow
	cState     = seatflow.CodeWrongState
	cNoSeat    = seatflow.CodeNoSeat
	cRate      = seatflow.CodeRateLimited
	cTaken     = seatflow.CodeSeatsTaken
	cToken     = seatflow.CodeUnauthorized
	cReused    = seatflow.CodeKeyReused
	cInFlight  = seatflow.CodeInFlight
	cOverLimit = seatflow.CodeOverLimit
	cNotOnSale = seatflow.CodeNotOnSale
)

func codes(list ...seatflow.Code) []seatflow.Code { return list }

// list is every endpoint, in the order of the document.
func (a *API) list() []*route {
	const get, post, patch = http.MethodGet, http.MethodPost, http.MethodPatch
	usual, long, small := a.opt.Timeout, a.opt.LongTimeout, a.opt.BodyMaxBytes
	return []*route{
		{method: get, path: "/api/v1/shows", during: usual, handle: a.listShows,
			doc: doc{id: "listShows", tag: tagShows, summary: "List shows", text: "Shows that are not over, by start.",
				query: pageParams, answer: ShowList{}, codes: codes(cInvalid)}},
		{method: get, path: "/api/v1/shows/{id}", during: usual, handle: a.oneShow,
			doc: doc{id: "getShow", tag: tagShows, summary: "Read a show", answer: Show{}, codes: codes(cInvalid, cNoShow)}},
		{method: get, path: "/api/v1/shows/{id}/plan", during: usual, handle: a.plan,
			doc: doc{id: "getPlan", tag: tagShows, summary: "Read the geometry of a show's house",
				text:    "For drawing; changes only with the plan version and the prices. Compressed if accepted.",
				headers: []param{tagParam}, answer: Plan{}, codes: codes(cInvalid, cNoShow), also: unchanged}},
		{method: get, path: seatsPath, during: usual, handle: a.seats,
			doc: doc{id: "getSeats", tag: tagShows, summary: "Read the seat map",
				text:  "The compact form has one character a seat. A map is the same for everyone.",
				query: []param{{name: "form", text: "full when absent", enum: []any{"full", "compact"}}}, headers: []param{tagParam},
				answer: oneOf{SeatMap{}, CompactMap{}}, codes: codes(cInvalid, cNoShow, cNotReady), also: unchanged}},
		{method: get, path: "/api/v1/shows/{id}/sync", during: usual, handle: a.sync,
			doc: doc{id: "syncSeats", tag: tagShows, summary: "Catch up with the seat map",
				text:   "For a client that was away, or does not listen. Apply the updates, or replace what there is by the map.",
				query:  []param{{name: "since", text: "The last applied revision. Absent: the whole map"}},
				answer: Sync{}, codes: codes(cInvalid, cNoShow, cNotReady)}},
		{method: get, path: "/api/v1/shows/{id}/events", stream: true, handle: a.events,
			doc: doc{id: "watchSeats", tag: tagShows, summary: "Watch the seat map",
				text: "Server-sent events: first `snapshot`, the compact map, then `update`; ids are revisions. " +
					"A client that comes back names the last one and gets what changed since, or a snapshot. " +
					"A comment is sent when nothing moves. `end` says why the server ends a stream.",
				query:   []param{{name: "lastEventId", text: "Like Last-Event-ID, for clients that cannot set it"}},
				headers: []param{{name: "Last-Event-ID", text: "The revision to resume at"}},
				answer:  stream{live.EventSnapshot: CompactMap{}, live.EventUpdate: SeatUpdate{}, "end": StreamEnd{}},
				media:   "text/event-stream", codes: codes(cInvalid, cNoShow, cNotReady, cRate)}},

		{method: post, path: "/api/v1/guests", limit: small, during: usual, handle: a.guest,
			doc: doc{id: "mintGuest", tag: tagOrders, summary: "Get a guest's token", status: http.StatusCreated, answer: Guest{},
				codes: codes(cInvalid, cNotFound, cRate)}},
		{method: post, path: createPath, action: auth.ActionOrderCreate, limit: small, during: usual, handle: a.createOrder,
			doc: doc{id: "createOrder", tag: tagOrders, summary: "Hold seats",
				text: "All of the seats or none. The same key and request answer with the first order again, marked by " +
					"`Idempotency-Replayed: true`; a refusal is not remembered.",
				headers: []param{keyParam, deviceParam}, body: CreateOrder{}, status: http.StatusCreated, answer: Order{},
				codes: codes(cInvalid, cReused, cInFlight, cRate, cNotReady, cNoShow, cTaken, cOverLimit, cNotOnSale, cNoSeat)}},
		{method: get, path: createPath, action: auth.ActionOrderRead, during: usual, handle: a.listOrders,
			doc: doc{id: "listOrders", tag: tagOrders, summary: "List one's own orders", text: "Newest first.",
				query: pageParams, answer: OrderList{}, codes: codes(cInvalid)}},
		{method: get, path: "/api/v1/me/events", stream: true, action: auth.ActionOrderRead, handle: a.notices,
			doc: doc{id: "watchOrders", tag: tagOrders, summary: "Watch one's own orders",
				text: "Server-sent events: a `notice` when an order of one's own has changed, from whatever device, and a minute before a " +
					"hold ends. Nothing is kept for who is not there: list the orders once connected, and after `missed`. " +
					"`end` says why the server ends a stream, also when the token does.",
				answer: stream{"notice": Notice{}, "end": StreamEnd{}}, media: "text/event-stream", codes: codes(cNotFound, cRate)}},
		{method: get, path: "/api/v1/orders/{no}", action: auth.ActionOrderRead, during: usual, handle: onOrder(a.order),
			doc: doc{id: "getOrder", tag: tagOrders, summary: "Read an order", text: "One's own; staff read any.",
				answer: Order{}, codes: codes(cInvalid, cNotFound)}},
		{method: get, path: "/api/v1/orders/{no}/history", action: auth.ActionOrderRead, during: usual, handle: onOrder(a.history),
			doc: doc{id: "getHistory", tag: tagOrders, summary: "Read an order's history", text: "Oldest first.",
				answer: OrderHistory{}, codes: codes(cInvalid, cNotFound)}},
		{method: post, path: "/api/v1/orders/{no}/cancel", action: auth.ActionOrderChange, limit: small, during: usual, handle: onOrder(a.cancelOrder),
			doc: doc{id: "cancelOrder", tag: tagOrders, summary: "Cancel a pending order",
				text:    "Its seats are free at once. Cancelling again answers the same.",
				headers: devices, answer: Order{}, codes: codes(cInvalid, cNotFound, cState, cNotReady)}},
		{method: post, path: "/api/v1/orders/{no}/extend", action: auth.ActionOrderChange, limit: small, during: usual, handle: onOrder(a.extendOrder),
			doc: doc{id: "extendOrder", tag: tagOrders, summary: "Extend a hold", text: "Once in an order's life, and never past its cap.",
				headers: devices, answer: Order{}, codes: codes(cInvalid, cNotFound, cState, cNotReady)}},
		{method: post, path: "/api/v1/orders/{no}/payments", action: auth.ActionOrderPay, limit: small, during: usual, handle: onOrder(a.startPayment),
			doc: doc{id: "startPayment", tag: tagMoney, summary: "Begin to pay", text: "Extends the hold once.",
				headers: devices, body: StartPayment{}, optional: true, status: http.StatusCreated, answer: Checkout{},
				codes: codes(cInvalid, cNotFound, cState, cNotReady)}},
		{method: post, path: "/api/v1/sandbox/payments/{ref}", limit: small, during: usual, handle: a.sandboxPay,
			doc: doc{id: "paySandbox", tag: tagMoney, summary: "Fill in the sandbox's card form", body: SandboxPay{},
				text:   "The reference is the key, as on a provider's page. Signed callbacks follow.",
				status: http.StatusAccepted, answer: Accepted{}, codes: codes(cInvalid, cNotFound, cRate, cNotReady)}},
		{method: post, path: "/api/v1/payments/{provider}/callback", limit: callbackMaxBytes, during: usual, handle: a.callback,
			doc: doc{id: "paymentCallback", tag: tagMoney, summary: "Take a provider's callback",
				text: "Signed by the provider over the raw bytes; answered after the commit.", body: []byte(nil), bodyType: "*/*",
				answer: CallbackResult{}, codes: codes(cInvalid, cToken, cNotFound, cNotReady)}},

		{method: post, path: "/api/v1/admin/halls", action: auth.ActionHouseWrite, limit: small, during: usual, handle: a.createHall,
			doc: doc{id: "createHall", tag: tagHouse, summary: "Create a hall", body: CreateHall{}, status: http.StatusCreated,
				answer: Hall{}, codes: codes(cInvalid, cNotReady)}},
		{method: get, path: "/api/v1/admin/halls", action: auth.ActionHouseRead, during: usual, handle: a.listHalls,
			doc: doc{id: "listHalls", tag: tagHouse, summary: "List halls", query: pageParams, answer: HallList{}, codes: codes(cInvalid)}},
		{method: post, path: "/api/v1/admin/halls/{id}/plans", action: auth.ActionHouseWrite, limit: a.opt.PlanMaxBytes, during: long, handle: a.importPlan,
			doc: doc{id: "importPlan", tag: tagHouse, summary: "Publish a seat plan",
				text:  "A document of the pretix seating-plan format, refused with the whole list of its faults.",
				query: []param{{name: "disambiguate", text: "zone: keep apart guids that repeat across zones", enum: []any{"zone"}}},
				body:  map[string]any{}, status: http.StatusCreated, answer: PlanPublished{}, codes: codes(cInvalid, cNotFound, cState, cNotReady)}},
		{method: get, path: "/api/v1/admin/halls/{id}/plans/{version}", action: auth.ActionHouseRead, during: long, handle: a.exportPlan,
			doc: doc{id: "exportPlan", tag: tagHouse, summary: "Export a seat plan", answer: map[string]any{}, codes: codes(cInvalid, cNotFound)}},
		{method: post, path: "/api/v1/admin/shows", action: auth.ActionHouseWrite, limit: small, during: usual, handle: a.createShow,
			doc: doc{id: "createShow", tag: tagHouse, summary: "Create a show", body: CreateShow{}, status: http.StatusCreated,
				answer: Show{}, codes: codes(cInvalid, cNotFound, cNotReady)}},
		{method: patch, path: "/api/v1/admin/shows/{id}", action: auth.ActionHouseWrite, limit: small, during: usual, handle: a.updateShow,
			doc: doc{id: "updateShow", tag: tagHouse, summary: "Change a show", body: UpdateShow{}, answer: Show{},
				codes: codes(cInvalid, cNoShow, cState, cNotReady)}},
		{method: post, path: "/api/v1/admin/shows/{id}/blocks", action: auth.ActionSeatsBlock, limit: a.opt.PlanMaxBytes / 16, during: usual, handle: a.blockSeats,
			doc: doc{id: "blockSeats", tag: tagHouse, summary: "Block seats", headers: devices, body: BlockSeats{},
				status: http.StatusCreated, answer: Order{}, codes: codes(cInvalid, cNoShow, cTaken, cNoSeat, cNotReady)}},
		{method: get, path: "/api/v1/admin/shows/{id}/blocks", action: auth.ActionSeatsBlock, during: usual, handle: a.listBlocks,
			doc: doc{id: "listBlocks", tag: tagHouse, summary: "List a show's blocks", answer: BlockList{}, codes: codes(cInvalid, cNoShow)}},
		{method: post, path: "/api/v1/admin/blocks/{no}/release", action: auth.ActionSeatsBlock, limit: a.opt.PlanMaxBytes / 16, during: usual, handle: onOrder(a.releaseBlock),
			doc: doc{id: "releaseBlock", tag: tagHouse, summary: "Release a block, or some of its seats", headers: devices,
				body: SomeSeats{}, optional: true, answer: Order{}, codes: codes(cInvalid, cNotFound, cState, cNoSeat, cNotReady)}},
		{method: post, path: "/api/v1/admin/orders/{no}/refund", action: auth.ActionOrderRefund, limit: small, during: usual, handle: onOrder(a.refundOrder),
			doc: doc{id: "refundOrder", tag: tagHouse, summary: "Give back paid seats", headers: devices,
				body: SomeSeats{}, optional: true, answer: Refunded{}, codes: codes(cInvalid, cNotFound, cState, cNoSeat, cNotReady)}},
		{method: get, path: "/api/v1/admin/payments/unknown", action: auth.ActionPaymentsRead, during: usual, handle: a.unknownPayments,
			doc: doc{id: "listUnknownPayments", tag: tagHouse, summary: "List money without an order", query: pageParams,
				answer: UnknownPayments{}, codes: codes(cInvalid, cNotFound)}},
		{method: post, path: "/api/v1/admin/shows/{id}/rebuild", action: auth.ActionShowRebuild, limit: small, during: long, handle: a.rebuildShow,
			doc: doc{id: "rebuildShow", tag: tagHouse, summary: "Rebuild a show's seat map from the facts", answer: Rebuilt{},
				codes: codes(cInvalid, cNoShow, cNotReady)}},
		{method: post, path: "/api/v1/admin/verify", action: auth.ActionVerify, limit: a.opt.VerifyMaxBytes, during: long, handle: a.verify,
			doc: doc{id: "verify", tag: tagOps, summary: "Check what must always hold",
				text:  "The body is a log of acknowledgements as the load and demo tools write it, one JSON object a line; it may be empty.",
				query: []param{{name: "show", text: "Only this show", integer: true}}, body: []byte(nil), bodyType: "application/x-ndjson",
				optional: true, answer: map[string]any{}, codes: codes(cInvalid, cNotFound, cNoShow, cNotReady)}},
		{method: post, path: "/api/v1/admin/reconcile", action: auth.ActionReconcile, limit: small, during: long, handle: a.reconcile,
			doc: doc{id: "reconcile", tag: tagOps, summary: "Hold the seat maps against the facts and repair them",
				text:   "Answers when the round is over, with what was found and repaired. With dryRun nothing is changed.",
				query:  []param{{name: "show", text: "Only this show", integer: true}, {name: "dryRun", text: "true: report only"}},
				answer: map[string]any{}, codes: codes(cInvalid, cNoShow, cNotReady)}},

		{method: get, path: "/livez", during: usual, handle: a.alive,
			doc: doc{id: "livez", tag: tagOps, summary: "Is the process alive?", answer: Alive{}}},
		{method: get, path: "/readyz", during: usual, handle: a.ready,
			doc: doc{id: "readyz", tag: tagOps, summary: "Should requests come here?", answer: Ready{},
				also: map[int]string{http.StatusServiceUnavailable: "Not ready: the same document, with what is failing"}}},
		{method: get, path: "/metrics", during: usual, handle: func(c *call) error {
			if a.opt.Metrics == nil {
				return switchedOff()
			}
			return c.pass(a.opt.Metrics.Handler())
		},
			doc: doc{id: "metrics", tag: tagOps, summary: "Counters in Prometheus' text form", media: "text/plain", codes: codes(cNotFound)}},
		{method: get, path: "/openapi.json", during: usual, handle: a.specification,
			doc: doc{id: "openapi", tag: tagOps, summary: "This document", headers: []param{tagParam}, answer: map[string]any{}, also: unchanged}},
		{method: get, path: "/docs", during: usual, handle: asset("docs.html", "text/html; charset=utf-8"),
			doc: doc{id: "docs", tag: tagOps, summary: "This document as a page", media: "text/html"}},
		{method: get, path: "/docs/docs.js", during: usual, handle: asset("docs.js", "text/javascript; charset=utf-8"),
			doc: doc{id: "docsScript", tag: tagOps, summary: "The page's script", media: "text/javascript"}},
		{method: get, path: "/docs/docs.css", during: usual, handle: asset("docs.css", "text/css; charset=utf-8"),
			doc: doc{id: "docsStyle", tag: tagOps, summary: "The page's style", media: "text/css"}},
	}
}
