// Package reconcile makes the view agree with the facts again.
package reconcile
