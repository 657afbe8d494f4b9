// Package bus carries changes through NATS JetStream, embedded or external.
package bus
