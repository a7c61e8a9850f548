package exchange

// Reason says in one word why the gateway answered in the upstream's stead, or cut an exchange. It
// labels counters and stands in access logs and in the answer's body. The set is closed.
type Reason uint8

// The reasons. NoReason is the upstream's own answer.
const (
	NoReason        Reason = iota
	RouteAnswer            // a route that responds or redirects
	NoRoute                // 404: nothing matches
	WrongMethod            // 405: the path matches with another method
	BadRequest             // 400 and its kin: the request was refused by the codec
	BadPath                // 400: no canonical path
	HeadTimeout            // 408: the head did not arrive in time
	BodyTimeout            // 408: the body came more slowly than the listener's minimum
	BodyTooLarge           // 413
	Denied                 // 403: the client's address
	Preflight              // 204: CORS
	ServerOptions          // 204: OPTIONS *, which asks for the server as a whole
	NoTarget               // 503: no target is up
	PoolFull               // 503: no connection available within the bounds
	ConnectFailed          // 502, or 504 where it took too long: no connection could be made
	UpstreamReset          // 502: the connection broke before the response's head was whole
	UpstreamBad            // 502: the response was malformed
	UpstreamTimeout        // 504: no response in time
	UpstreamCut            // the response broke off after its head was sent
	StreamTimeout          // the response was silent for too long after its head was sent
	ClientSlow             // the client took its response too slowly
	Draining               // cut when the drain's time was over
	reasons
)

// Reasons is the number of reasons, for arrays of counters.
const Reasons = int(reasons)

var reasonText = [reasons]string{
	NoReason: "", RouteAnswer: "route", NoRoute: "no_route", WrongMethod: "wrong_method", BadRequest: "bad_request", BadPath: "bad_path",
	HeadTimeout: "head_timeout", BodyTimeout: "body_timeout", BodyTooLarge: "body_too_large", Denied: "denied", Preflight: "preflight",
	ServerOptions: "server_options",
	NoTarget:      "no_target", PoolFull: "pool_full", ConnectFailed: "connect_failed", UpstreamReset: "upstream_reset",
	UpstreamBad: "upstream_bad", UpstreamTimeout: "upstream_timeout", UpstreamCut: "upstream_cut", StreamTimeout: "stream_timeout",
	ClientSlow: "client_slow", Draining: "draining",
}

// Upstream says whether the service, or the way to it, is why the gateway gave an answer of its own.
func (r Reason) Upstream() bool {
	switch r {
	case NoTarget, PoolFull, ConnectFailed, UpstreamReset, UpstreamBad, UpstreamTimeout, UpstreamCut, StreamTimeout,
		ClientSlow, Draining:
		return true
	}
	return false
}

// String is the reason's label.
func (r Reason) String() string { return reasonText[r] }
