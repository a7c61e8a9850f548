// Package freeport finds unused TCP ports of this machine, for tests and experiments that start a
// service which must know its port before it listens. It knows nothing of who asks.
//
// A port that the kernel picks (":0") is one of those that it also gives to outgoing connections.
// Between the moment when it is closed and the moment when the service listens, a connection of any
// process may take it. This made one test fail in some hundred runs. So ports below that range are
// tried first.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

// lowest is the lowest port that is handed out; services that have a name are below it.
const lowest = 10_000

// attempts bounds how many ports are tried before the kernel is asked for one.
const attempts = 100

// Find returns n different ports that nobody listens on, on any address. Any goroutine may call it.
// Nothing keeps a port free after the return: listen soon.
func Find(n int) (ports []int, err error) {
	for range n {
		l, err := listen(ephemeral())
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// ephemeral is the lowest port that the kernel gives to outgoing connections
// (net.ipv4.ip_local_port_range), or 0 when it does not say.
func ephemeral() (low int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(text), &low); err != nil {
		return 0
	}
	return low
}

// listen takes a port from lowest up to below, or any where that range is too small or too full.
func listen(below int) (net.Listener, error) {
	if below-lowest > attempts {
		for range attempts {
			port := lowest + rand.IntN(below-lowest)
			if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
				return l, nil
			}
		}
	}
	return net.Listen("tcp", ":0")
}
