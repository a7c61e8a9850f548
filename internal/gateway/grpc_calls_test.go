package gateway

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	interoppb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"plimsoll/internal/exchange"
)

// grpcUpstream is a configuration of one upstream of HTTP/2 without TLS, at these addresses in
// turn, and of routes to it.
func grpcUpstream(upstream, routes string, addresses ...string) string {
	return fmt.Sprintf(`
loops: 1
listeners: [{address: "127.0.0.1:0", http2: true}]
upstreams: {s: {protocol: h2c, balance: round_robin, targets: ["%s"], %s}}
routes: [%s]
`, strings.Join(addresses, `", "`), upstream, routes)
}

// answeringCalls runs a server that serves any method as f does. It knows empty messages.
func answeringCalls(t *testing.T, f func(s grpc.ServerStream) error) *grpcService {
	t.Helper()
	return newGRPC(t, nil, grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return f(s) }))
}

// send sends so many empty messages.
func send(s grpc.ServerStream, n int) error {
	for range n {
		if err := s.SendMsg(&interoppb.Empty{}); err != nil {
			return err
		}
	}
	return nil
}

// callMethod begins a call whose both sides send empty messages.
func callMethod(ctx context.Context, t *testing.T, c *grpc.ClientConn, method string) grpc.ClientStream {
	t.Helper()
	both := &grpc.StreamDesc{StreamName: "x", ServerStreams: true, ClientStreams: true}
	s, err := c.NewStream(ctx, both, method)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// receive takes messages until the call's end, and returns how many there were and its status.
func receive(s grpc.ClientStream) (n int, end *status.Status) {
	for {
		err := s.RecvMsg(&interoppb.Empty{})
		if err == io.EOF {
			return n, status.New(codes.OK, "")
		}
		if err != nil {
			return n, status.Convert(err)
		}
		n++
	}
}

func TestACallsDeadlineTravelsOn(t *testing.T) {
	left := make(chan time.Duration, 2)
	s := answeringCalls(t, func(s grpc.ServerStream) error {
		by, ok := s.Context().Deadline()
		if !ok {
			left <- 0
		}
		left <- time.Until(by)
		return send(s, 1)
	})
	g := serve(t, grpcUpstream("", "{match: /, upstream: s}", s.address))
	c := grpcDial(t, g.address(0), nil)
	for _, within := range []time.Duration{time.Hour, 90 * time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		began := time.Now()
		if n, end := receive(callMethod(ctx, t, c, "/any.Service/Method")); n != 1 || end.Code() != codes.OK {
			t.Errorf("got %d messages and %v", n, end)
		}
		// grpc-timeout has eight digits.
		if got := <-left; got > within || got < within-time.Since(began)-time.Second {
			t.Errorf("of %v the service was left %v", within, got)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	receive(callMethod(ctx, t, c, "/any.Service/Method"))
	if got := <-left; got != 0 {
		t.Errorf("without a deadline the service was left %v", got)
	}
}

// rawCall is a request of a client that says a deadline and does not keep it itself.
func rawCall(g *instance, timeout string) *h2stream {
	fields := []string{"content-type", "application/grpc", "te", "trailers"}
	if timeout != "" {
		fields = append(fields, "grpc-timeout", timeout)
	}
	st := g.h2().open("POST", "/any.Service/Method", fields...)
	st.data("\x00\x00\x00\x00\x00", true)
	return st
}

// expectStatus waits for a response to end, and fails the test unless it is a success of HTTP with
// a status of gRPC, in the head or in trailers.
func (st *h2stream) expectStatus(code codes.Code, messages int) {
	t := st.c.t
	t.Helper()
	st.expect(200, strings.Repeat("\x00\x00\x00\x00\x00", messages))
	got := st.trailers.Get("Grpc-Status")
	if messages == 0 && st.trailers == nil {
		got = st.fields.Get("Grpc-Status")
	}
	if got != fmt.Sprint(int(code)) {
		t.Errorf("grpc-status is %q, want %d; head %v, trailers %v", got, code, st.fields, st.trailers)
	}
}

// plainH2C runs a service of net/http that speaks HTTP/2 without TLS, and knows nothing of gRPC.
func plainH2C(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() { _ = server.Serve(l); close(done) }()
	t.Cleanup(func() { server.Close(); <-done })
	return l.Addr().String()
}

// message is one of gRPC, as it stands in a body.
func message(content string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(content)))) + content
}

// hangingAfter answers with so many empty messages and then says nothing until the request is given
// up, which it tells.
func hangingAfter(messages int, gone chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if messages > 0 {
			w.Header().Set("Content-Type", "application/grpc")
			io.WriteString(w, strings.Repeat(message(""), messages))
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
		gone <- struct{}{}
	}
}

// The gateway keeps a call's deadline too: before the response, and in the middle of it. The
// service is told at once.
func TestACallEndsAtItsDeadline(t *testing.T) {
	t.Parallel() // it waits for deadlines, which are later where messages have to come first
	for messages, deadline := range []string{"50m", "2S", "2S"} {
		gone := make(chan struct{}, 1)
		g := serve(t, grpcUpstream(noPassive, "{match: /, upstream: s}", plainH2C(t, hangingAfter(messages, gone))))
		rawCall(g, deadline).expectStatus(codes.DeadlineExceeded, messages)
		<-gone
		eventually(t, "the call to be counted", func() bool { return g.calls("/")[codes.DeadlineExceeded] == 1 })
		if n := g.reasons(exchange.DeadlinePassed); n != 1 {
			t.Errorf("after %d messages the reason is counted %d times", messages, n)
		}
	}
}

// Without a deadline the route's own time-outs hold: for the head, and for silence behind it.
func TestACallThatIsSilentForTooLongEnds(t *testing.T) {
	for _, c := range []struct {
		messages int
		limits   string
		want     exchange.Reason
	}{
		{0, "timeout: 50ms", exchange.UpstreamTimeout},
		{2, "timeout: 20s, stream_timeout: 50ms", exchange.StreamTimeout},
	} {
		gone := make(chan struct{}, 1)
		g := serve(t, grpcUpstream(noPassive, "{match: /, upstream: s, "+c.limits+"}",
			plainH2C(t, hangingAfter(c.messages, gone))))
		rawCall(g, "").expectStatus(codes.DeadlineExceeded, c.messages)
		<-gone
		eventually(t, "the reason to be counted", func() bool { return g.reasons(c.want) == 1 })
	}
}

// breakingOff answers with a body and breaks off when it is told to.
func breakingOff(body func(path string) string, cut <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		io.WriteString(w, body(r.URL.Path))
		http.NewResponseController(w).Flush()
		<-cut
		panic(http.ErrAbortHandler) // RST_STREAM
	}
}

// A call that breaks off behind its head ends with a status that clients know, and not with a
// reset.
func TestACallThatBreaksOffGetsAStatus(t *testing.T) {
	cut := make(chan struct{})
	address := plainH2C(t, breakingOff(func(string) string { return message("") }, cut))
	g := serve(t, grpcUpstream(noPassive, "{match: /, upstream: s}", address))
	st := rawCall(g, "")
	eventually(t, "the message", func() bool { return st.got() == 5 })
	cut <- struct{}{}
	st.expectStatus(codes.Unavailable, 1)
	s := callMethod(t.Context(), t, grpcDial(t, g.address(0), nil), "/any.Service/Method")
	if err := s.RecvMsg(&interoppb.Empty{}); err != nil {
		t.Fatal(err)
	}
	cut <- struct{}{}
	if n, end := receive(s); n != 0 || end.Code() != codes.Unavailable || end.Message() != "upstream_cut" {
		t.Errorf("got %d further messages and %v", n, end)
	}
}

func TestCallsAreRoutedByServiceAndMethod(t *testing.T) {
	named := func(name string) string {
		return answeringCalls(t, func(s grpc.ServerStream) error {
			s.SetTrailer(metadata.Pairs("name", name))
			return nil
		}).address
	}
	g := serve(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", http2: true}]
upstreams:
  users: {protocol: h2c, targets: [%q]}
  orders: {protocol: h2c, targets: [%q]}
  one: {protocol: h2c, targets: [%q]}
routes:
  - {match: /users.v1.Users/, upstream: users}
  - {match: "/orders.v1.Orders/{method}", upstream: orders}
  - {match: "POST /orders.v1.Orders/Export", upstream: one}
`, named("users"), named("orders"), named("one")))
	c := grpcDial(t, g.address(0), nil)
	for method, want := range map[string]string{
		"/users.v1.Users/Get": "users", "/users.v1.Users/Set": "users", "/orders.v1.Orders/Get": "orders",
		"/orders.v1.Orders/Export": "one", "/users.v1.User/Get": "", "/orders.v1.Orders": "",
	} {
		s := callMethod(t.Context(), t, c, method)
		_, end := receive(s)
		if got := strings.Join(s.Trailer().Get("name"), ","); got != want || (end.Code() == codes.OK) != (want != "") {
			t.Errorf("%s went to %q, and ended with %v; want %q", method, got, end, want)
		}
	}
}

// failingCalls is a server whose calls end with a code, after so many messages.
func failingCalls(t *testing.T, code codes.Code, messages int, told *atomic.Int64, trailers ...string) *grpcService {
	return answeringCalls(t, func(s grpc.ServerStream) error {
		told.Add(1)
		if err := s.RecvMsg(&interoppb.Empty{}); err != nil {
			return err
		}
		s.SetTrailer(metadata.Pairs(trailers...))
		if err := send(s, messages); err != nil {
			return err
		}
		return status.Error(code, "it fails")
	})
}

// oneMessage sends the request of a unary call, and returns what comes back.
func oneMessage(t *testing.T, g *instance) (n int, end *status.Status) {
	t.Helper()
	s := callMethod(t.Context(), t, grpcDial(t, g.address(0), nil), "/any.Service/Method")
	if err := s.SendMsg(&interoppb.Empty{}); err != nil {
		t.Fatal(err)
	}
	s.CloseSend()
	return receive(s)
}

func TestCallsAreTriedAgainByTheirStatus(t *testing.T) {
	for name, c := range map[string]struct {
		on       string
		code     codes.Code
		messages int
		trailers []string
		again    bool
	}{
		"unavailable":             {"grpc-unavailable", codes.Unavailable, 0, nil, true},
		"one of several":          {"connect, grpc-aborted, grpc-unavailable", codes.Aborted, 0, nil, true},
		"resource exhausted":      {"grpc-resource-exhausted", codes.ResourceExhausted, 0, nil, true},
		"cancelled":               {"grpc-cancelled", codes.Canceled, 0, nil, true},
		"internal":                {"grpc-internal", codes.Internal, 0, nil, true},
		"deadline exceeded":       {"grpc-deadline-exceeded", codes.DeadlineExceeded, 0, nil, true},
		"another code":            {"grpc-unavailable", codes.Aborted, 0, nil, false},
		"not asked for":           {"connect, reset", codes.Unavailable, 0, nil, false},
		"503 is another thing":    {"\"503\"", codes.Unavailable, 0, nil, false},
		"behind a message":        {"grpc-unavailable", codes.Unavailable, 1, nil, false},
		"when the server says so": {"grpc-unavailable", codes.Unavailable, 0, []string{"grpc-retry-pushback-ms", "5"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var first, second atomic.Int64
			bad := failingCalls(t, c.code, c.messages, &first, c.trailers...)
			good := failingCalls(t, codes.OK, 1, &second)
			g := serve(t, grpcUpstream(noPassive+", retry: {budget: 100%, on: ["+c.on+"]}", "{match: /, upstream: s}",
				bad.address, good.address))
			n, end := oneMessage(t, g)
			want, messages := c.code, c.messages
			if c.again {
				want, messages = codes.OK, 1
			}
			if n != messages || end.Code() != want || first.Load() != 1 || (second.Load() == 1) != c.again {
				t.Errorf("got %d messages and %v, after %d and %d tries", n, end, first.Load(), second.Load())
			}
		})
	}
}

// A call is tried again that has sent a part, and goes on with the rest; not one that has sent more
// than is kept.
func TestAStreamIsTriedAgainWithWhatItHasSent(t *testing.T) {
	for size, again := range map[int]bool{10 << 10: true, 100 << 10: false} {
		var first, second atomic.Int64
		bad := failingCalls(t, codes.Unavailable, 0, &first)
		good := answeringCalls(t, func(s grpc.ServerStream) error {
			second.Add(1)
			for {
				m := &interoppb.Payload{}
				switch err := s.RecvMsg(m); err {
				case nil:
					second.Add(int64(len(m.Body)))
				case io.EOF:
					return send(s, 1)
				default:
					return err
				}
			}
		})
		g := serve(t, grpcUpstream(noPassive+", retry: {budget: 100%, on: [grpc-unavailable]}", "{match: /, upstream: s}",
			bad.address, good.address))
		s := callMethod(t.Context(), t, grpcDial(t, g.address(0), nil), "/any.Service/Method")
		eventually(t, "the call to begin", func() bool { return first.Load() == 1 })
		if err := s.SendMsg(&interoppb.Payload{Body: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
		if !again {
			if n, end := receive(s); n != 0 || end.Code() != codes.Unavailable || second.Load() != 0 {
				t.Errorf("got %d messages and %v, after %d further tries", n, end, second.Load())
			}
			continue
		}
		eventually(t, "the further try", func() bool { return second.Load() == 1+int64(size) })
		if err := s.SendMsg(&interoppb.Payload{Body: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
		s.CloseSend()
		if n, end := receive(s); n != 1 || end.Code() != codes.OK || second.Load() != 1+2*int64(size) {
			t.Errorf("got %d messages and %v, and the service %d bytes", n, end, second.Load()-1)
		}
		if n := g.messages("/"); n != [2]uint64{2, 1} {
			t.Errorf("messages are counted as %v", n)
		}
	}
}

// UNAVAILABLE is to gRPC what 503 is to HTTP: it ejects a target. What clients cause does not.
func TestStatusesOfGRPCEjectATarget(t *testing.T) {
	for code, out := range map[codes.Code]bool{codes.Unavailable: true, codes.InvalidArgument: false, codes.NotFound: false} {
		var first, second atomic.Int64
		bad, good := failingCalls(t, code, 0, &first), failingCalls(t, codes.OK, 1, &second)
		g := serve(t, grpcUpstream("health: {passive: {consecutive_failures: 2, eject_for: 1h}}",
			"{match: /, upstream: s}", bad.address, good.address))
		for range 8 {
			oneMessage(t, g)
		}
		if out {
			g.becomes("s", bad.address, "ejected")
		} else if state := g.target("s", bad.address); !state.Usable {
			t.Errorf("after %d times %v it is %s", first.Load(), code, state.State)
		}
	}
}

func TestTheSLOCountsStatusesOfGRPC(t *testing.T) {
	for code, good := range map[codes.Code]uint64{codes.OK: 1, codes.NotFound: 1, codes.Internal: 0, codes.Unavailable: 0} {
		var told atomic.Int64
		s := failingCalls(t, code, 0, &told)
		g := serve(t, grpcUpstream("", "{match: /, upstream: s, sla: P5}", s.address)+"classes: {P5: {latency: 10m, patience: 1s}}")
		oneMessage(t, g)
		for _, r := range g.snapshot().Routes {
			if slo := r.SLO[5]; r.Name == "/" && (slo.Requests != 1 || slo.Good != good) {
				t.Errorf("%v: %d requests, %d good", code, slo.Requests, slo.Good)
			}
		}
	}
}

func TestChecksByGRPCDecideOverTraffic(t *testing.T) {
	bad, good := newGRPC(t, nil), newGRPC(t, nil)
	bad.health.SetServingStatus("users.v1.Users", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	good.health.SetServingStatus("users.v1.Users", grpc_health_v1.HealthCheckResponse_SERVING)
	g := serve(t, grpcUpstream("health: {active: {grpc: users.v1.Users, interval: 100ms, unhealthy_after: 1, healthy_after: 1}}",
		"{match: /, upstream: s}", bad.address, good.address))
	g.becomes("s", bad.address, "down")
	c := grpcDial(t, g.address(0), nil)
	for range 5 {
		expectCall(t, c, codes.OK, "")
	}
	bad.health.SetServingStatus("users.v1.Users", grpc_health_v1.HealthCheckResponse_SERVING)
	good.health.Shutdown()
	g.becomes("s", bad.address, "up")
	g.becomes("s", good.address, "down")
	expectCall(t, c, codes.OK, "")
}

// messages are those of a route's calls, received and sent.
func (i *instance) messages(route string) (n [2]uint64) {
	eventually(i.t, "the call to be counted", func() bool {
		for _, r := range i.snapshot().Routes {
			if r.Name == route {
				n = [2]uint64{r.MessagesReceived, r.MessagesSent}
			}
		}
		return n != [2]uint64{}
	})
	return n
}
