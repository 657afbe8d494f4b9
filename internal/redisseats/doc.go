// Package redisseats is the view in Redis: every operation of
// seatflow.SeatStore as one Lua script.
package redisseats
