package reconcile

import "time"

// SetPause sets how long a look waits before a view is believed to be beyond
// mending.
func (r *Reconciler) SetPause(d time.Duration) { r.pause = d }
