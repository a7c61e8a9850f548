//go:build !linux

package gateway

// giveWay does nothing where a thread has no priority of its own.
func giveWay() {}
