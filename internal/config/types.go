// Package config turns a YAML file into a checked, immutable Config, or into a list of errors that
// each name their file, line and column. It knows the shape and the sense of a configuration and
// nothing of how a gateway is built from one: it must not import any room that serves traffic.
//
// The comments on the fields in types.go and types_answer.go are the reference: docs/config.md is
// generated from them. Each says the effect, the default, and the hazard of getting it wrong. The
// tags are the rules that can be said without code, and the only place of each: the decoder, the
// JSON Schema, the reference and the defaults are all read from them.
//
//	default   the value of a key that is not there; else the zero value, and a pointer stays nil
//	min, max  limits of a number, a duration, a size, or of each value of a mapping of numbers
//	enum      the only values, of a word or of each item of a list
//	required  the key must be there; a list or a mapping must not be empty
//	one       exactly one of the keys of the mapping that carry this must be there
//	scalar    a bare scalar in the place of the mapping stands for this key
//	template  ${variables} of the exchange may be used
//	file      a path, relative to the directory of the configuration file
//	secret    never printed, but for the ${NAME} that it comes from
package config

import "reflect"

// Config is one whole, checked configuration. It is never changed after Load returned it.
type Config struct {
	// Loops is the number of event loops, each on a thread of its own. Default: 0, one for each CPU
	// the process may use. Hazard: more loops than CPUs only adds switching.
	Loops int `yaml:"loops" default:"0" min:"0" max:"1024"`
	// Listeners are the addresses that accept clients. At least one is needed.
	Listeners []Listener `yaml:"listeners" required:"true"`
	// Upstreams are the named services that routes send to.
	Upstreams map[string]*Upstream `yaml:"upstreams"`
	// Classes are the SLA classes by name, P0 to P9: how important a request is when not all can be
	// served. Lower numbers are served first. Default: P0 is 99.99% of requests within 100ms, P1
	// 99.95% within 500ms, P2 and all others 99% within 5s; P0 and P1 get no static answers.
	Classes map[string]*Class `yaml:"classes"`
	// Redis are servers, or clusters, that several instances share, by names: for limits (their key
	// shared), the cache (cache.redis) and guards.
	Redis map[string]*Redis `yaml:"redis"`
	// SLAHeader is the name of a header, such as X-SLA-Class, in which the trusted peers of a
	// listener (trusted_proxies) say the class of a request, P0 to P9, in place of its route's. Any
	// other value is ignored and counted. Upstreams get the class that applies in the same header,
	// no matter who chose it, unless a route's request_headers remove it. Default: none. The header
	// is removed from the requests of all other clients. Hazard: a peer that passes its clients'
	// header on lets them all be P0.
	SLAHeader string `yaml:"sla_header"`
	// Routes say what is done with which requests. The most specific match wins, whatever the
	// order; two routes that could both win are an error.
	Routes []Route `yaml:"routes"`
	// Cache bounds the memory of what routes with cache store.
	Cache CacheMemory `yaml:"cache"`
	// CompressMemory is the most memory that the encoders of all routes with compress take
	// together; a response that finds none free is passed on uncompressed. An encoder takes 0.5MB
	// to 1.7MB. Default: 256MB, shared evenly by the loops. Hazard: a stream of events keeps its
	// encoder for as long as it lasts.
	CompressMemory Size `yaml:"compress_memory" default:"256MB" min:"16MB" max:"64GB"`
	// Admission refuses requests, the lowest class first, when the gateway's own processor is the
	// limit. Default: nobody is refused, and all wait alike.
	Admission *Admission `yaml:"admission"`
	// Admin is the address of the metrics, the health answers and the JSON API. Default: none.
	Admin *Admin `yaml:"admin"`
	// AccessLog says where a line for every exchange is written. Default: none is written.
	AccessLog *AccessLog `yaml:"access_log"`
	// Drain says how a stop, or an upgrade, treats the exchanges that are under way.
	Drain Drain `yaml:"drain"`

	sources *sources // what is shown instead of what the environment gave
	given   given
}

// Listener is an address that accepts clients.
type Listener struct {
	// Address to listen on: "host:port", ":port", "[v6]:port". Required.
	Address string `yaml:"address" required:"true"`
	// TLS makes this a TLS listener. Default: plain text.
	TLS *ListenerTLS `yaml:"tls"`
	// HTTP2 offers HTTP/2 beside HTTP/1.1: to TLS clients by ALPN, and to clients without TLS that
	// begin with it (prior knowledge, as gRPC does). Default: true with tls, false without.
	HTTP2 *bool `yaml:"http2"`
	// HTTP3 serves HTTP/3 on the UDP port of the same number. It needs tls. Default: false. Hazard:
	// firewalls that let TCP pass need a rule for UDP; and HTTP/3 costs several times the processor
	// time of HTTP/2. docs/http3.md says how much.
	HTTP3 bool `yaml:"http3" default:"false"`
	// EarlyData lets returning clients of HTTP/3 send requests with their first packet (0-RTT).
	// Only GET, HEAD, OPTIONS and TRACE are served then, and forwarded with Early-Data: 1; others
	// wait for the handshake. It requires http3 and session_tickets. Default: false. Hazard: anyone
	// who has recorded such a request can send it again, any number of times: a service that
	// changes something on GET must answer 425 to Early-Data: 1 (RFC 8470).
	EarlyData bool `yaml:"early_data" default:"false"`
	// AltSvc is the Alt-Svc header of responses over HTTP/1.1 and HTTP/2, by which browsers learn
	// of HTTP/3; "off" is none. Default: h3 at the listener's own port, for a day, where http3 is
	// on. Set it if clients reach the listener at another port: 'h3=":443"; ma=86400'. A response
	// that has the header from its service keeps it. A listener that has lost http3 says "clear".
	AltSvc string `yaml:"alt_svc"`
	// TrustedProxies are the peers (addresses or CIDR prefixes) whose X-Forwarded-*, X-Real-Ip,
	// Forwarded and X-Request-Id headers are believed. Default: none, so that those headers are
	// removed from every client, before its route is looked up: no condition, split or balancer of
	// any route sees them. Hazard: a prefix that is too wide lets a client choose the address that
	// limits and logs see.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// Backlog is how many finished handshakes the kernel holds for each loop until it accepts them.
	// Default: 4096. Hazard: net.core.somaxconn cuts it silently; plimsoll warns when it does.
	Backlog int `yaml:"backlog" default:"4096" min:"1" max:"65535"`
	// Limits bound what one client, and all clients, of this listener may hold.
	Limits Limits `yaml:"limits"`

	at Position
}

// Position is where the listener begins in its file.
func (l *Listener) Position() Position { return l.at }

// OffersHTTP2 says whether clients may speak HTTP/2.
func (l *Listener) OffersHTTP2() bool {
	if l.HTTP2 == nil {
		return l.TLS != nil
	}
	return *l.HTTP2
}

// AltSvcOff is what AltSvc says for no such header.
const AltSvcOff = "off"

// Same says whether two listeners mean the same, wherever they stand in their files.
func (l Listener) Same(as Listener) bool {
	l.at = as.at
	return reflect.DeepEqual(l, as)
}

// Limits bound what clients of a listener may hold and how slowly they may be.
type Limits struct {
	// MaxConnections is the most connections this listener holds at once; more are closed at once
	// and counted. Default: 0, bounded only by the descriptor limit.
	MaxConnections int `yaml:"max_connections" default:"0" min:"0" max:"100000000"`
	// MaxConnectionsPerAddress is the most connections of one client address (an IPv6 client counts
	// by its /64). Default: 0, no bound. Hazard: many users can share one address behind a
	// carrier's NAT.
	MaxConnectionsPerAddress int `yaml:"max_connections_per_address" default:"0" min:"0" max:"100000000"`
	// RequestLine is the longest request line; a longer one gets 414. Default: 8KB.
	RequestLine Size `yaml:"request_line" default:"8KB" min:"1KB" max:"64KB"`
	// HeaderBytes is the most bytes of a request's header fields; more gets 431. Default: 32KB.
	HeaderBytes Size `yaml:"header_bytes" default:"32KB" min:"1KB" max:"256KB"`
	// HeaderCount is the most header fields of a request; more gets 431. Default: 100.
	HeaderCount int `yaml:"header_count" default:"100" min:"1" max:"1000"`
	// HeadTimeout is how long a client may take from a request's first byte to the end of its head.
	// Default: 10s.
	HeadTimeout Duration `yaml:"head_timeout" default:"10s" min:"10ms" max:"1h"`
	// IdleTimeout is how long a connection may wait for its next request. Default: 75s.
	IdleTimeout Duration `yaml:"idle_timeout" default:"75s" min:"10ms" max:"24h"`
	// PingAfter is how long a client of HTTP/2 may be silent while it has streams until the gateway
	// asks by a PING whether it is there, and then how long it may take to say anything; a client that
	// does not is ended. Looked at once a second. Default: 15s. Hazard: much lower, and clients on
	// slow paths are taken for gone.
	PingAfter Duration `yaml:"ping_after" default:"15s" min:"1s" max:"24h"`
	// MinBodyRate is the slowest a request body may arrive, in bytes a second, over any ten
	// seconds, and the slowest a response that waits may be taken, over send_timeout. Default:
	// 240B. 0 turns it off. Hazard: without it a slow client can hold an upstream connection
	// forever.
	MinBodyRate Size `yaml:"min_body_rate" default:"240B" min:"0B" max:"1GB"`
	// SendTimeout is how long a client may take nothing of a response that waits for it, or less
	// than min_body_rate requires. What its machine has acknowledged counts as taken. This is
	// checked once in each such period, so it may take twice as long to end a client. Default: 30s.
	SendTimeout Duration `yaml:"send_timeout" default:"30s" min:"10ms" max:"24h"`
	// MaxRequests is the most requests of one connection before it is closed in an orderly way.
	// Default: 0, no bound.
	MaxRequests int `yaml:"max_requests" default:"0" min:"0" max:"1000000000"`
}

// ListenerTLS is how a listener speaks TLS.
type ListenerTLS struct {
	// Certificates are chosen by the name that the client asks for (exact names before wildcards);
	// the first is used when none fits. Files that change are read again. At least one is needed.
	Certificates []Certificate `yaml:"certificates" required:"true"`
	// MinVersion is the lowest TLS version, in quotes: "1.2" or "1.3". Default: "1.2".
	MinVersion string `yaml:"min_version" default:"1.2" enum:"1.2,1.3"`
	// ClientAuth asks clients for a certificate: "none", "request" (checked when given) or
	// "require". Default: "none".
	ClientAuth string `yaml:"client_auth" default:"none" enum:"none,request,require"`
	// ClientCA is the file of the authorities that client certificates must come from. Needed
	// unless client_auth is none.
	ClientCA string `yaml:"client_ca" file:"true"`
	// HandshakeTimeout ends a handshake that takes longer. Default: 10s.
	HandshakeTimeout Duration `yaml:"handshake_timeout" default:"10s" min:"10ms" max:"10m"`
	// MaxHandshakes is the most handshakes that are worked on at once; more wait in order up to the
	// same number again, then are refused. Up to sixteen times as many may be waiting for their
	// clients beside them. Default: 256.
	MaxHandshakes int `yaml:"max_handshakes" default:"256" min:"1" max:"100000"`
	// SessionTickets lets clients resume sessions without a full handshake. Default: true.
	SessionTickets *bool `yaml:"session_tickets" default:"true"`
	// TicketRotation is how often a new ticket key is made; the two before it still open tickets.
	// Default: 8h.
	TicketRotation Duration `yaml:"ticket_rotation" default:"8h" min:"1m" max:"168h"`
}

// Certificate is a certificate chain and its private key, as PEM files.
type Certificate struct {
	// Cert is the PEM file of the chain, the leaf first. Required.
	Cert string `yaml:"cert" required:"true" file:"true"`
	// Key is the PEM file of the leaf's private key. Required.
	Key string `yaml:"key" required:"true" file:"true"`
}

// Route is a match, an SLA class, a chain of policies and one action: exactly one of upstream,
// split, respond, redirect, files.
type Route struct {
	// Name in logs and metrics, unique among the routes. Default: the match, with " #2" and so on if
	// several have the same.
	Name string `yaml:"name"`
	// Match is a pattern of Go's ServeMux: "[METHOD ][HOST]/[PATH]" with {name}, {rest...} and {$};
	// a host may begin with "*.". Required.
	Match string `yaml:"match" required:"true"`
	// When adds conditions on header fields and query values, all of which must hold. Routes of the
	// same pattern are tried in order, and at most one of them may have no condition.
	When When `yaml:"when"`
	// SLA is the class, P0 (the most important) to P9; see classes. Default: P1.
	SLA string `yaml:"sla" default:"P1" enum:"P0,P1,P2,P3,P4,P5,P6,P7,P8,P9"`

	// Upstream to send to, by its name.
	Upstream string `yaml:"upstream" one:"true"`
	// Split sends shares of the route's requests to several upstreams.
	Split *Split `yaml:"split" one:"true"`
	// Respond answers at once.
	Respond *Respond `yaml:"respond" one:"true"`
	// Redirect sends the client elsewhere.
	Redirect *Redirect `yaml:"redirect" one:"true"`
	// Files serves the files of a directory. docs/files.md explains it.
	Files *Files `yaml:"files" one:"true"`

	// Timeout is how long an exchange may take from its request to the start of its response; while
	// a request body is on its way, it counts from the last bytes of it that moved: that came from
	// the client, or that the target's machine has acknowledged, give or take a quarter. While the
	// client does not take what is queued for it, the response is not read, and it counts from when
	// the client does. Default: 60s. Then the client gets 504.
	Timeout Duration `yaml:"timeout" default:"60s" min:"1ms" max:"24h"`
	// DeadlineHeader is the name of a header, such as X-Request-Deadline-Ms, that tells the
	// upstream how many milliseconds it has to answer: until the route's timeout, or the upstream's
	// per_try_timeout; for a retry, what is left then. A trusted peer of the listener shortens the
	// timeout by the same header: when its deadline has passed the request is not sent, and gets
	// 504 with the reason deadline_passed. The header is removed from the requests of all other
	// clients, on every route. Default: none.
	DeadlineHeader string `yaml:"deadline_header"`
	// StreamTimeout is how long an upstream's response may be silent once it has begun. Default:
	// 60s.
	StreamTimeout Duration `yaml:"stream_timeout" default:"60s" min:"1ms" max:"24h"`
	// TunnelTimeout is how long a tunnel (a WebSocket, or what else the upstream switched to) may
	// be silent in both directions. Default: 1h. A WebSocket is closed with 1001 then. Pings that
	// the gateway sends, and their answers, do not count; those of the client and the upstream do.
	TunnelTimeout Duration `yaml:"tunnel_timeout" default:"1h" min:"1ms" max:"24h"`
	// WebSocket says what becomes of the route's WebSockets. docs/websocket.md explains it.
	WebSocket WebSocket `yaml:"websocket"`
	// MaxBody is the longest request body; a longer one gets 413. Default: 0B, no bound.
	MaxBody Size `yaml:"max_body" default:"0B" min:"0B" max:"1TB"`
	// HoldBody is how much of a request body is received before a connection to the upstream is
	// taken, so that slow clients do not occupy those; the rest of a longer body is streamed, and
	// everything is while a loop holds 32MB. Default: 64KB. 0B streams from the first byte. Hazard:
	// a client that waits for an answer before it sends the rest of its body waits without success;
	// set 0B on its route. The gateway does not wait for a gRPC call to fill it: that much of the
	// call is kept for a retry.
	HoldBody Size `yaml:"hold_body" default:"64KB" min:"0B" max:"64KB"`
	// StripPrefix takes a leading part off the path before it is forwarded. Default: none.
	StripPrefix string `yaml:"strip_prefix"`
	// Rewrite replaces the path; it may use the pattern's {name} values and ${variables}. Default:
	// none.
	Rewrite string `yaml:"rewrite" template:"true"`
	// ForwardPath says in which form an unchanged path is forwarded: "canonical" is the form that
	// was matched, without "." and ".." segments and empty ones and with only the encodings that
	// are needed; "as_sent" is what the client sent. Both are matched by the canonical form.
	// Default: "canonical". With as_sent a path with "." or ".." segments, encoded or not, gets
	// 400. Hazard: the service may still read a path differently from the gateway, and so serve
	// with "/a//admin" what another route protects; use as_sent only for services that sign or
	// store paths byte for byte. It excludes rewrite and strip_prefix.
	ForwardPath string `yaml:"forward_path" default:"canonical" enum:"canonical,as_sent"`
	// Via is the name by which this gateway adds itself to the Via header of requests and
	// responses (RFC 9110, section 7.6.3), a token such as "edge-1". Default: none, Via is passed
	// on as it came.
	Via string `yaml:"via"`
	// RequestHeaders are changed before the request is forwarded. Values may use ${variables}.
	// Names that are removed or set also go from the request's trailers.
	RequestHeaders HeaderOps `yaml:"request_headers"`
	// ResponseHeaders are changed before the response goes to the client. Values may use
	// ${variables}. Names that are removed or set also go from the response's trailers and from
	// interim (1xx) responses.
	ResponseHeaders HeaderOps `yaml:"response_headers"`
	// RequestID keeps a trusted peer's X-Request-Id or makes one, forwards it and returns it.
	// Default: false.
	RequestID bool `yaml:"request_id" default:"false"`
	// Trace passes traceparent on, or begins one. Default: false.
	Trace bool `yaml:"trace" default:"false"`
	// Access allows and denies client addresses. Default: everyone.
	Access *Access `yaml:"access"`
	// Limits bound how many requests of each client, or of all, the route takes in a time. A
	// request must pass all of them, 8 at most; otherwise it gets 429, and costs nothing at the
	// other limits. Default: none. docs/protection-limits.md says which algorithm does what.
	Limits []RateLimit `yaml:"limits"`
	// Concurrency bounds how many requests of the route are under way at once, in all or of each
	// client: {max, key, max_per_value}, or max alone. Default: none.
	Concurrency *RouteConcurrency `yaml:"concurrency"`
	// Cache stores responses of the route's upstream and answers from them. Default: none is
	// stored. Routes for unsafe methods (POST, PUT, DELETE) of what is stored need it too: then
	// their success invalidates what is stored for the same URI.
	Cache *RouteCache `yaml:"cache"`
	// Guard refuses requests for keys that do not exist. Default: none is refused.
	Guard *Guard `yaml:"guard"`
	// Compress encodes the content of responses with zstd, brotli or gzip, for clients that take
	// it: true, or {encodings, min_size, types, level, adapt}. docs/compression.md explains it.
	// Default: none. Hazard: an attacker who can put text into a page beside a secret, and see how
	// long the encrypted response is, can guess the secret (BREACH); leave it out for routes that
	// do that.
	Compress *Compress `yaml:"compress"`
	// GRPCWeb translates calls of gRPC-Web, binary and text, to gRPC and back, for an upstream that
	// speaks HTTP/2. Default: false, they are passed on as they are. Browsers of other origins need
	// cors too: see docs/grpc.md.
	GRPCWeb bool `yaml:"grpc_web" default:"false"`
	// EarlyHints remembers, for each page of the route, the Link fields with rel preload,
	// modulepreload or preconnect, and sends them as a 103 (Early Hints) before the service is
	// asked for the page again. Clients of HTTP/2 and HTTP/3 get it. Only links that anyone may
	// know are remembered: docs/http2.md says which. Default: false.
	EarlyHints bool `yaml:"early_hints" default:"false"`
	// CORS answers preflights and adds the response headers that browsers ask for. Default: none.
	CORS *CORS `yaml:"cors"`
	// Mirror sends a copy of each request to a second upstream, whose answers are thrown away.
	// Default: none.
	Mirror *Mirror `yaml:"mirror"`
	// Fallback answers where the upstream failed or the request was shed. Default: none. The class
	// must allow the step static; see degrade of classes.
	Fallback *Fallback `yaml:"fallback"`

	at Position
}

// Position is where the route begins in its file.
func (r *Route) Position() Position { return r.at }

// WebSocket is what a route's WebSockets may do, over HTTP/1.1 and HTTP/2.
type WebSocket struct {
	// Max is how many of the route's are open at once in this instance, those that are asked for
	// and not answered yet included; one more gets 503 with the reason websockets_full. Default: 0,
	// no bound.
	Max int `yaml:"max" default:"0" min:"0" max:"1000000"`
	// MaxMessage is the longest message of a client, as it is sent: compressed, where that was
	// agreed on. A longer one closes the WebSocket with 1009, and nothing of the frame that goes
	// beyond is forwarded. Bytes that are not WebSocket frames close it with 1002; without a bound
	// they are carried as they come. Default: 0B, no bound.
	MaxMessage Size `yaml:"max_message" default:"0B" min:"0B" max:"1TB"`
	// PingInterval is after how long a silence of the client the gateway sends it a ping. A client
	// that is silent for as long again is considered gone, and its WebSocket is closed with 1001.
	// Default: 0s, never: a client that disappears is noticed by tunnel_timeout, or by the
	// upstream.
	PingInterval Duration `yaml:"ping_interval" default:"0s" min:"0s" max:"24h"`
	// Lifetime is how long a WebSocket may be open, whatever goes on in it. Then it is closed with
	// 1001. Default: 0s, no bound.
	Lifetime Duration `yaml:"lifetime" default:"0s" min:"0s" max:"720h"`
	// CloseGrace is how long the gateway waits, once it closes a WebSocket, for the frames under
	// way to end and for the close frames of both sides. Default: 5s. In a drain, drain.timeout
	// applies too, if it is shorter.
	CloseGrace Duration `yaml:"close_grace" default:"5s" min:"0s" max:"10m"`
}

// When are conditions on a request beside its pattern.
type When struct {
	// Headers: name to the exact value; "*" for any value, "" for absent.
	Headers map[string]string `yaml:"headers"`
	// Query: name to the exact value; "*" for any value, "" for absent.
	Query map[string]string `yaml:"query"`
}

// Split sends shares of a route's requests to several upstreams.
type Split struct {
	// Weights of the upstreams by name. At least one must be above 0. Required.
	Weights map[string]int `yaml:"weights" required:"true" min:"0" max:"1000"`
	// Sticky keeps a client on one upstream by a hash of "client_address", "header:NAME" or
	// "cookie:NAME". Default: none, each request is drawn independently.
	Sticky string `yaml:"sticky"`
}

// HeaderOps change header fields: remove first, then set, then add.
type HeaderOps struct {
	// Add appends fields.
	Add map[string]string `yaml:"add" template:"true"`
	// Set replaces fields, or adds them.
	Set map[string]string `yaml:"set" template:"true"`
	// Remove takes fields out.
	Remove []string `yaml:"remove"`
}

// Access allows and denies client addresses; the most specific prefix decides.
type Access struct {
	// Allow lists addresses and CIDR prefixes. Default: empty, which allows everyone whom deny does
	// not name. When it is not empty, an address that no prefix names is denied.
	Allow []string `yaml:"allow"`
	// Deny lists addresses and CIDR prefixes. Default: empty.
	Deny []string `yaml:"deny"`
}

// RateLimit bounds how many requests of each value of a key pass in a time.
type RateLimit struct {
	// Name of the limit in metrics, in the admin API and in the RateLimit fields of responses. A
	// reload carries the counts of a limit over to the one with the same name, key and algorithm.
	// Default: its place in the list, "1" for the first.
	Name string `yaml:"name"`
	// Rate is how many requests pass in a time: "N/s", "N/m", "N/h", "N/d" for a second, a minute,
	// an hour and a day, or "N/DURATION", such as "20/10s". Required.
	Rate string `yaml:"rate" required:"true"`
	// Algorithm says how requests are counted: "token_bucket" (a burst at once, then the rate),
	// "gcra" (the same with a burst of 1 unless it says more, so that requests keep their
	// distance), "leaky_bucket" (requests wait for their turn), "fixed_window" (so many in each
	// window, twice as many around its edge), "sliding_window" (weighs the window before) or
	// "sliding_log" (exact, and takes memory for each request). Default: "token_bucket".
	Algorithm string `yaml:"algorithm" default:"token_bucket" enum:"token_bucket,gcra,leaky_bucket,fixed_window,sliding_window,sliding_log"`
	// Burst is how many requests may come at once after a quiet time, with token_bucket and gcra.
	// Default: as many as the rate's number, or, with gcra, the cost of one request.
	Burst *int `yaml:"burst" min:"1" max:"1000000000"`
	// Cost of a request: a number, or {tokens, header, max} where trusted peers say what theirs
	// cost. It is taken from what the rate and the burst allow. Default: 1.
	Cost RequestCost `yaml:"cost"`
	// Key says what is counted apart: "client_address", "header:NAME", "cookie:NAME", "path:NAME"
	// or "query:NAME". Default: none, all requests of the route count together. Hazard: a client
	// chooses its headers; a limit on an unchecked header bounds only honest clients.
	Key string `yaml:"key"`
	// PrefixV4 is how many bits of a client's IPv4 address count. Default: 32.
	PrefixV4 int `yaml:"prefix_v4" default:"32" min:"1" max:"32"`
	// PrefixV6 is how many bits of a client's IPv6 address count. Default: 64, what one customer of
	// a provider has at least. Hazard: with 128 a single machine has more addresses than any limit
	// can count.
	PrefixV6 int `yaml:"prefix_v6" default:"64" min:"1" max:"128"`
	// Missing says what becomes of requests without the key: they count "together", as one value,
	// or "pass". Default: "together".
	Missing string `yaml:"missing" default:"together" enum:"together,pass"`
	// Values is how many values are counted apart, rounded up to a power of two; each takes 31
	// bytes. When so many are in use, new ones share buckets with others, at the limit's rate for
	// each bucket. Default: 0, for 65536, or as many as 32MB hold with sliding_log. A change makes
	// the counts start over.
	Values int `yaml:"values" default:"0" min:"0" max:"16777216"`
	// Queue is how many requests of a value leaky_bucket lets wait; more get 429. Default: 100.
	Queue int `yaml:"queue" default:"100" min:"1" max:"1000000"`
	// MaxWait is how long leaky_bucket lets a request wait; one that would wait for longer gets 429
	// at once. Needed with leaky_bucket, and shorter than the route's timeout. Default: 0s.
	MaxWait Duration `yaml:"max_wait" default:"0s" min:"0s" max:"24h"`
	// Overrides give values of the key another limit: a rate, or {rate, burst}. An address is named
	// as its network, such as 192.0.2.7 or 2001:db8:1:2::/64. With sliding_log each takes 8 bytes a
	// request of its rate at once, and all of a limit 1GB at most.
	Overrides map[string]RateOverride `yaml:"overrides"`
	// DryRun only counts whom the limit would refuse. Default: false.
	DryRun bool `yaml:"dry_run" default:"false"`
	// Headers says which responses carry the fields RateLimit and RateLimit-Policy
	// (draft-ietf-httpapi-ratelimit-headers-11): those of requests that are "refused", "always" or
	// "never". Default: "refused". Retry-After is in every refusal.
	Headers string `yaml:"headers" default:"refused" enum:"refused,always,never"`
	// Shared makes all instances count together, in Redis. Default: each counts for itself.
	// docs/protection-limits.md says what the modes promise. Not with leaky_bucket and sliding_log.
	Shared *SharedLimit `yaml:"shared"`
}

// RequestCost is how much of a limit a request takes.
type RequestCost struct {
	// Tokens are the cost of a request that does not say its own. Default: 1.
	Tokens int `yaml:"tokens" default:"1" min:"1" max:"1000000" scalar:"true"`
	// Header is the name of a field, such as X-Cost, by which the trusted peers of a listener
	// (trusted_proxies) say what a request costs: a number from 1 to max. A larger one counts as
	// max, anything else as tokens. Others are not believed. Not with sliding_log and shared.
	// Default: none.
	Header string `yaml:"header"`
	// Max is the most that a request can cost by its header. Needed with header. Default: 0.
	Max int `yaml:"max" default:"0" min:"0" max:"1000000"`
}

// SharedLimit makes the instances of a gateway count together. Limits share their counts that have
// the same route, name, algorithm, key and prefixes.
type SharedLimit struct {
	// Redis is the store, by its name. Required.
	Redis string `yaml:"redis" required:"true" scalar:"true"`
	// Mode: "exact" asks Redis for each decision; "leased" takes batches and decides here, so that
	// few requests wait for Redis, and lets up to a batch for each instance pass beyond the limit.
	// Default: "exact".
	Mode string `yaml:"mode" default:"exact" enum:"exact,leased"`
	// Batch is the largest lease, in requests, with mode leased. Default: 0, for a tenth of the
	// burst, or, with windows, of the rate's number.
	Batch int `yaml:"batch" default:"0" min:"0" max:"10000"`
	// Unavailable says what becomes of a request for which Redis does not answer in time: "local"
	// (this instance's own limit decides; see instances), "allow" (it passes) or "deny" (503).
	// Default: "local". Hazard: with deny an outage of Redis is one of the route.
	Unavailable string `yaml:"unavailable" default:"local" enum:"local,allow,deny"`
	// Instances is among how many the limit is divided while Redis is unavailable, with local.
	// Default: 1, each instance lets the whole limit pass.
	Instances int `yaml:"instances" default:"1" min:"1" max:"100000"`
}

// RouteConcurrency bounds how many requests of a route are under way at once, over all loops of
// this instance: from when its limits have let a request pass until the exchange is over, retries
// and waiting included. Tunnels and streams of events count as long as they last. At least one of
// max and max_per_value is needed. What a target can carry is better left to the upstream's
// concurrency, which finds it and lets requests wait by class; here nothing waits.
type RouteConcurrency struct {
	// Max is the most requests of the route; one more gets 503 with the reason route_full. Default:
	// 0, no bound.
	Max int `yaml:"max" default:"0" min:"0" max:"1000000" scalar:"true"`
	// Key says what max_per_value counts apart: "client_address" (an IPv6 client by its /64),
	// "header:NAME", "cookie:NAME", "path:NAME" or "query:NAME". Default: none. Hazard: many users
	// can share one address, and a client chooses its headers.
	Key string `yaml:"key"`
	// MaxPerValue is the most requests of each value of the key; one more gets 429 with the reason
	// client_full. Default: 0, no bound.
	MaxPerValue int `yaml:"max_per_value" default:"0" min:"0" max:"65535"`
	// Missing says what becomes of requests without the key: they count "together", as one value,
	// or "pass" and count for max alone. Default: "together".
	Missing string `yaml:"missing" default:"together" enum:"together,pass"`
	// Values is how many values are counted apart, rounded up to a power of two; each takes 4
	// bytes. When many more than a tenth of them have requests under way, some values count
	// together. Default: 65536. A change makes the counts of values begin afresh.
	Values int `yaml:"values" default:"65536" min:"2" max:"16777216"`
}

// RateOverride is the limit of one value.
type RateOverride struct {
	// Rate of this value, written as that of the limit. Required.
	Rate string `yaml:"rate" required:"true" scalar:"true"`
	// Burst of this value. Default: the limit's, in proportion to the rates.
	Burst *int `yaml:"burst" min:"1" max:"1000000000"`
}

// CORS is what browsers are told about requests from other origins.
type CORS struct {
	// Origins allowed: exact ("https://a.example"), with one leading wildcard label
	// ("https://*.a.example"), or "*". Required.
	Origins []string `yaml:"origins" required:"true"`
	// Methods allowed. Default: GET, HEAD, POST.
	Methods []string `yaml:"methods" default:"GET,HEAD,POST"`
	// Headers that requests may carry. Default: none beyond the safelisted.
	Headers []string `yaml:"headers"`
	// Expose lists response headers that scripts may read. Default: none beyond the safelisted.
	Expose []string `yaml:"expose"`
	// Credentials allows cookies. Default: false. It cannot be combined with the origin "*".
	Credentials bool `yaml:"credentials" default:"false"`
	// MaxAge is how long a browser may remember a preflight. Default: 10m.
	MaxAge Duration `yaml:"max_age" default:"10m" min:"0s" max:"24h"`
}

// Mirror sends copies of requests to a second upstream.
type Mirror struct {
	// Upstream that gets the copies. Required.
	Upstream string `yaml:"upstream" required:"true"`
	// Share of requests that are copied. Default: 100%.
	Share *Percent `yaml:"share" default:"100%"`
	// MaxBody is the longest body that is copied; requests with longer ones are not mirrored, and
	// counted. Default: 64KB.
	MaxBody Size `yaml:"max_body" default:"64KB" min:"0B" max:"16MB"`
}

// Admission is what happens to requests when an event loop has more of them than it can serve.
type Admission struct {
	// Mode: "enforce", which refuses, and reads connections that have not carried the highest class
	// in their turn; or "shadow", which refuses nobody and counts whom it would have refused.
	// Default: "enforce".
	Mode string `yaml:"mode" default:"enforce" enum:"enforce,shadow" scalar:"true"`
	// Delay: how late an event loop may come to look at a socket. From a quarter of it on the
	// lowest class is refused, at all of it every class but the highest one, and that one between
	// four and ten times as much. Default: 10ms. Hazard: thousands of clients that each wait for
	// their answer before they ask again can make a loop that late without an overload; try
	// "shadow" first.
	Delay Duration `yaml:"delay" default:"10ms" min:"1ms" max:"10s"`
}

// Admin is the listener for people and machines that run the gateway.
type Admin struct {
	// Address to listen on. Required. Off loopback, a token is demanded.
	Address string `yaml:"address" required:"true"`
	// Token that requests must carry as "Authorization: Bearer TOKEN". Default: none, which only a
	// loopback address may have.
	Token string `yaml:"token" secret:"true"`
}

// AccessLog writes one line for each exchange.
type AccessLog struct {
	// Path of the file, or "stdout". Required. The directory must exist.
	Path string `yaml:"path" required:"true"`
	// Format: "json" or "combined". Default: "json".
	Format string `yaml:"format" default:"json" enum:"json,combined"`
	// MaxSize after which the file is rotated. Default: 100MB. 0B never rotates.
	MaxSize *Size `yaml:"max_size" default:"100MB" min:"0B" max:"1TB"`
	// Keep is how many rotated files are kept. Default: 5.
	Keep *int `yaml:"keep" default:"5" min:"0" max:"1000"`
}

// Drain is how a stop treats the exchanges under way.
type Drain struct {
	// Timeout after which exchanges under way are cut. Default: 30s.
	Timeout Duration `yaml:"timeout" default:"30s" min:"0s" max:"24h"`
}
