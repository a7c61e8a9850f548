package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop"
	interoppb "google.golang.org/grpc/interop/grpc_testing"
)

// orcaBalancer is the balancer of the interop tests that reads the reports of servers' load.
const orcaBalancer = `{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`

// interopCases, with the four of runInterop, are all 18 cases of google.golang.org/grpc/interop
// that need no account with Google, as its client names them. pick_first_unary is left out: the
// server of grpc-go does not know it.
var interopCases = []struct {
	name string
	run  func(ctx context.Context, s interoppb.TestServiceClient)
}{
	{"empty_unary", func(ctx context.Context, s interoppb.TestServiceClient) { interop.DoEmptyUnaryCall(ctx, s) }},
	{"large_unary", func(ctx context.Context, s interoppb.TestServiceClient) { interop.DoLargeUnaryCall(ctx, s) }},
	{"client_streaming", func(ctx context.Context, s interoppb.TestServiceClient) { interop.DoClientStreaming(ctx, s) }},
	{"server_streaming", func(ctx context.Context, s interoppb.TestServiceClient) { interop.DoServerStreaming(ctx, s) }},
	{"ping_pong", func(ctx context.Context, s interoppb.TestServiceClient) { interop.DoPingPong(ctx, s) }},
	{"empty_stream", func(ctx context.Context, s interoppb.TestServiceClient) { interop.DoEmptyStream(ctx, s) }},
	{"timeout_on_sleeping_server", func(ctx context.Context, s interoppb.TestServiceClient) {
		interop.DoTimeoutOnSleepingServer(ctx, s)
	}},
	{"cancel_after_begin", func(ctx context.Context, s interoppb.TestServiceClient) { interop.DoCancelAfterBegin(ctx, s) }},
	{"cancel_after_first_response", func(ctx context.Context, s interoppb.TestServiceClient) {
		interop.DoCancelAfterFirstResponse(ctx, s)
	}},
	{"status_code_and_message", func(ctx context.Context, s interoppb.TestServiceClient) {
		interop.DoStatusCodeAndMessage(ctx, s)
	}},
	{"special_status_message", func(ctx context.Context, s interoppb.TestServiceClient) {
		interop.DoSpecialStatusMessage(ctx, s)
	}},
	{"custom_metadata", func(ctx context.Context, s interoppb.TestServiceClient) { interop.DoCustomMetadata(ctx, s) }},
	{"orca_per_rpc", interop.DoORCAPerRPCTest},
	{"orca_oob", interop.DoORCAOOBTest},
}

// runInterop runs every case against an address.
func runInterop(t *testing.T, address string, roots *x509.CertPool) {
	channel := grpcDial(t, address, roots)
	reported := grpcDial(t, address, roots, grpc.WithDefaultServiceConfig(orcaBalancer))
	for _, c := range interopCases {
		service := interoppb.NewTestServiceClient(channel)
		if strings.HasPrefix(c.name, "orca") {
			service = interoppb.NewTestServiceClient(reported)
		}
		t.Run(c.name, func(t *testing.T) {
			interopCase(t, func(ctx context.Context) { c.run(ctx, service) })
		})
	}
	t.Run("unimplemented_method", func(t *testing.T) {
		interopCase(t, func(ctx context.Context) { interop.DoUnimplementedMethod(ctx, channel) })
	})
	t.Run("unimplemented_service", func(t *testing.T) {
		interopCase(t, func(ctx context.Context) {
			interop.DoUnimplementedService(ctx, interoppb.NewUnimplementedServiceClient(channel))
		})
	})
	soak := interop.SoakTestConfig{
		RequestSize: 271828, ResponseSize: 314159, PerIterationMaxAcceptableLatency: patience,
		OverallTimeout: patience, ServerAddr: address, NumWorkers: 2, Iterations: 10,
	}
	t.Run("rpc_soak", func(t *testing.T) {
		soak.ChannelForTest = func() (*grpc.ClientConn, func()) { return channel, func() {} }
		interopCase(t, func(ctx context.Context) { interop.DoSoakTest(ctx, soak) })
	})
	t.Run("channel_soak", func(t *testing.T) {
		soak.ChannelForTest = func() (*grpc.ClientConn, func()) {
			c := grpcDial(t, address, roots)
			return c, func() { c.Close() }
		}
		interopCase(t, func(ctx context.Context) { interop.DoSoakTest(ctx, soak) })
	})
}

func TestInteropWithoutTheGateway(t *testing.T) {
	runInterop(t, newGRPC(t, nil).address, nil)
}

// What the gateway's two sides speak: the client's over TLS and without, the upstream's likewise,
// and what ALPN gives.
func TestInterop(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certificate := ca.issue(t, "a")
	loaded := certificate.load(t)
	secure := fmt.Sprintf(`tls: {certificates: [{cert: %s, key: %s}]}`, certificate.cert, certificate.key)
	trusting := "tls: {ca: " + ca.file + "}"
	for name, c := range map[string]struct {
		listener, upstream string
		roots              *x509.CertPool
		certificate        *tls.Certificate
	}{
		"TLS to h2c":   {secure, "protocol: h2c", ca.pool, nil},
		"TLS to TLS":   {secure, trusting, ca.pool, &loaded},
		"TLS to h2":    {secure, "protocol: h2, " + trusting, ca.pool, &loaded},
		"plain to h2c": {"http2: true", "protocol: h2c", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGRPC(t, c.certificate)
			g := serve(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", %s}]
upstreams: {s: {targets: [%q], %s}}
routes: [{match: /, upstream: s}]
`, c.listener, s.address, c.upstream))
			runInterop(t, g.address(0), c.roots)
		})
	}
}
