//go:build !race

package gateway

import (
	"strings"
	"testing"
)

func TestAllocNothingPerCallOfGRPC(t *testing.T) {
	const web = `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["ADDRESS"]}}
routes: [{match: /, upstream: s, grpc_web: true}]
access_log: {path: access.log}
`
	const refused = `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: /, respond: {status: 503, headers: {Retry-After: "3"}}}]
`
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 5\r\n\r\n\x00\x00\x00\x00\x00"
	call := func(kind string) []string {
		return []string{
			":method", "POST", ":scheme", "http", ":authority", "x", ":path", "/a.B/C",
			"content-type", kind, "te", "trailers", "grpc-timeout", "10S",
		}
	}
	for _, c := range []struct{ name, config, body, kind string }{
		{"a call", web, "\x00\x00\x00\x00\x00", "application/grpc+proto"},
		{"a call of gRPC-Web", web, "\x00\x00\x00\x00\x00", "application/grpc-web+proto"},
		{"a call of gRPC-Web in text mode", web, "AAAAAAA=", "application/grpc-web-text+proto"},
		{"a refusal", refused, "\x00\x00\x00\x00\x00", "application/grpc"},
		{"a refusal of gRPC-Web", refused, "\x00\x00\x00\x00\x00", "application/grpc-web"},
		{"a refusal in text mode", refused, "AAAAAAA=", "application/grpc-web-text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := fixedService(t, []byte(answer))
			g := serve(t, withH2(strings.ReplaceAll(c.config, "ADDRESS", address)))
			p := newPrepared(t, g, c.body, call(c.kind)...)
			// the client opens no windows: all answers must fit into 64 KB
			expectNoAllocations(t, 80, 80, func() { p.exchange(t) })
		})
	}
}

// What every call of gRPC is: HTTP/2 on both sides, and the status in trailers.
func TestAllocNothingPerCallOfGRPCWithTrailers(t *testing.T) {
	const message = "\x00\x00\x00\x00\x00"
	fields := []string{
		":method", "POST", ":scheme", "http", ":authority", "x", ":path", "/a.B/C",
		"content-type", "application/grpc", "te", "trailers", "grpc-timeout", "10S",
	}
	address := fixedH2Service(t, "application/grpc", message, someTrailers)
	g := serve(t, withH2(strings.Replace(oneUpstream(address), "{targets", "{protocol: h2c, targets", 1)))
	p := newPrepared(t, g, message, fields...)
	expectNoAllocations(t, 300, 600, func() { p.exchange(t) })
}
