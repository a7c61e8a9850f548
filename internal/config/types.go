// Package config turns a YAML file into a checked, immutable Config, or into a list of errors that
// each name a file, line and column. It knows the structure and the meaning of a configuration, but
// not how a gateway is built from it: it must not import any package that serves traffic.
//
// The comments on the fields in types*.go are the reference: docs/config.md is generated from them.
// Each says what the key does, its default, and the hazard of a wrong value. The struct tags hold
// every rule that needs no code, and no other place repeats them: the decoder, the JSON Schema, the
// reference and the defaults all read the tags.
//
//	default   the value of an absent key; without it, the zero value, and a pointer stays nil
//	min, max  limits of a number, a duration, a size, or of each value of a mapping of numbers
//	enum      the only allowed values, of a string or of each item of a list
//	required  the key must be present; a list or a mapping must not be empty
//	one       exactly one of the mapping's keys with this tag must be present
//	scalar    a bare scalar in place of the mapping is the value of this key
//	template  ${variables} of the exchange may be used
//	file      a path, relative to the directory of the configuration file
//	secret    never printed; if the value comes from ${NAME}, that is printed instead
package config

import "reflect"

// Config is one whole, checked configuration. It is never changed after Load returned it.
type Config struct {
	// Loops is the number of event loops. Each has its own thread. Default: 0, one for each CPU
	// that the process may use. Hazard: more loops than CPUs only add context switches.
	Loops int `yaml:"loops" default:"0" min:"0" max:"1024"`
	// Listeners are the addresses on which the gateway accepts clients. At least one is required.
	Listeners []Listener `yaml:"listeners" required:"true"`
	// Upstreams are the named services to which routes send requests.
	Upstreams map[string]*Upstream `yaml:"upstreams"`
	// Classes configure the SLA classes, P0 to P9, by name. The class says how important a request
	// is when not all requests can be served: lower numbers are served first. Default: P0 is 99.99%
	// of requests within 100ms, P1 99.95% within 500ms, P2 to P9 99% within 5s. P0 and P1 get no
	// static answers.
	Classes map[string]*Class `yaml:"classes"`
	// Redis configures Redis servers or clusters, by name. Instances of the gateway share them for
	// rate limits (shared), the cache (cache.redis) and guards (guard.redis).
	Redis map[string]*Redis `yaml:"redis"`
	// SLAHeader is the name of a request header, such as X-SLA-Class. With it, a trusted peer of
	// the listener (trusted_proxies) sets the class of a request, P0 to P9, instead of the route's
	// class. Any other value is ignored and counted. The header is removed from the requests of all
	// other clients. The gateway tells upstreams the class of each request in the same header, no
	// matter who chose the class, unless a route's request_headers remove it. Default: none.
	// Hazard: if a trusted peer passes on its clients' header, any of them can claim P0.
	SLAHeader string `yaml:"sla_header"`
	// Routes say what to do with which requests. The most specific match wins, in whatever order
	// routes are listed. Two routes that could both win are an error.
	Routes []Route `yaml:"routes"`
	// Cache limits the memory for the responses that routes with cache store.
	Cache CacheMemory `yaml:"cache"`
	// CompressMemory limits the memory of all encoders together, on all routes with compress. An
	// encoder takes 0.5MB to 1.7MB. If no encoder is free, a response is sent uncompressed.
	// Default: 256MB, shared evenly by the loops. Hazard: an event stream keeps its encoder until
	// it ends.
	CompressMemory Size `yaml:"compress_memory" default:"256MB" min:"16MB" max:"64GB"`
	// Admission refuses requests, the lowest class first, when the gateway's own CPU is the
	// bottleneck. Default: no request is refused, and all wait alike.
	Admission *Admission `yaml:"admission"`
	// Admin is the address for metrics, health checks of the gateway, and the JSON API. Default:
	// none.
	Admin *Admin `yaml:"admin"`
	// AccessLog says where to write one line for each exchange. Default: no access log.
	AccessLog *AccessLog `yaml:"access_log"`
	// Drain says how a stop or an upgrade treats exchanges in flight.
	Drain Drain `yaml:"drain"`

	sources *sources // what is shown instead of what the environment gave
	given   given
}

// Listener is an address on which the gateway accepts clients.
type Listener struct {
	// Address to listen on: "host:port", ":port", "[v6]:port". Required.
	Address string `yaml:"address" required:"true"`
	// TLS turns on TLS for this listener. Default: plain text.
	TLS *ListenerTLS `yaml:"tls"`
	// HTTP2 offers HTTP/2 in addition to HTTP/1.1. TLS clients negotiate it by ALPN. Clients
	// without TLS have to start with it (prior knowledge, as gRPC does). Default: true with tls,
	// false without.
	HTTP2 *bool `yaml:"http2"`
	// HTTP3 serves HTTP/3 on the UDP port with the same number. It requires tls. Default: false.
	// Hazard: firewalls that let TCP pass need a rule for UDP, and HTTP/3 costs several times the
	// CPU time of HTTP/2: see docs/http3.md.
	HTTP3 bool `yaml:"http3" default:"false"`
	// EarlyData lets returning HTTP/3 clients send requests in their first packet (0-RTT). Before
	// the handshake is complete, only GET, HEAD, OPTIONS and TRACE are served, and they are
	// forwarded with Early-Data: 1. Other methods wait for the handshake. It requires http3 and
	// session_tickets. Default: false. Hazard: anyone who has recorded such a request can replay it
	// any number of times. A service that changes something on GET must answer 425 to Early-Data: 1
	// (RFC 8470).
	EarlyData bool `yaml:"early_data" default:"false"`
	// AltSvc is the Alt-Svc header of responses over HTTP/1.1 and HTTP/2. It tells browsers that
	// HTTP/3 is available. "off" sends no header. Default: with http3, h3 at the listener's own
	// port, for a day. Set it if clients reach the listener at another port: 'h3=":443"; ma=86400'.
	// If the service sends an Alt-Svc header, that one is kept. After a reload or an upgrade has
	// removed http3, the listener sends "clear".
	AltSvc string `yaml:"alt_svc"`
	// TrustedProxies are the peers (addresses or CIDR prefixes) whose X-Forwarded-*, X-Real-Ip,
	// Forwarded and X-Request-Id headers the gateway believes. It removes these headers from the
	// requests of all other clients before it looks up the route, so no condition, split or
	// balancer sees them. Default: none. Hazard: if a prefix is too wide, clients can choose the
	// address that limits and logs see.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// Backlog is how many completed TCP handshakes the kernel queues for each loop until the loop
	// accepts them. Default: 4096. Hazard: the kernel silently caps it at net.core.somaxconn.
	// plimsoll warns if it does.
	Backlog int `yaml:"backlog" default:"4096" min:"1" max:"65535"`
	// Limits restrict what one client, or all clients of this listener together, may use.
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

// Limits restrict what the clients of a listener may use, and how slow they may be.
type Limits struct {
	// MaxConnections is the maximum number of open connections of this listener. Further
	// connections are closed at once and counted. Default: 0, limited only by the file descriptors.
	MaxConnections int `yaml:"max_connections" default:"0" min:"0" max:"100000000"`
	// MaxConnectionsPerAddress is the maximum number of open connections of one client address.
	// IPv6 clients are counted by their /64. Default: 0, no limit. Hazard: many users can share one
	// address behind a carrier's NAT.
	MaxConnectionsPerAddress int `yaml:"max_connections_per_address" default:"0" min:"0" max:"100000000"`
	// RequestLine is the maximum length of a request line. A longer one gets 414. Default: 8KB.
	RequestLine Size `yaml:"request_line" default:"8KB" min:"1KB" max:"64KB"`
	// HeaderBytes is the maximum size of all header fields of a request together. A request with
	// more gets 431. Default: 32KB.
	HeaderBytes Size `yaml:"header_bytes" default:"32KB" min:"1KB" max:"256KB"`
	// HeaderCount is the maximum number of header fields of a request. A request with more gets
	// 431. Default: 100.
	HeaderCount int `yaml:"header_count" default:"100" min:"1" max:"1000"`
	// HeadTimeout is the maximum time from the first byte of a request to the end of its head.
	// Default: 10s.
	HeadTimeout Duration `yaml:"head_timeout" default:"10s" min:"10ms" max:"1h"`
	// IdleTimeout is how long a connection may wait for its next request. Default: 75s.
	IdleTimeout Duration `yaml:"idle_timeout" default:"75s" min:"10ms" max:"24h"`
	// PingAfter is how long an HTTP/2 client with open streams may be silent before the gateway
	// sends it a PING. If the client stays silent for the same time again, its connection is
	// closed. The gateway checks this once a second. Default: 15s. Hazard: with a much lower value,
	// clients on slow networks lose their connections.
	PingAfter Duration `yaml:"ping_after" default:"15s" min:"1s" max:"24h"`
	// MinBodyRate is the minimum rate, in bytes per second, at which a client must send a request
	// body and take a response that waits for it. Request bodies are measured over ten seconds,
	// responses over send_timeout. Default: 240B. 0 turns it off. Hazard: without it, a slow client
	// can hold an upstream connection forever.
	MinBodyRate Size `yaml:"min_body_rate" default:"240B" min:"0B" max:"1GB"`
	// SendTimeout is the period over which the gateway checks that a client takes the response that
	// waits for it. A response is cut off if the client took nothing of it in that period, or less
	// than min_body_rate requires. Bytes that the client's kernel has acknowledged count as taken.
	// Because of the fixed period, it can take up to twice as long to cut off a response. Default:
	// 30s.
	SendTimeout Duration `yaml:"send_timeout" default:"30s" min:"10ms" max:"24h"`
	// MaxRequests is the maximum number of requests on one connection. After that, the connection
	// is closed gracefully. Default: 0, no limit.
	MaxRequests int `yaml:"max_requests" default:"0" min:"0" max:"1000000000"`
}

// ListenerTLS configures TLS for a listener.
type ListenerTLS struct {
	// Certificates are selected by the server name that the client asks for (SNI). Exact names win
	// over wildcards. If none matches, the first certificate is used. Changed files are loaded
	// automatically. At least one is required.
	Certificates []Certificate `yaml:"certificates" required:"true"`
	// MinVersion is the minimum TLS version, in quotes: "1.2" or "1.3". Default: "1.2".
	MinVersion string `yaml:"min_version" default:"1.2" enum:"1.2,1.3"`
	// ClientAuth says whether clients are asked for a certificate: "none", "request" (optional,
	// verified if the client sends one) or "require". Default: "none".
	ClientAuth string `yaml:"client_auth" default:"none" enum:"none,request,require"`
	// ClientCA is the file with the certificates of the authorities that may issue client
	// certificates. Required unless client_auth is none.
	ClientCA string `yaml:"client_ca" file:"true"`
	// HandshakeTimeout is the maximum duration of a handshake. A longer one is aborted. Default:
	// 10s.
	HandshakeTimeout Duration `yaml:"handshake_timeout" default:"10s" min:"10ms" max:"10m"`
	// MaxHandshakes is how many handshakes are processed at once. The same number again may wait in
	// a queue. Beyond that, handshakes are refused. Handshakes that wait for a message of their
	// client do not count, up to sixteen times this number. Default: 256.
	MaxHandshakes int `yaml:"max_handshakes" default:"256" min:"1" max:"100000"`
	// SessionTickets lets clients resume sessions without a full handshake. Default: true.
	SessionTickets *bool `yaml:"session_tickets" default:"true"`
	// TicketRotation is how often a new ticket key replaces the current one. Tickets of the two
	// previous keys are still accepted. Default: 8h.
	TicketRotation Duration `yaml:"ticket_rotation" default:"8h" min:"1m" max:"168h"`
}

// Certificate is a certificate chain and its private key, as PEM files.
type Certificate struct {
	// Cert is the PEM file with the certificate chain, the leaf first. Required.
	Cert string `yaml:"cert" required:"true" file:"true"`
	// Key is the PEM file with the leaf's private key. Required.
	Key string `yaml:"key" required:"true" file:"true"`
}

// Route consists of a match, an SLA class, policies and one action. The action is exactly one of
// upstream, split, respond, redirect and files.
type Route struct {
	// Name of the route in logs and metrics. It must be unique. Default: the match, with " #2" and
	// so on if several routes have the same match.
	Name string `yaml:"name"`
	// Match is a pattern as in Go's ServeMux: "[METHOD ][HOST]/[PATH]" with {name}, {rest...} and
	// {$}. A host may begin with "*.". Required.
	Match string `yaml:"match" required:"true"`
	// When adds conditions on header fields and query parameters. All of them must hold. Routes
	// with the same pattern are tried in order, and at most one of them may have no condition.
	When When `yaml:"when"`
	// SLA is the SLA class, P0 (the most important) to P9: see classes. Default: P1.
	SLA string `yaml:"sla" default:"P1" enum:"P0,P1,P2,P3,P4,P5,P6,P7,P8,P9"`

	// Upstream is the name of the upstream that gets the requests.
	Upstream string `yaml:"upstream" one:"true"`
	// Split distributes the route's requests among several upstreams.
	Split *Split `yaml:"split" one:"true"`
	// Respond sends a fixed answer.
	Respond *Respond `yaml:"respond" one:"true"`
	// Redirect sends the client to another URL.
	Redirect *Redirect `yaml:"redirect" one:"true"`
	// Files serves the files of a directory: see docs/files.md.
	Files *Files `yaml:"files" one:"true"`

	// Timeout is the maximum time from a request to the start of its response. After that, the
	// client gets 504. While a request body is being sent, the time starts again whenever bytes of
	// it arrive from the client or are acknowledged by the target's kernel. The gateway checks for
	// acknowledgements four times per timeout. While the client does not take the data that is
	// queued for it, the gateway does not read the response, and the time starts again when the
	// client takes it. Default: 60s.
	Timeout Duration `yaml:"timeout" default:"60s" min:"1ms" max:"24h"`
	// DeadlineHeader is the name of a header, such as X-Request-Deadline-Ms, that tells the
	// upstream how many milliseconds it has to answer. This is the time until the route's timeout,
	// or until the upstream's per_try_timeout if that is earlier. For a retry it is the time that
	// is left then. A trusted peer of the listener can shorten the timeout with the same header.
	// Once that deadline has passed, the request is not sent and gets 504 with the reason
	// deadline_passed. The header is removed from the requests of all other clients, on every
	// route. Default: none.
	DeadlineHeader string `yaml:"deadline_header"`
	// StreamTimeout is how long an upstream may be silent once its response has begun. Default:
	// 60s.
	StreamTimeout Duration `yaml:"stream_timeout" default:"60s" min:"1ms" max:"24h"`
	// TunnelTimeout is how long a tunnel may be silent in both directions. A tunnel is a WebSocket
	// or another protocol that the upstream switched to. A silent WebSocket is closed with 1001.
	// Pings of the client and the upstream count as traffic. Pings of the gateway and their answers
	// do not. Default: 1h.
	TunnelTimeout Duration `yaml:"tunnel_timeout" default:"1h" min:"1ms" max:"24h"`
	// WebSocket configures the route's WebSockets: see docs/websocket.md.
	WebSocket WebSocket `yaml:"websocket"`
	// MaxBody is the maximum length of a request body. A longer one gets 413. Default: 0B, no
	// limit.
	MaxBody Size `yaml:"max_body" default:"0B" min:"0B" max:"1TB"`
	// HoldBody is how much of a request body the gateway receives before it takes a connection to
	// the upstream, so that slow clients do not occupy these connections. The rest of a longer body
	// is streamed. While a loop holds 32MB, all bodies are streamed. For a gRPC call, the gateway
	// does not wait for the body: it keeps this much of the call for a retry. Default: 64KB. 0B
	// streams from the first byte. Hazard: a client that wants an answer before it sends the rest
	// of its body does not get one. Set 0B on its route.
	HoldBody Size `yaml:"hold_body" default:"64KB" min:"0B" max:"64KB"`
	// StripPrefix is removed from the beginning of the path before the request is forwarded.
	// Default: none.
	StripPrefix string `yaml:"strip_prefix"`
	// Rewrite replaces the path. It may use {name} values of the pattern and ${variables}. Default:
	// none.
	Rewrite string `yaml:"rewrite" template:"true"`
	// ForwardPath says in which form an unchanged path is forwarded. "canonical" is the form used
	// for matching: it has no ".", ".." and empty segments, and only the encodings that are needed.
	// "as_sent" is the path that the client sent. Matching always uses the canonical form. With
	// as_sent, a path with "." or ".." segments, encoded or not, gets 400, and rewrite and
	// strip_prefix cannot be used. Default: "canonical". Hazard: with as_sent, the service may read
	// a path differently from the gateway, and so serve with "/a//admin" what another route
	// protects. Use it only for services that sign or store paths byte for byte.
	ForwardPath string `yaml:"forward_path" default:"canonical" enum:"canonical,as_sent"`
	// Via is the name with which this gateway adds itself to the Via header of requests and
	// responses (RFC 9110, section 7.6.3). It is a token such as "edge-1". Default: none, Via is
	// passed on unchanged.
	Via string `yaml:"via"`
	// RequestHeaders change the request's header fields before it is forwarded. Values may use
	// ${variables}. Fields that are removed or set are also removed from the request's trailers.
	RequestHeaders HeaderOps `yaml:"request_headers"`
	// ResponseHeaders change the response's header fields before it is sent to the client. Values
	// may use ${variables}. Fields that are removed or set are also removed from the response's
	// trailers and from interim (1xx) responses.
	ResponseHeaders HeaderOps `yaml:"response_headers"`
	// RequestID gives each request an X-Request-Id: that of a trusted peer, or a new one. The
	// gateway forwards it and returns it in the response. Default: false.
	RequestID bool `yaml:"request_id" default:"false"`
	// Trace forwards a valid traceparent header, and creates one if there is none. Default: false.
	Trace bool `yaml:"trace" default:"false"`
	// Access allows and denies client addresses. Default: all addresses are allowed.
	Access *Access `yaml:"access"`
	// Limits are rate limits: how many requests of each client, or of all clients together, the
	// route accepts in a given time. There may be up to 8, and a request must pass all of them.
	// Otherwise it gets 429 and costs nothing at the other limits. Default: none.
	// docs/protection-limits.md compares the algorithms.
	Limits []RateLimit `yaml:"limits"`
	// Concurrency limits how many requests of the route are in flight at once, in total or for each
	// client: {max, key, max_per_value}, or just max. Default: none.
	Concurrency *RouteConcurrency `yaml:"concurrency"`
	// Cache stores responses of the route's upstream and answers requests from them. A successful
	// unsafe request (such as POST, PUT or DELETE) invalidates what is stored for its URI, even if
	// its own route has no cache. Default: nothing is stored.
	Cache *RouteCache `yaml:"cache"`
	// Guard refuses requests for keys that do not exist. Default: none.
	Guard *Guard `yaml:"guard"`
	// Compress encodes responses with zstd, brotli or gzip, for clients that accept it: true, or
	// {encodings, min_size, types, level, adapt}. docs/compression.md explains it. Default: none.
	// Hazard: an attacker who can put text into a page that also contains a secret, and who sees
	// the length of the encrypted response, can guess the secret (BREACH). Do not use compress on
	// routes with such pages.
	Compress *Compress `yaml:"compress"`
	// GRPCWeb translates gRPC-Web calls, binary and text, to gRPC and back, for an upstream that
	// speaks HTTP/2. Default: false, they are forwarded unchanged. Browsers on other origins also
	// need cors: see docs/grpc.md.
	GRPCWeb bool `yaml:"grpc_web" default:"false"`
	// EarlyHints remembers, for each page of the route, the Link fields with rel preload,
	// modulepreload or preconnect. When the page is requested again, the gateway sends these links
	// in a 103 (Early Hints) before it asks the service. Only HTTP/2 and HTTP/3 clients get it.
	// Only public links are remembered: docs/http2.md says which. Default: false.
	EarlyHints bool `yaml:"early_hints" default:"false"`
	// CORS answers preflight requests and adds the response headers that browsers need for requests
	// from other origins. Default: none.
	CORS *CORS `yaml:"cors"`
	// Mirror sends copies of requests to a second upstream and discards the answers. Default: none.
	Mirror *Mirror `yaml:"mirror"`
	// Fallback is a static answer for requests whose upstream failed, or that were shed. The
	// route's class must allow it: see degrade in classes. Default: none.
	Fallback *Fallback `yaml:"fallback"`

	at Position
}

// Position is where the route begins in its file.
func (r *Route) Position() Position { return r.at }

// WebSocket configures a route's WebSockets, over all versions of HTTP.
type WebSocket struct {
	// Max is the maximum number of open WebSockets of the route in this instance. It includes those
	// that the upstream has not answered yet. One more gets 503 with the reason websockets_full.
	// Default: 0, no limit.
	Max int `yaml:"max" default:"0" min:"0" max:"1000000"`
	// MaxMessage is the maximum length of a client's message as it is sent: if compression was
	// negotiated, after compression. A longer message closes the WebSocket with 1009, and nothing
	// of the frame that exceeds the limit is forwarded. Bytes that are not WebSocket frames close
	// it with 1002. Without this limit, such bytes are forwarded unchanged. Default: 0B, no limit.
	MaxMessage Size `yaml:"max_message" default:"0B" min:"0B" max:"1TB"`
	// PingInterval is how long a client may be silent before the gateway sends it a ping. If the
	// client stays silent for the same time again, it is considered gone, and its WebSocket is
	// closed with 1001. Default: 0s, no pings. A client that disappears is then noticed only
	// through tunnel_timeout or by the upstream.
	PingInterval Duration `yaml:"ping_interval" default:"0s" min:"0s" max:"24h"`
	// Lifetime is how long a WebSocket may be open, active or not. After that, it is closed with
	// 1001. Default: 0s, no limit.
	Lifetime Duration `yaml:"lifetime" default:"0s" min:"0s" max:"720h"`
	// CloseGrace is how long the gateway, when it closes a WebSocket, waits for frames in transit
	// to end and for the close frames of both sides. In a drain, drain.timeout applies too if it is
	// shorter. Default: 5s.
	CloseGrace Duration `yaml:"close_grace" default:"5s" min:"0s" max:"10m"`
}

// When adds conditions to the pattern of a route.
type When struct {
	// Headers maps names of header fields to the exact value. "*" stands for any value, "" for an
	// absent field.
	Headers map[string]string `yaml:"headers"`
	// Query maps names of query parameters to the exact value. "*" stands for any value, "" for an
	// absent parameter.
	Query map[string]string `yaml:"query"`
}

// Split distributes a route's requests among several upstreams.
type Split struct {
	// Weights of the upstreams, by name. At least one must be above 0. Required.
	Weights map[string]int `yaml:"weights" required:"true" min:"0" max:"1000"`
	// Sticky keeps each client on one upstream, by a hash of "client_address", "header:NAME" or
	// "cookie:NAME". Default: none, each request is assigned at random.
	Sticky string `yaml:"sticky"`
}

// HeaderOps change header fields: first remove, then set, then add.
type HeaderOps struct {
	// Add appends fields. Existing fields with the same name stay.
	Add map[string]string `yaml:"add" template:"true"`
	// Set replaces fields, or adds them if there are none with that name.
	Set map[string]string `yaml:"set" template:"true"`
	// Remove deletes fields.
	Remove []string `yaml:"remove"`
}

// Access allows and denies client addresses. The most specific prefix decides.
type Access struct {
	// Allow lists addresses and CIDR prefixes. If it is not empty, addresses that are in neither
	// list are denied. Default: empty, all addresses that are not in deny are allowed.
	Allow []string `yaml:"allow"`
	// Deny lists addresses and CIDR prefixes. Default: empty.
	Deny []string `yaml:"deny"`
}

// CORS says what browsers may do in requests from other origins.
type CORS struct {
	// Origins that are allowed: exact ("https://a.example"), with one leading wildcard label
	// ("https://*.a.example"), or "*". Required.
	Origins []string `yaml:"origins" required:"true"`
	// Methods that are allowed. Default: GET, HEAD, POST.
	Methods []string `yaml:"methods" default:"GET,HEAD,POST"`
	// Headers that requests may carry. Default: only the safelisted ones.
	Headers []string `yaml:"headers"`
	// Expose lists response headers that scripts may read. Default: only the safelisted ones.
	Expose []string `yaml:"expose"`
	// Credentials allows requests with credentials, such as cookies. It cannot be combined with the
	// origin "*". Default: false.
	Credentials bool `yaml:"credentials" default:"false"`
	// MaxAge is how long a browser may cache the answer to a preflight request. Default: 10m.
	MaxAge Duration `yaml:"max_age" default:"10m" min:"0s" max:"24h"`
}

// Mirror sends copies of requests to a second upstream.
type Mirror struct {
	// Upstream that gets the copies. Required.
	Upstream string `yaml:"upstream" required:"true"`
	// Share of requests to copy. Default: 100%.
	Share *Percent `yaml:"share" default:"100%"`
	// MaxBody is the maximum length of a request body that is copied. Requests with longer bodies
	// are counted and not mirrored. Default: 64KB.
	MaxBody Size `yaml:"max_body" default:"64KB" min:"0B" max:"16MB"`
}

// Admission says what happens when an event loop gets more requests than it can serve.
type Admission struct {
	// Mode is "enforce" or "shadow". "enforce" refuses requests. While a loop is behind, it also
	// makes connections that have never carried the highest class wait their turn to be read.
	// "shadow" refuses nothing, and counts the requests that it would have refused. Default:
	// "enforce".
	Mode string `yaml:"mode" default:"enforce" enum:"enforce,shadow" scalar:"true"`
	// Delay is how late an event loop may get to a socket. The gateway begins to refuse the lowest
	// class at a quarter of this delay. At the full delay, it refuses all classes except the
	// highest. Between four and ten times the delay, it refuses more and more of the highest class.
	// Default: 10ms. Hazard: thousands of clients that each wait for an answer before they send the
	// next request can delay a loop this much without an overload. Try "shadow" first.
	Delay Duration `yaml:"delay" default:"10ms" min:"1ms" max:"10s"`
}

// Admin is the listener for operators and monitoring.
type Admin struct {
	// Address to listen on. An address that is not loopback needs a token. Required.
	Address string `yaml:"address" required:"true"`
	// Token that requests must carry as "Authorization: Bearer TOKEN". Default: none, which is
	// allowed only with a loopback address.
	Token string `yaml:"token" secret:"true"`
}

// AccessLog writes one line for each exchange.
type AccessLog struct {
	// Path of the file, or "stdout". The directory must exist. Required.
	Path string `yaml:"path" required:"true"`
	// Format: "json" or "combined". Default: "json".
	Format string `yaml:"format" default:"json" enum:"json,combined"`
	// MaxSize is the size at which the file is rotated. Default: 100MB. 0B turns rotation off.
	MaxSize *Size `yaml:"max_size" default:"100MB" min:"0B" max:"1TB"`
	// Keep is how many rotated files are kept. Default: 5.
	Keep *int `yaml:"keep" default:"5" min:"0" max:"1000"`
}

// Drain says how a stop or an upgrade treats exchanges in flight.
type Drain struct {
	// Timeout is how long exchanges in flight may take to finish. After that, they are cut off.
	// Default: 30s.
	Timeout Duration `yaml:"timeout" default:"30s" min:"0s" max:"24h"`
}
