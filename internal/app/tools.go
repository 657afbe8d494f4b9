package app

import (
	"context"

	"seatflow"
	"seatflow/internal/catalog"
	"seatflow/internal/ledger"
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
