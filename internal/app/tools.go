package app

import (
	"context"

	"seatflow"
	"seatflow/internal/catalog"
	"seatflow/internal/ledger"
)

// OpenCatalog opens the halls, plans and shows of a data folder that no server
// has, for the tools. It lasts until the Data is closed. The error is
// *InUseError when another process has the folder.
func OpenCatalog(ctx context.Context, dir string) (*catalog.Service, *Data, error) {
	d, err := OpenData(ctx, dir, ledger.Options{Log: logNothing})
	if err != nil {
		return nil, nil, err
	}
	return catalog.New(d.Ledger, seatflow.WallClock{}, logNothing), d, nil
}
