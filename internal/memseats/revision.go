package memseats

import (
	"context"

	"seatflow"
)

// Revision tells where a view stands, with the store's identity, without
// putting the house together; zero after the view's lifetime.
func (s *Store) Revision(ctx context.Context, ref seatflow.ShowRef) (identity string, rev seatflow.Revision, err error) {
	w, err := s.look(ctx, ref)
	if err != nil || w.ended {
		return s.identity, seatflow.Revision{}, err
	}
	if w.show == nil {
		return "", seatflow.Revision{}, seatflow.ErrNotReady
	}
	r := w.show.root.Load()
	if r == nil {
		return "", seatflow.Revision{}, seatflow.ErrNotReady
	}
	return s.identity, seatflow.Revision{Generation: r.generation, Number: r.revision}, nil
}
