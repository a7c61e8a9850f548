// Package demo is a small flash-sale shop to put a gateway in front of: what `plimsoll demo`
// starts, and what a newcomer sends a first request to. It holds the shop's service, a
// configuration that shows many of the gateway's features, a self-made certificate, and a visitor
// that sends real requests and says what came of them.
//
// It is an ordinary net/http program and must know nothing of the gateway: it could stand behind
// any other.
package demo
