package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"seatflow"
	"seatflow/internal/auth"
	"seatflow/internal/booking"
	"seatflow/internal/live"
	"seatflow/internal/notice"
	"seatflow/internal/payment"
	"seatflow/internal/telemetry"
)

// Booking is what the transport calls of the life of orders;
// *booking.Service is one.
type Booking interface {
	Create(ctx context.Context, req booking.CreateRequest) (booking.Created, error)
	Order(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error)
	Orders(ctx context.Context, actor seatflow.Actor, before seatflow.OrderNo, limit int) ([]seatflow.Order, error)
	History(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) ([]seatflow.OrderEvent, error)
	Cancel(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error)
	Extend(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error)
	Refund(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo, seats []seatflow.SeatID) (seatflow.Order, *seatflow.Refund, error)
	Block(ctx context.Context, actor seatflow.Actor, show seatflow.ShowID, seats []seatflow.SeatID, reason string) (seatflow.Order, error)
	Unblock(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo, seats []seatflow.SeatID) (seatflow.Order, error)
	Blocks(ctx context.Context, actor seatflow.Actor, show seatflow.ShowID) ([]seatflow.Order, error)
	Rebuild(ctx context.Context, show seatflow.ShowID) error
}

// Catalog is what the transport calls of halls, plans and shows;
// *catalog.Service is one. Houses and plans are immutable.
type Catalog interface {
	House(ctx context.Context, show seatflow.ShowID) (*seatflow.House, error)
	Shows(ctx context.Context, after seatflow.ShowID, endAfter time.Time, limit int) ([]*seatflow.House, error)
	CreateHall(ctx context.Context, hall seatflow.Hall) (seatflow.Hall, error)
	Halls(ctx context.Context, after seatflow.HallID, limit int) ([]seatflow.Hall, error)
	Hall(ctx context.Context, id seatflow.HallID) (seatflow.Hall, error)
	Plan(ctx context.Context, hall seatflow.HallID, version seatflow.PlanVersion) (*seatflow.Plan, error)
	CreateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error)
	UpdateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error)
}

// Plans reads and writes plan documents; see [SeatPlans].
type Plans interface {
	// Import reads a document, publishes it as the hall's next plan and
	// returns that. Faults are a *seatflow.Error with ReasonPlanFaults.
	Import(ctx context.Context, hall seatflow.HallID, document io.Reader, disambiguate string) (*seatflow.Plan, error)
	// Export returns a plan in the exchange format.
	Export(plan *seatflow.Plan) ([]byte, error)
}

// Payments is what the transport calls of money; *payment.Service is one.
type Payments interface {
	Start(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo, provider string) (seatflow.Checkout, seatflow.Order, error)
	Callback(ctx context.Context, provider string, header func(string) string, body []byte) (seatflow.PaymentOutcome, error)
	// Unknown lists captured payments without an order, by id, after one.
	Unknown(ctx context.Context, after int64, limit int) ([]seatflow.Payment, error)
}

// Sandbox is the card form of the sandbox provider; *payment.Sandbox is one.
type Sandbox interface {
	Pay(ctx context.Context, ref string, pay payment.SandboxPay) error
}

// Stream is a subscriber's queue of frames; *live.Subscription is one.
type Stream interface {
	Next(ctx context.Context) (live.Frame, error)
	Close()
}

// Live is the seat maps and their changes; see [Hub].
type Live interface {
	Map(ctx context.Context, show seatflow.ShowID) (*live.Map, error)
	Subscribe(ctx context.Context, show seatflow.ShowID, after string) (Stream, error)
	Since(ctx context.Context, show seatflow.ShowID, after string) (live.Since, error)
}

// Hub returns a live hub as the transport calls it.
func Hub(h *live.Hub) Live { return hub{h} }

type hub struct{ *live.Hub }

func (h hub) Subscribe(ctx context.Context, show seatflow.ShowID, after string) (Stream, error) {
	s, err := h.Hub.Subscribe(ctx, show, after)
	if err != nil {
		return nil, err // not a Stream that holds a nil pointer
	}
	return s, nil
}

// ReconcileFunc holds the view of a show (0: of every show) against the facts
// and repairs it, unless dryRun. Its report encodes as JSON.
type ReconcileFunc func(ctx context.Context, show seatflow.ShowID, dryRun bool) (any, error)

// VerifyFunc checks what must always hold of a show (0: of everything),
// against a log of acknowledgements that may be empty, and returns a report
// that encodes as JSON.
type VerifyFunc func(ctx context.Context, show seatflow.ShowID, acked io.Reader) (any, error)

// Options are what an [API] needs. Booking, Catalog, Live and Tokens are
// required; zero limits are replaced by defaults.
type Options struct {
	Booking  Booking
	Catalog  Catalog
	Plans    Plans       // nil: plan documents are off
	Notices  notice.Port // nil: nobody is told of their orders
	Payments Payments    // nil: payments are off
	Sandbox  Sandbox     // nil: off
	Live     Live
	Tokens   *auth.Tokens

	Log     *slog.Logger
	Metrics *telemetry.Metrics
	// Health runs the checks of /readyz: an error for each that fails.
	Health func(ctx context.Context) map[string]error
	Verify VerifyFunc // nil: off
	// Reconcile holds the views against the facts; nil: off.
	Reconcile ReconcileFunc
	Pages     http.Handler   // everything that is not the API's; nil: not found
	Clock     seatflow.Clock // for "on sale now"; nil: the wall clock
	// Context ends when the server begins to stop: open streams end then,
	// while other requests are finished. Nil: never.
	Context context.Context
	Version string // of the build, for the OpenAPI document
	HTTPS   bool   // the public URL is https: ask browsers to stay there

	Guests bool // mint tokens for whoever asks
	// GuestTTL is how long such a token lasts.
	GuestTTL time.Duration
	// GuestsPerMinute bounds minting per client address; 0 or less: no bound.
	GuestsPerMinute int

	BodyMaxBytes   int64 // of a usual request
	PlanMaxBytes   int64 // of a plan document
	VerifyMaxBytes int64 // of a log of acknowledgements
	// Timeout ends a usual request; plan imports and verification have
	// LongTimeout.
	Timeout     time.Duration
	LongTimeout time.Duration

	Heartbeat         time.Duration // between comments on a quiet stream
	StreamWrite       time.Duration // a peer that takes longer for one write is cut
	StreamsPerAddress int           // open streams per client address
	StreamsMost       int           // open streams altogether

	// Address names the client for limits per address; nil: the address that
	// the connection came from.
	Address func(r *http.Request) string
}

// The defaults, each with its reason.
const (
	DefaultGuestTTL          = 24 * time.Hour
	DefaultGuestsPerMinute   = 6000             // a school behind one address, or a load tool; still bounds a flood of names
	DefaultBodyMaxBytes      = 64 << 10         // an order of 50 seats is below 1 KB
	DefaultPlanMaxBytes      = 64 << 20         // a stadium of 200,000 seats
	DefaultVerifyMaxBytes    = 100 << 20        // about 400,000 acknowledgements
	DefaultTimeout           = 10 * time.Second // above the ledger's own deadline
	DefaultLongTimeout       = 5 * time.Minute
	DefaultHeartbeat         = 15 * time.Second // below the idle time-out of usual proxies
	DefaultStreamWrite       = 10 * time.Second
	DefaultStreamsPerAddress = 200
	DefaultStreamsMost       = 50_000
)

func (o *Options) fill() {
	setDefault := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	setLimit := func(n *int64, to int64) {
		if *n <= 0 {
			*n = to
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = seatflow.WallClock{}
	}
	if o.Context == nil {
		o.Context = context.Background()
	}
	if o.Address == nil {
		o.Address = remoteAddress
	}
	setDefault(&o.GuestTTL, DefaultGuestTTL)
	setLimit(&o.BodyMaxBytes, DefaultBodyMaxBytes)
	setLimit(&o.PlanMaxBytes, DefaultPlanMaxBytes)
	setLimit(&o.VerifyMaxBytes, DefaultVerifyMaxBytes)
	setDefault(&o.Timeout, DefaultTimeout)
	setDefault(&o.LongTimeout, DefaultLongTimeout)
	setDefault(&o.Heartbeat, DefaultHeartbeat)
	setDefault(&o.StreamWrite, DefaultStreamWrite)
	if o.StreamsPerAddress <= 0 {
		o.StreamsPerAddress = DefaultStreamsPerAddress
	}
	if o.StreamsMost <= 0 {
		o.StreamsMost = DefaultStreamsMost
	}
}

// remoteAddress is the client's IP address; of an IPv6 address the /64, since
// one household has all of it.
func remoteAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap(); ip.Is6() {
		if prefix, err := ip.WithZone("").Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return ip.String()
}
