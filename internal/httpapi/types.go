package httpapi

import "time"

// The types of this file are what callers send and get. The OpenAPI document
// is made from them; the hot ones are written by encode.go, and a test holds
// both together.

// Money is an amount in minor units.
type Money struct {
	Amount   int64  `json:"amount" doc:"Minor units, such as cents" example:"2500"`
	Currency string `json:"currency" doc:"ISO 4217" example:"EUR"`
}

// OrderSeat is a seat of an order, with what people call it.
type OrderSeat struct {
	SeatID   int64  `json:"seatId"`
	Price    int64  `json:"price" doc:"Minor units"`
	Refunded bool   `json:"refunded,omitzero" doc:"Given back; no longer the order's"`
	Zone     string `json:"zone" example:"Balcony"`
	Row      string `json:"row" example:"17"`
	Number   string `json:"number" example:"4"`
	Category string `json:"category" example:"A"`
}

// Order is a request for seats and what became of it.
type Order struct {
	No        string      `json:"no" doc:"Order number, a ULID" example:"01JNZ8Q3W2M4T6V8X0Y2A4C6E8"`
	ShowID    int64       `json:"showId"`
	UserID    string      `json:"userId"`
	Kind      string      `json:"kind,omitzero" enum:"block" doc:"Only of an organiser's block"`
	State     string      `json:"state" enum:"pending,paid,cancelled,expired,refunded,void,blocked"`
	Seats     []OrderSeat `json:"seats"`
	Total     Money       `json:"total"`
	Deadline  *time.Time  `json:"deadline,omitzero" doc:"When the hold ends unless it is paid"`
	Cap       *time.Time  `json:"cap,omitzero" doc:"No extension goes past this"`
	Extended  bool        `json:"extended" doc:"The one extension was used"`
	Reason    string      `json:"reason,omitzero" doc:"Of a block"`
	Version   int64       `json:"version" doc:"Grows with every transition"`
	CreatedAt time.Time   `json:"createdAt"`
	UpdatedAt time.Time   `json:"updatedAt"`
}

// OrderList is a page of orders, newest first.
type OrderList struct {
	Orders []Order `json:"orders"`
	Next   string  `json:"next,omitzero" doc:"Cursor of the next page; absent on the last"`
}

// OrderEvent is one entry of an order's history.
type OrderEvent struct {
	Type    string    `json:"type" example:"order.created"`
	Version int64     `json:"version" doc:"Of the order after it"`
	From    string    `json:"from,omitzero" doc:"State before"`
	To      string    `json:"to,omitzero" doc:"State after"`
	Seats   []int64   `json:"seats" doc:"Concerned"`
	By      string    `json:"by" doc:"Who did it"`
	Role    string    `json:"role"`
	Device  string    `json:"device" enum:"web,mobile,kiosk,system"`
	TraceID string    `json:"traceId,omitzero"`
	At      time.Time `json:"at"`
}

// OrderHistory tells an order's story, oldest first.
type OrderHistory struct {
	No     string       `json:"no"`
	Events []OrderEvent `json:"events"`
}

// StartPayment begins a payment.
type StartPayment struct {
	Provider string `json:"provider,omitzero" doc:"Absent: the default one" example:"sandbox"`
}

// Checkout tells the buyer where to pay.
type Checkout struct {
	Provider string `json:"provider"`
	Ref      string `json:"ref" doc:"The provider's name for this payment"`
	URL      string `json:"url" doc:"Where to pay; a path on this server for the sandbox"`
	Order    Order  `json:"order"`
}

// SandboxPay is what the sandbox's card form says.
type SandboxPay struct {
	Outcome string `json:"outcome" enum:"succeed,decline"`
	DelayMs int64  `json:"delayMs,omitzero" minimum:"0" maximum:"3600000" doc:"How late the callback comes"`
	Copies  int    `json:"copies,omitzero" minimum:"0" maximum:"10" doc:"How often it is delivered; 0: once"`
	Amount  *Money `json:"amount,omitzero" doc:"Captured instead of the total, to rehearse a wrong amount"`
}

// Accepted says that something will happen later.
type Accepted struct {
	Accepted bool `json:"accepted"`
}

// CallbackResult is the answer to a provider, after the commit.
type CallbackResult struct {
	Ending string `json:"ending" enum:"paid,reseated,refund,unknown,none"`
	Repeat bool   `json:"repeat,omitzero" doc:"The event was known already"`
}

// Guest is a token for somebody without an account.
type Guest struct {
	Token     string    `json:"token" doc:"Bearer token"`
	UserID    string    `json:"userId"`
	Role      string    `json:"role" enum:"buyer"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Counts tells how many seats are in each state. They add up to the seats
// that the show has.
type Counts struct {
	Available int `json:"available"`
	Held      int `json:"held"`
	Sold      int `json:"sold"`
	Blocked   int `json:"blocked"`
}

// HallRef names a hall within a show.
type HallRef struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Zone string `json:"zone" doc:"IANA time zone of its civil times" example:"Europe/Berlin"`
}

// Show is a screening or an event.
type Show struct {
	ID             int64            `json:"id"`
	Title          string           `json:"title"`
	Hall           HallRef          `json:"hall"`
	PlanVersion    int              `json:"planVersion"`
	Starts         time.Time        `json:"starts"`
	Ends           time.Time        `json:"ends"`
	SaleFrom       time.Time        `json:"saleFrom"`
	SaleUntil      time.Time        `json:"saleUntil" doc:"Half-open: no new order at or after it"`
	Currency       string           `json:"currency" example:"EUR"`
	Prices         map[string]int64 `json:"prices" doc:"Minor units by category; a category without one is not for sale"`
	LimitPerUser   int              `json:"limitPerUser" doc:"Seats in effect per user; 0: none"`
	HoldSeconds    int64            `json:"holdSeconds"`
	HoldCapSeconds int64            `json:"holdCapSeconds" doc:"From the first hold, extensions included"`
	ExtendSeconds  int64            `json:"extendSeconds" doc:"The one extension, when payment starts"`
	Status         string           `json:"status" enum:"published,cancelled"`
	OnSale         bool             `json:"onSale" doc:"May be ordered now"`
	Version        int64            `json:"version" doc:"Grows with every change of the show"`
	Partition      int              `json:"partition" doc:"The shard that its seats live in, 0 to 63"`
	Counts         *Counts          `json:"counts,omitzero" doc:"Absent while the seat map cannot be read"`
}

// ShowList is a page of shows by start.
type ShowList struct {
	Shows []Show `json:"shows"`
	Next  string `json:"next,omitzero" doc:"Cursor of the next page; absent on the last"`
}

// CreateShow is a new show.
type CreateShow struct {
	HallID         int64            `json:"hallId" minimum:"1"`
	PlanVersion    int32            `json:"planVersion,omitzero" doc:"Absent: the hall's latest"`
	Title          string           `json:"title"`
	Starts         time.Time        `json:"starts"`
	Ends           time.Time        `json:"ends"`
	SaleFrom       *time.Time       `json:"saleFrom,omitzero" doc:"Absent: now"`
	SaleUntil      *time.Time       `json:"saleUntil,omitzero" doc:"Absent: the start"`
	Currency       string           `json:"currency"`
	Prices         map[string]int64 `json:"prices"`
	LimitPerUser   *int             `json:"limitPerUser,omitzero" minimum:"0" doc:"Absent: the default of the server; 0: none"`
	HoldSeconds    int64            `json:"holdSeconds,omitzero" doc:"Absent or 0: 900"`
	HoldCapSeconds int64            `json:"holdCapSeconds,omitzero" doc:"Absent or 0: 1800"`
	ExtendSeconds  *int64           `json:"extendSeconds,omitzero" doc:"Absent: the default of the server; 0: none"`
}

// UpdateShow is what may change of a show; absent members stay.
type UpdateShow struct {
	Version        *int64            `json:"version,omitzero" doc:"The version that was read; absent: the present one"`
	Title          *string           `json:"title,omitzero"`
	Starts         *time.Time        `json:"starts,omitzero"`
	Ends           *time.Time        `json:"ends,omitzero"`
	SaleFrom       *time.Time        `json:"saleFrom,omitzero"`
	SaleUntil      *time.Time        `json:"saleUntil,omitzero"`
	Prices         *map[string]int64 `json:"prices,omitzero" doc:"Replaces all of them"`
	LimitPerUser   *int              `json:"limitPerUser,omitzero" minimum:"0"`
	HoldSeconds    *int64            `json:"holdSeconds,omitzero"`
	HoldCapSeconds *int64            `json:"holdCapSeconds,omitzero"`
	ExtendSeconds  *int64            `json:"extendSeconds,omitzero"`
	Status         *string           `json:"status,omitzero" enum:"published,cancelled"`
	Partition      *int              `json:"partition,omitzero" minimum:"0" maximum:"63" doc:"Moves the show to another shard, such as one of its own; until shortly before its sale, and not while an order is pending"`
}

// Seat is a seat of a show and its state.
type Seat struct {
	SeatID   int64  `json:"seatId"`
	Status   string `json:"status" enum:"available,held,sold,blocked"`
	Zone     string `json:"zone"`
	Row      string `json:"row"`
	Number   string `json:"number"`
	Category string `json:"category"`
	Price    int64  `json:"price" doc:"Minor units"`
}

// SeatMap is a show's seats at one revision.
type SeatMap struct {
	ShowID   int64  `json:"showId"`
	Revision string `json:"revision" doc:"Opaque" example:"3.17"`
	Counts   Counts `json:"counts"`
	Seats    []Seat `json:"seats" doc:"Only with form=full, the default"`
}

// CompactMap is a show's seats at one revision, one character each.
type CompactMap struct {
	ShowID   int64  `json:"showId"`
	Revision string `json:"revision" doc:"Opaque" example:"3.17"`
	Counts   Counts `json:"counts"`
	States   string `json:"states" doc:"One character a seat id from 1: 0 available, 1 held, 2 sold, x blocked, - no such seat" example:"0012x-"`
}

// PlanCategory is a price group as a show sells it.
type PlanCategory struct {
	Name  string `json:"name"`
	Color string `json:"color" example:"#7f4a91"`
	Price *int64 `json:"price" nullable:"true" doc:"Minor units; null: not for sale in this show"`
}

// PlanArea is decoration or a standing area.
type PlanArea struct {
	Shape       string       `json:"shape" enum:"rectangle,circle,ellipse,polygon,text"`
	X           float64      `json:"x"`
	Y           float64      `json:"y"`
	Rotation    float64      `json:"rotation,omitzero" doc:"Degrees"`
	Color       string       `json:"color,omitzero"`
	BorderColor string       `json:"borderColor,omitzero"`
	Width       float64      `json:"width,omitzero"`
	Height      float64      `json:"height,omitzero"`
	RadiusX     float64      `json:"radiusX,omitzero"`
	RadiusY     float64      `json:"radiusY,omitzero"`
	Points      [][2]float64 `json:"points,omitempty" doc:"Of a polygon, relative to x and y"`
	Text        string       `json:"text,omitzero"`
	TextX       float64      `json:"textX,omitzero" doc:"Relative to x"`
	TextY       float64      `json:"textY,omitzero"`
	TextSize    float64      `json:"textSize,omitzero"`
	TextColor   string       `json:"textColor,omitzero"`
}

// PlanZone is a named part of a plan.
type PlanZone struct {
	Name  string     `json:"name"`
	Areas []PlanArea `json:"areas"`
}

// PlanSeats is the chairs of a plan by column: the n-th entries of the lists
// are one chair.
type PlanSeats struct {
	ID       []int64   `json:"id"`
	X        []float64 `json:"x"`
	Y        []float64 `json:"y"`
	Zone     []int     `json:"zone" doc:"Index into zones"`
	Category []int     `json:"category" doc:"Index into categories"`
	Row      []string  `json:"row"`
	Number   []string  `json:"number"`
	Radius   []float64 `json:"radius,omitempty" doc:"Absent when no chair has one; 0: the page's default"`
}

// Plan is the geometry of a show's house, for drawing.
type Plan struct {
	HallID     int64          `json:"hallId"`
	Version    int            `json:"version"`
	Name       string         `json:"name"`
	Width      float64        `json:"width"`
	Height     float64        `json:"height"`
	Categories []PlanCategory `json:"categories"`
	Zones      []PlanZone     `json:"zones"`
	Seats      PlanSeats      `json:"seats"`
}

// CreateHall is a new hall.
type CreateHall struct {
	Name string `json:"name"`
	Zone string `json:"zone" doc:"IANA time zone" example:"Europe/Berlin"`
}

// Hall is a hall or room with numbered seats.
type Hall struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	Zone      string    `json:"zone"`
	CreatedAt time.Time `json:"createdAt"`
}

// HallList is a page of halls by id.
type HallList struct {
	Halls []Hall `json:"halls"`
	Next  string `json:"next,omitzero"`
}

// PlanPublished is the answer to an import.
type PlanPublished struct {
	HallID  int64 `json:"hallId"`
	Version int   `json:"version"`
	Seats   int   `json:"seats"`
}

// BlockSeats takes seats out of sale.
type BlockSeats struct {
	Seats  []int32 `json:"seats" minItems:"1"`
	Reason string  `json:"reason,omitzero" maxLength:"200"`
}

// BlockList is a show's blocks that have seats.
type BlockList struct {
	Blocks []Order `json:"blocks"`
}

// SomeSeats lists seats of an order or block; absent: all.
type SomeSeats struct {
	Seats []int32 `json:"seats,omitzero" doc:"Absent: all that are left"`
}

// Refund is money that goes back.
type Refund struct {
	ID     string `json:"id"`
	Amount Money  `json:"amount"`
	Reason string `json:"reason" enum:"second_capture,wrong_amount,wrong_currency,order_ended,staff"`
}

// Refunded is the answer to a refund.
type Refunded struct {
	Order  Order   `json:"order"`
	Refund *Refund `json:"refund,omitzero" doc:"Absent when nothing remained to give back"`
}

// UnknownPayment is captured money without an order.
type UnknownPayment struct {
	ID        int64     `json:"id"`
	Provider  string    `json:"provider"`
	EventID   string    `json:"eventId"`
	CaptureID string    `json:"captureId"`
	OrderNo   string    `json:"orderNo" doc:"As the provider gave it"`
	Amount    Money     `json:"amount"`
	At        time.Time `json:"at"`
}

// UnknownPayments is a page of them, oldest first.
type UnknownPayments struct {
	Payments []UnknownPayment `json:"payments"`
	Next     string           `json:"next,omitzero"`
}

// Rebuilt says that a view was rebuilt from the facts.
type Rebuilt struct {
	ShowID int64  `json:"showId"`
	Counts Counts `json:"counts"`
}

// Alive is the answer of /livez.
type Alive struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version"`
}

// Ready is the answer of /readyz.
type Ready struct {
	Status string            `json:"status" enum:"ok,unavailable"`
	Checks map[string]string `json:"checks" doc:"ok, degraded (requests are served all the same) or failing, by check"`
}

// SeatChange is one seat's new state.
type SeatChange struct {
	SeatID int64  `json:"seatId"`
	Status string `json:"status" enum:"available,held,sold,blocked"`
	Delta  int    `json:"delta" doc:"Change in occupied places"`
}

// SeatUpdate leads a map on to a later revision.
type SeatUpdate struct {
	Type      string       `json:"type" enum:"seat.update"`
	Version   string       `json:"version" example:"1.2"`
	Timestamp time.Time    `json:"timestamp" doc:"Informative only"`
	ShowID    int64        `json:"showId"`
	HallID    int64        `json:"hallId"`
	Revision  string       `json:"revision" doc:"Of the map after it"`
	Lamport   int64        `json:"lamport"`
	Node      string       `json:"node"`
	Updates   []SeatChange `json:"updates"`
}

// Sync is what came since a revision, or the whole map.
type Sync struct {
	ShowID              int64        `json:"showId"`
	LastAppliedRevision string       `json:"lastAppliedRevision" doc:"Where the client stands afterwards" example:"3.17"`
	Updates             []SeatChange `json:"updates" doc:"Each seat once, deltas summed; empty when nothing moved or there is a map"`
	Map                 *CompactMap  `json:"map,omitzero" doc:"Replaces what the client has: its revision is too long ago, or there was none"`
}

// Notice is a hint to one user that something of theirs has changed.
type Notice struct {
	Type     string     `json:"type" enum:"order.changed,hold.ending,missed"`
	ID       string     `json:"id,omitzero" doc:"Of what it tells; a repeat has the same" example:"01JNZ8Q3W2M4T6V8X0Y2A4C6E8.2"`
	ShowID   int64      `json:"showId,omitzero"`
	OrderNo  string     `json:"orderNo,omitzero"`
	Version  int64      `json:"version,omitzero" doc:"Of the order"`
	Event    string     `json:"event,omitzero" doc:"What happened to the order" example:"order.paid"`
	State    string     `json:"state,omitzero" doc:"The order's, after it"`
	Seats    []int64    `json:"seats,omitzero" doc:"Concerned"`
	Deadline *time.Time `json:"deadline,omitzero" doc:"When the hold ends"`
	Device   string     `json:"device,omitzero" doc:"From which it was changed"`
	TraceID  string     `json:"traceId,omitzero"`
	At       time.Time  `json:"at"`
}

// StreamEnd says why the server ends a stream. A client may resume.
type StreamEnd struct {
	Reason string `json:"reason" enum:"slow,shutdown,token"`
}
