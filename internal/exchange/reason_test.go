package exchange_test

import (
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
)

// What a gRPC client gets. Unavailable is what such clients try again.
func TestReasonsInTheTermsOfGRPC(t *testing.T) {
	for reason, want := range map[exchange.Reason]grpc.Code{
		exchange.NoRoute: grpc.Unimplemented, exchange.NoTarget: grpc.Unavailable,
		exchange.BodyTooLarge: grpc.ResourceExhausted, exchange.DeadlinePassed: grpc.DeadlineExceeded,
		exchange.UpstreamBad: grpc.Internal, exchange.Denied: grpc.PermissionDenied,
	} {
		if got := reason.GRPC(404); got != want {
			t.Errorf("%v is %v, want %v", reason, got, want)
		}
	}
	for status, want := range map[int]grpc.Code{
		200: grpc.Unknown, 308: grpc.Unknown, 401: grpc.Unauthenticated, 503: grpc.Unavailable,
	} {
		if got := exchange.RouteAnswer.GRPC(status); got != want {
			t.Errorf("a route's own answer %d is %v, want %v", status, got, want)
		}
	}
}
