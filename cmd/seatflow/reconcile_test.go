package main

import "testing"

func TestReconcile(t *testing.T) {
	data, stop := running(t)
	command(t, "", "load", "--data", data, "--rate", "100", "--duration", "200ms", "--warmup", "0s", "--connections", "2").want(t, 0, "Everything that was checked holds", "")
	command(t, "", "reconcile", "--data", data, "--dry-run").want(t, 0, "nothing was changed", "")
	command(t, "", "reconcile", "--data", data, "--show", "1").want(t, 0, "5 sold_orphans_released", "")
	command(t, "", "reconcile", "--data", data, "--output", "json").want(t, 0, `"check": "derived_fixed"`, "")
	command(t, "", "reconcile", "--data", data, "--show", "99").want(t, 1, "", "3001")
	command(t, "", "reconcile", "--data", data, "--show", "-1").want(t, 2, "", "must be a show's number")
	stop()
	command(t, "", "reconcile", "--data", data).want(t, 1, "", "no server runs")
}
