package gateway

import (
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
)

// Every policy is part of the gateway, so their reasons are seen too. What HTTP's status alone
// would say of a status that does not exist is Unknown.
func TestEveryReasonOfARefusalHasAStatusOfGRPC(t *testing.T) {
	for r := range exchange.Reason(exchange.Reasons()) {
		if r.Fault() != exchange.NoFault && r.GRPC(0) == grpc.Unknown {
			t.Errorf("%v says of itself no status of gRPC: set GRPC in its ReasonInfo", r)
		}
	}
}
