package exchange

import (
	"fmt"

	"plimsoll/internal/grpc"
)

// Reason says why the gateway answered instead of the upstream, or cut an exchange. Its label
// appears in counters, in access logs and in the answer's body. The reasons of the data plane are
// below; packages of policies declare their own. No reason may be declared once main begins. The
// numbers differ between builds, so only labels may be stored.
type Reason uint8

// Fault says who is responsible for a reason. It decides what counts as an upstream's failure.
type Fault uint8

// Who is at fault.
const (
	NoFault         Fault = iota // none: the route answers by itself
	ClientFault                  // the request is wrong, or may not be made
	UpstreamFault                // the service failed, or the way to it
	ProtectionFault              // the request was refused to protect the service or the gateway
)

// ReasonInfo describes a reason.
type ReasonInfo struct {
	Label string // one word in snake_case
	Fault Fault
	// Text explains the label to the client, in the answer's body. It may be empty.
	Text string
	// GRPC is the status that a gRPC client gets. OK means the status to which the gRPC table maps
	// the response's HTTP status, which suits answers that a route chooses. Refusals set a status
	// of their own, because clients retry calls that were Unavailable, and the table maps too many
	// HTTP statuses to that.
	GRPC grpc.Code
}

var reasons []ReasonInfo

// maxReasons is how many reasons the counters of a loop have room for.
const maxReasons = 64

// DeclareReason adds a reason. It is called while packages are initialised, and nowhere else. It
// panics if the label is taken or there are too many reasons, which are defects of the program.
func DeclareReason(info ReasonInfo) Reason {
	for _, other := range reasons {
		if other.Label == info.Label {
			panic(fmt.Sprintf("exchange: the reason %q is declared twice", info.Label))
		}
	}
	if len(reasons) == maxReasons {
		panic("exchange: too many reasons: raise maxReasons here and in telemetry")
	}
	reasons = append(reasons, info)
	r := Reason(len(reasons) - 1)
	prepareRefusals(r)
	return r
}

// The data plane's reasons. NoReason, the zero value, stands for the upstream's own answer.
var (
	NoReason    = DeclareReason(ReasonInfo{})
	RouteAnswer = declare("route", NoFault, grpc.OK,
		"the route has neither an upstream nor an answer")
	NoRoute = declare("no_route", ClientFault, grpc.Unimplemented,
		"no route matches this host and path")
	WrongMethod = declare("wrong_method", ClientFault, grpc.Unimplemented,
		"this path is served for other methods, see Allow")
	BadRequest = declare("bad_request", ClientFault, grpc.Internal,
		"the request is malformed or over a limit")
	BadPath = declare("bad_path", ClientFault, grpc.Unimplemented,
		"the path has no canonical form")
	HeadTimeout = declare("head_timeout", ClientFault, grpc.DeadlineExceeded,
		"the request's head did not arrive in time")
	BodyTimeout = declare("body_timeout", ClientFault, grpc.DeadlineExceeded,
		"the request's body came too slowly")
	BodyTooLarge = declare("body_too_large", ClientFault, grpc.ResourceExhausted,
		"the request's body is longer than this route takes")
	Denied = declare("denied", ClientFault, grpc.PermissionDenied,
		"your address is not allowed here")
	Preflight     = declare("preflight", NoFault, grpc.OK, "")
	ServerOptions = declare("server_options", NoFault, grpc.OK, "")
	NoTarget      = declare("no_target", UpstreamFault, grpc.Unavailable,
		"no target of this service is up")
	PoolFull = declare("pool_full", UpstreamFault, grpc.Unavailable,
		"all connections to this service are busy")
	Overloaded = declare("overloaded", ProtectionFault, grpc.Unavailable,
		"more requests come than the service can answer in time")
	InstanceOverloaded = declare("instance_overloaded", ProtectionFault, grpc.Unavailable,
		"the gateway has more requests than it can serve in time")
	BreakerOpen = declare("breaker_open", ProtectionFault, grpc.Unavailable,
		"the service has failed too often and is left alone for a while")
	ConnectFailed = declare("connect_failed", UpstreamFault, grpc.Unavailable,
		"the service could not be reached")
	UpstreamReset = declare("upstream_reset", UpstreamFault, grpc.Unavailable,
		"the service closed the connection without an answer")
	UpstreamBad = declare("upstream_bad", UpstreamFault, grpc.Internal,
		"the service's answer was malformed")
	UpstreamTimeout = declare("upstream_timeout", UpstreamFault, grpc.DeadlineExceeded,
		"the service did not answer in time")
	DeadlinePassed = declare("deadline_passed", ProtectionFault, grpc.DeadlineExceeded,
		"the answer cannot come while somebody waits for it")
	// UpstreamCut: the service's answer broke off after its head was sent to the client.
	UpstreamCut  = declare("upstream_cut", UpstreamFault, grpc.Unavailable, "")
	SourceFailed = declare("source_failed", UpstreamFault, grpc.Unavailable,
		"the answer's body could not be read")
	// EncodeFailed: the content of the response could not be encoded; a defect of an encoder.
	EncodeFailed = declare("encode_failed", UpstreamFault, grpc.Unavailable,
		"the response could not be encoded")
	// StreamTimeout: likewise, because it was silent for too long.
	StreamTimeout = declare("stream_timeout", UpstreamFault, grpc.DeadlineExceeded, "")
	// ClientSlow: the client read its response too slowly.
	ClientSlow = declare("client_slow", ClientFault, grpc.Canceled, "")
	// Draining: cut because the time for draining was over.
	Draining = declare("draining", UpstreamFault, grpc.Unavailable, "")
)

func declare(label string, fault Fault, code grpc.Code, text string) Reason {
	return DeclareReason(ReasonInfo{label, fault, text, code})
}

// Reasons is the number of reasons.
func Reasons() int { return len(reasons) }

// Fault says who is responsible.
func (r Reason) Fault() Fault { return reasons[r].Fault }

// GRPC is the status that a gRPC client gets when other clients get this HTTP status.
func (r Reason) GRPC(status int) grpc.Code {
	if code := reasons[r].GRPC; code != grpc.OK {
		return code
	}
	return grpc.FromHTTP(status)
}

// String is the reason's label.
func (r Reason) String() string { return reasons[r].Label }
