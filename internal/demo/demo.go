// Package demo is a small flash-sale shop to put a gateway in front of: `plimsoll demo` starts it,
// and newcomers send their first request to it. It holds the shop's service, a configuration that
// shows many of the gateway's features, a self-made certificate, and a visitor that sends real
// requests and says what came of them.
//
// It is an ordinary net/http program and must know nothing of the gateway: it could stand behind
// any other.
package demo
