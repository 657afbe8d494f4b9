package app

import (
	"context"
	"errors"
	"log/slog"

	"seatflow"
	"seatflow/internal/catalog"
	"seatflow/internal/ledger"
	"seatflow/internal/redisseats"
)

// OpenFacts opens a data folder that no server has, for the tools. The error
// is *InUseError when another process has it.
func OpenFacts(ctx context.Context, dir string) (*Data, error) {
	return OpenData(ctx, dir, ledger.Options{Log: logNothing})
}

// OpenCatalog opens the halls, plans and shows of a data folder that no server
// has, for the tools. It lasts until the Data is closed. The error is
// *InUseError when another process has the folder.
func OpenCatalog(ctx context.Context, dir string) (*catalog.Service, *Data, error) {
	d, err := OpenFacts(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	return catalog.New(d.Ledger, seatflow.WallClock{}, logNothing), d, nil
}

// Deployment is the stores that several nodes share, opened by a tool.
type Deployment struct {
	Ledger  *ledger.Ledger
	Seats   seatflow.SeatStore // nil unless asked for
	Catalog *catalog.Service

	redis *redisseats.Store
}

// OpenDeployment opens the facts of a deployment, and its view when seatsURL is
// not empty.
func OpenDeployment(ctx context.Context, ledgerURL, seatsURL string) (*Deployment, error) {
	l, err := ledger.OpenMySQL(ctx, ledgerURL, ledger.Options{Log: logNothing, MaxConns: ledger.MinConns})
	if err != nil {
		return nil, err
	}
	d := &Deployment{Ledger: l, Catalog: catalog.New(l, seatflow.WallClock{}, logNothing)}
	if seatsURL != "" {
		if d.redis, err = redisseats.Open(ctx, redisseats.Options{URL: seatsURL, Log: logNothing}); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		d.Seats = d.redis
	}
	return d, nil
}

// Close closes what was opened.
func (d *Deployment) Close() error {
	if d.redis != nil {
		d.redis.Close()
	}
	return d.Ledger.Close()
}

// Migrate brings the schema of a deployment's facts to this binary's version,
// under a lock: any number of nodes may do so at once.
func Migrate(ctx context.Context, ledgerURL string, log *slog.Logger) error {
	return ledger.Migrate(ctx, ledgerURL, log)
}

// NewSecret lets the next node that starts on shared facts bring another
// secret than the nodes before it.
func NewSecret(ctx context.Context, ledgerURL string) (err error) {
	l, err := ledger.OpenMySQL(ctx, ledgerURL, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return l.Disagree(ctx, agreedSecret)
}
