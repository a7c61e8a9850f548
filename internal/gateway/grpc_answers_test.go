package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	interoppb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"plimsoll/internal/exchange"
)

// What a gRPC client gets where the gateway answers itself.

const emptyCall = "/grpc.testing.TestService/EmptyCall"

// callFor makes an empty unary call and returns its status and what came with it. Without a
// deadline of its own it is bounded by the test's patience, which it does not say to the server.
func callFor(t *testing.T, c *grpc.ClientConn, within time.Duration) (s *status.Status, head, behind metadata.MD) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if within > 0 {
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	_, err := interoppb.NewTestServiceClient(c).EmptyCall(ctx, &interoppb.Empty{}, grpc.Header(&head), grpc.Trailer(&behind))
	return status.Convert(err), head, behind
}

// expectCall fails the test unless a call ends with a code and a message that has a part.
func expectCall(t *testing.T, c *grpc.ClientConn, code codes.Code, message string) (behind metadata.MD) {
	t.Helper()
	s, _, behind := callFor(t, c, 0)
	if s.Code() != code || !strings.Contains(s.Message(), message) {
		t.Errorf("got %v %q, want %v and %q", s.Code(), s.Message(), code, message)
	}
	return behind
}

func TestRefusedCallsGetAStatusOfGRPC(t *testing.T) {
	const listener = `listeners: [{address: "127.0.0.1:0", http2: true}]` + "\nloops: 1\n"
	const route = "\nroutes: [{match: /, upstream: s, %s}]"
	down := fmt.Sprintf("upstreams: {s: {targets: [%q], retry: {attempts: 0}, %s}}", refusing(t), noPassive)
	for name, c := range map[string]struct {
		config  string
		code    codes.Code
		message string
	}{
		"no route": {
			down + "\nroutes: [{match: /other, upstream: s}]", codes.Unimplemented,
			"404 Not Found: no_route: no route matches this host and path",
		},
		"another method": {
			down + "\nroutes: [{match: \"GET /\", upstream: s}]", codes.Unimplemented, "wrong_method",
		},
		"the service cannot be reached": {
			down + fmt.Sprintf(route, ""), codes.Unavailable, "502 Bad Gateway: connect_failed",
		},
		"denied":      {down + fmt.Sprintf(route, `access: {deny: ["127.0.0.1"]}`), codes.PermissionDenied, "denied"},
		"route":       {"routes: [{match: /, respond: {status: 401, body: x}}]", codes.Unauthenticated, "401 Unauthorized"},
		"maintenance": {"routes: [{match: /, respond: {status: 503}}]", codes.Unavailable, "503 Service Unavailable"},
		"another 200": {"routes: [{match: /, respond: {status: 200, body: ok}}]", codes.Unknown, "200 OK"},
		"elsewhere":   {"routes: [{match: /, redirect: {to: \"https://a.test/\"}}]", codes.Unknown, "308"},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, listener+c.config)
			expectCall(t, grpcDial(t, g.address(0), nil), c.code, c.message)
		})
	}
}

// The answer is a head alone with status 200: a client must not have to know a gateway's statuses.
func TestARefusalIsTrailersOnly(t *testing.T) {
	g := serve(t, `
listeners: [{address: "127.0.0.1:0", http2: true}]
routes: [{match: /, respond: {status: 503, headers: {X-Note: "kept"}}}]
`)
	c := g.h2()
	st := c.ask("POST", "/a.B/C", "content-type", "application/grpc+proto", "te", "trailers")
	st.expect(200, "")
	want := map[string]string{
		"Content-Type": "application/grpc+proto", "Grpc-Status": "14", "X-Note": "kept",
		"Grpc-Message": "503 Service Unavailable: route: the route has neither an upstream nor an answer",
	}
	for name, value := range want {
		if got := st.fields.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if st.trailers != nil {
		t.Errorf("there are trailers: %v", st.trailers)
	}
}

func TestALimitedCallSaysWhenToComeAgain(t *testing.T) {
	s := newGRPC(t, nil)
	g := serve(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", http2: true}]
upstreams: {s: {targets: [%q], %s}}
routes: [{match: /, upstream: s, limits: [{rate: 1/h}], concurrency: 1}]
`, s.address, noPassive))
	c := grpcDial(t, g.address(0), nil)
	callFor(t, c, 0)
	behind := expectCall(t, c, codes.ResourceExhausted, "429 Too Many Requests: rate_limited")
	pushback := behind.Get("grpc-retry-pushback-ms")
	after := behind.Get("retry-after")
	if len(pushback) != 1 || len(after) != 1 || pushback[0] != after[0]+"000" {
		t.Errorf("grpc-retry-pushback-ms is %q, and retry-after %q", pushback, after)
	}
	if n := g.calls("/")[codes.ResourceExhausted]; n != 1 {
		t.Errorf("%d calls are counted for RESOURCE_EXHAUSTED", n)
	}
}

func TestMalformedTimeoutsAreRefused(t *testing.T) {
	b := newBackend(t, "b")
	g := serve(t, withH2(oneUpstream(b.address)))
	c := g.h2()
	for _, timeouts := range [][]string{{"1"}, {"1s"}, {""}, {"123456789n"}, {"-1S"}, {"1S", "2S"}} {
		fields := []string{"content-type", "application/grpc"}
		for _, one := range timeouts {
			fields = append(fields, "grpc-timeout", one)
		}
		st := c.ask("POST", "/a.B/C", fields...)
		st.expect(200, "")
		if got := st.fields.Get("Grpc-Status"); got != "13" || !strings.Contains(st.fields.Get("Grpc-Message"), "bad_request") {
			t.Errorf("%q: %v", timeouts, st.fields)
		}
	}
	if b.requests.Load() != 0 {
		t.Errorf("%d of them went on", b.requests.Load())
	}
}

func TestACallWithoutTimeLeftIsNotSent(t *testing.T) {
	b := newBackend(t, "b")
	g := serve(t, withH2(oneUpstream(b.address)))
	st := g.h2().ask("POST", "/a.B/C", "content-type", "application/grpc", "grpc-timeout", "0n")
	st.expect(200, "")
	if got := st.fields.Get("Grpc-Status"); got != "4" || b.requests.Load() != 0 {
		t.Errorf("grpc-status %s, and %d requests upstream", got, b.requests.Load())
	}
	if n := g.reasons(exchange.DeadlinePassed); n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// Other exchanges have nothing to do with it.
func TestGrpcTimeoutIsAFieldLikeOthersElsewhere(t *testing.T) {
	b := newBackend(t, "b")
	seen := make(chan string, 1)
	b.answer(func(w http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Grpc-Timeout") })
	g := serve(t, withH2(oneUpstream(b.address)))
	g.h2().ask("POST", "/", "content-type", "application/json", "grpc-timeout", "0n").expect(200, "")
	if got := <-seen; got != "0n" {
		t.Errorf("it went on as %q", got)
	}
}

// calls are the gRPC calls of a route by the status that they ended with.
func (i *instance) calls(route string) (n [17]uint64) {
	for _, r := range i.snapshot().Routes {
		if r.Name == route {
			n = r.GRPC
		}
	}
	return n
}
