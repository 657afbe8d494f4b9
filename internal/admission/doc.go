// Package admission refuses early and cheaply what is over a rate.
package admission
