package telemetry

import "github.com/prometheus/client_golang/prometheus"

// prefix begins the name of every series of ours.
const prefix = "plimsoll_"

// descs collects the descriptions as they are made, so that Describe and Add know them all.
var descs []*prometheus.Desc

// ours are the names that are taken.
var ours = map[string]bool{}

func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(prefix+name, help, labels, nil)
	descs = append(descs, d)
	ours[name] = true
	return d
}

// The series. Routes and upstreams are never labels of the same series: a thousand routes over
// fifty upstreams would be fifty thousand counters of which few are ever asked for.
var (
	descRequests = desc(
		"requests_total",
		"Finished exchanges, by route and class of the status sent to the client.",
		"route",
		"code",
	)
	descRequestDuration = desc("request_duration_seconds",
		"Time from a request's head to the end of its response.", "route")
	descGatewayDuration = desc("gateway_duration_seconds",
		"Time that the gateway itself added to an exchange.", "route")
	descSLORequests = desc("slo_requests_total",
		"Exchanges that count for the objective of the route's SLA class.", "route", "class")
	descSLOGood = desc("slo_good_total",
		"Exchanges that met the objective: answered without a failure, within the latency.",
		"route", "class")
	descWebSocketsOpened = desc("websocket_opened_total",
		"WebSockets that began, by route.", "route")
	descWebSocketsClosed = desc("websocket_closed_total",
		"WebSockets that have ended, by route and by who closed them, or why the gateway did.",
		"route", "by")
	descWebSocketsOpen    = desc("websocket_open", "WebSockets that are open, by route.", "route")
	descWebSocketMessages = desc("websocket_messages_total",
		"Messages of WebSockets, by route: in from clients, out from upstreams.",
		"route", "direction")
	descWebSocketPings = desc("websocket_pings_total",
		"Pings that the gateway sent to silent clients of WebSockets, by route.", "route")
	descWebSocketUnframed = desc("websocket_unframed_total",
		"WebSockets whose bytes were not frames of RFC 6455, and are carried as they come.",
		"route")
	descGRPCCalls = desc("grpc_calls_total",
		"Finished gRPC calls, by route and the status that they ended with.", "route", "code")
	descGRPCMessages = desc("grpc_messages_total",
		"Messages of finished gRPC calls, by route and direction.", "route", "direction")
	descExchanges = desc("exchanges_total", "Finished exchanges, by how they ended.",
		"end")
	descAnswers = desc(
		"answers_total",
		"Exchanges that the gateway answered in the upstream's stead, or cut, by reason.",
		"reason",
	)
	descRefusedRequests = desc("refused_requests_total",
		"Requests that the codec refused as malformed or too large, by reason.", "reason")
	descRefusedHTTP2 = desc("http2_refused_total",
		"Streams and connections of HTTP/2 that ended because of what the client sent, by reason.",
		"reason")
	descUpstreamFaults2 = desc("http2_upstream_refused_total",
		"Streams and connections of HTTP/2 that ended because of what a target sent, by reason.",
		"reason")
	descHTTP2Resets = desc("http2_client_resets_total", "Streams of HTTP/2 that clients reset.")
	descSlowStreams = desc("http2_slow_streams_total",
		"Streams of HTTP/2 that were reset because the client opened their windows too slowly.")
	descRefusedHTTP3 = desc("http3_refused_total",
		"Streams and connections of HTTP/3 that ended because of what the client sent, by reason.",
		"reason")
	descRefusedHeads3 = desc("http3_refused_requests_total",
		"Requests of HTTP/3 that were refused as malformed or too large, by reason.", "reason")
	descHTTP3Resets  = desc("http3_client_resets_total", "Streams of HTTP/3 that clients reset.")
	descSlowStreams3 = desc("http3_slow_streams_total",
		"Streams of HTTP/3 that were reset because the client took their response too slowly.")
	descHTTP2Shed = desc("http2_shed_streams_total",
		"Streams of HTTP/2 that were reset because an event loop held too much that nobody takes.")
	descEarlyHints = desc("early_hints_total",
		"Responses with status 103 that the gateway made from links that it remembered.")
	descNotAdmitted = desc("admission_refused_total",
		"Requests refused because an event loop has more than it can serve, or that would be "+
			"in shadow mode, by SLA class.", "class")
	descInFlight = desc("requests_in_flight", "Exchanges under way.")

	descUpRequests = desc(
		"upstream_requests_total",
		"Exchanges that used an upstream, by class of the status sent to the client.",
		"upstream",
		"code",
	)
	descUpDuration = desc("upstream_duration_seconds",
		"Time that exchanges waited for an upstream.", "upstream")
	descUpOpened = desc("upstream_connections_opened_total",
		"Connections opened to an upstream.", "upstream")
	descUpReuses = desc("upstream_connection_reuses_total",
		"Requests sent on an upstream connection that had carried one before.", "upstream")
	descUpFailures = desc("upstream_connect_failures_total",
		"Connections to an upstream that could not be made.", "upstream")
	descUpRetries = desc("upstream_retries_total",
		"Tries of a request after its first, by the upstream they went to.", "upstream")
	descUpReclaimed = desc("upstream_connections_reclaimed_total",
		"Connections taken from clients that kept them waiting while others waited.", "upstream")
	descUpRefused = desc("upstream_retries_refused_total",
		"Tries that the retry budget did not allow.", "upstream")
	descUpReceived = desc("upstream_received_bytes_total", "Bytes received from upstreams.")
	descUpSent     = desc("upstream_sent_bytes_total", "Bytes sent to upstreams.")

	descAccepted = desc("connections_accepted_total", "Client connections taken in.")
	descClosed   = desc("connections_closed_total", "Client connections that have ended.")
	descOpen     = desc("connections_open", "Client connections that are open.")
	descSlow     = desc("connections_slow_total",
		"Client connections ended because the client took what it was given too slowly.")
	descConnRefused = desc("connections_refused_total",
		"Client connections closed right after they were accepted, by reason.", "reason")
	descReceived = desc("client_received_bytes_total", "Bytes received from clients.")
	descSent     = desc("client_sent_bytes_total", "Bytes sent to clients.")

	descHandshakes = desc(
		"tls_handshakes_total",
		"TLS handshakes finished with clients, by version and whether a session was resumed.",
		"version",
		"resumed",
	)
	descHandshakeFail = desc("tls_handshake_failures_total",
		"TLS handshakes with clients that failed, by reason.", "reason")

	descMirrors        = desc("mirrors_sent_total", "Copies of requests sent to mirror upstreams.")
	descMirrorsDropped = desc(
		"mirrors_dropped_total",
		"Copies of requests not sent, by reason: too_many were under way, "+
			"or the body was too_long.",
		"reason",
	)

	descClaimsIgnored = desc(
		"claims_ignored_total",
		"Values of trusted peers that were passed over because they make no sense, by what they "+
			"claim: the class of a request, or its deadline.",
		"claim",
	)

	descLoopRequests = desc("loop_requests_total", "Finished exchanges, by event loop.",
		"loop")
	descLoopBusy = desc("loop_busy_seconds_total",
		"Time that an event loop was not waiting. Its rate is the loop's saturation.", "loop")
	descLoopCPU = desc("loop_cpu_seconds_total",
		"CPU time of an event loop's thread. Over requests it is the cost of one.", "loop")
	descLoopTurns = desc("loop_turns_total", "Turns of an event loop.", "loop")
	descLoopHTTP2 = desc("loop_http2_connections",
		"Clients' connections of HTTP/2, by event loop.", "loop")
	descLoopStreams = desc("loop_http2_streams",
		"Open streams of clients' connections of HTTP/2, by event loop.", "loop")
	descLoopHeaviest = desc("loop_http2_heaviest_streams",
		"Open streams of the client's connection that has the most of them, by event loop.", "loop")
	descBuffers = desc("buffers_out", "Buffers handed out by the loops, by their size in bytes.",
		"size")

	descFDs        = desc("descriptors_used", "File descriptors that the gateway uses.")
	descFDsAllowed = desc("descriptors_allowed", "File descriptors that the gateway may use.")
	descLogWritten = desc("access_log_lines_written_total",
		"Lines that the access log's file took.")
	descLogDropped = desc(
		"access_log_lines_dropped_total",
		"Access log lines that were not written: ring_full when they came faster than the file "+
			"takes them, write_error when it took none.",
		"reason",
	)

	descScrapes = desc("scrapes_total", "Scrapes of these metrics.")
	descMissed  = desc("scrape_loops_missed_total",
		"Times a loop did not answer a collection, whose numbers for it are then those of "+
			"an earlier one.")
	descShared = desc("names_shared_total",
		"Names that were given the series \"other\" because there were too many.", "kind")
	descConfig       = desc("config_info", "The version of the active configuration.", "version")
	descConfigLoaded = desc("config_loaded_timestamp_seconds",
		"When the active configuration was loaded.")
	descReloads = desc("config_reloads_total", "Reloads of the config, by result.", "result")
	descBuild   = desc("build_info", "The program.", "version", "revision", "goversion")
)

// Describe is for the prometheus package.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
}
