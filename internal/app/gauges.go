package app

import (
	"context"
	"time"

	"seatflow/internal/admission"
	"seatflow/internal/lock"
)

// gauges shows how full the pools are, and what was waited for.
func (a *App) gauges() {
	gauge := a.metrics.Gauge
	gauge("seatflow_view_owed", "Orders and shows that the view still has to be told about.",
		func() float64 { return float64(a.booking.Owed()) })

	facts := a.stores.ledger
	gauge("seatflow_ledger_queue", "Changes that wait for a commit now.", func() float64 { return float64(facts.Stats().Queued) })
	gauge("seatflow_ledger_writers_in_use", "Connections that write, in use now.", func() float64 { return float64(facts.Stats().Writers.InUse) })
	gauge("seatflow_ledger_readers_in_use", "Connections that read, in use now.", func() float64 { return float64(facts.Stats().Readers.InUse) })
	gauge("seatflow_ledger_readers_most", "Connections that read, at most.", func() float64 { return float64(facts.Stats().Readers.MaxOpenConnections) })
	gauge("seatflow_ledger_reader_waits", "How often a read waited for a connection.", func() float64 { return float64(facts.Stats().Readers.WaitCount) })
	gauge("seatflow_ledger_reader_wait_seconds", "And for how long altogether.", func() float64 { return facts.Stats().Readers.WaitDuration.Seconds() })

	if redis := a.stores.redis; redis != nil {
		gauge("seatflow_redis_in_flight", "Calls to Redis under way.", func() float64 { return float64(redis.Stats().InFlight) })
		gauge("seatflow_redis_in_flight_most", "Calls to Redis under way, at most.", func() float64 { return float64(redis.Stats().Capacity) })
		gauge("seatflow_redis_blocked", "Callers that wait for one of them to end.", func() float64 { return float64(redis.Stats().Blocked) })
		gauge("seatflow_redis_waits", "How often callers had to wait.", func() float64 { return float64(redis.Stats().Waits) })
		gauge("seatflow_redis_wait_seconds", "And for how long altogether.", func() float64 { return redis.Stats().Waited.Seconds() })
		gauge("seatflow_redis_dials", "Connections to Redis opened since the start.", func() float64 { return float64(redis.Stats().Dials) })
	}

	messages := a.stores.bus
	gauge("seatflow_bus_connected", "1 while the bus is connected.", func() float64 { return one(messages.Stats().Connected) })
	gauge("seatflow_bus_in_flight", "Messages sent and not acknowledged yet.", func() float64 { return float64(messages.Stats().InFlight) })
	gauge("seatflow_bus_publish_errors", "Batches that could not be published and are tried again.", func() float64 { return float64(messages.Stats().PublishErrors) })
	gauge("seatflow_bus_gaps", "Gaps announced to subscribers, who then take snapshots.", func() float64 { return float64(messages.Stats().Gaps) })

	if locks, ok := a.stores.locks.(interface{ Stats() lock.Stats }); ok {
		gauge("seatflow_leases_held", "Leases that this node holds.", func() float64 { return float64(locks.Stats().Held) })
		gauge("seatflow_leases_lost", "Leases that could not be renewed in time.", func() float64 { return float64(locks.Stats().Lost) })
	}
	if windows, ok := a.admits.(*admission.Service); ok {
		gauge("seatflow_admission_unasked", "Orders let through because the users' windows could not be asked.", func() float64 { return float64(windows.Stats().Unasked) })
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// soft are the checks whose failure leaves a node in service.
func (a *App) soft() map[string]func(context.Context) error {
	checks := map[string]func(context.Context) error{"bus": a.stores.bus.Healthy}
	if locks, ok := a.stores.locks.(interface{ Healthy(context.Context) error }); ok {
		checks["locks"] = locks.Healthy
	}
	return checks
}

// seatsHealthy asks the store that has the seats.
func (a *App) seatsHealthy(ctx context.Context) error {
	if redis := a.stores.redis; redis != nil {
		return redis.Healthy(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := a.seats.Identity(ctx)
	return err
}
