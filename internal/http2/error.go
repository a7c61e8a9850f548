package http2

import "net/http"

// Code is an error code of RST_STREAM and GOAWAY (RFC 9113, section 7). Other values may arrive and
// have no meaning.
type Code uint32

// The codes.
const (
	NoError Code = iota
	ProtocolError
	InternalError
	FlowControlError
	SettingsTimeout
	StreamClosed
	FrameSizeError
	RefusedStream
	Cancel
	CompressionError
	ConnectError
	EnhanceYourCalm
	InadequateSecurity
	HTTP11Required
)

// Error is a violation by the peer: the reason, and what it ends. The zero value means no error.
type Error struct {
	Reason Reason
	// Stream is the stream that the error ends (RFC 9113, section 5.4.2), or 0 if it ends the
	// connection.
	Stream uint32
}

// Failed reports whether there is an error.
func (e Error) Failed() bool { return e.Reason != OK }

// Code is the error code to send to the peer.
func (e Error) Code() Code { return e.Reason.Code() }

// Error makes an Error usable as an error. It is the reason's label.
func (e Error) Error() string {
	return e.Reason.Error()
}

// Reason is why a frame, a message or a connection was refused. The set of reasons is fixed:
// refusals are counted by reason, and each reason has one error code.
type Reason uint8

// What can be wrong. OK is not an error.
const (
	OK Reason = iota

	// Of frames and their order.
	BadPreface             // the client's first bytes are not Preface
	NoSettings             // the first frame is not SETTINGS, or is an acknowledgement
	FrameTooLarge          // longer than SETTINGS_MAX_FRAME_SIZE
	BadFrameSize           // a length that the type does not allow
	StreamZero             // stream 0 in a frame that must belong to a stream
	NotStreamZero          // a stream in a frame that must belong to the connection
	EvenStream             // a stream number that only a server's push could have
	BadPadding             // more padding than payload
	MissingContinuation    // a field block was not complete, and another frame came
	UnexpectedContinuation // CONTINUATION with no field block to continue
	Pushed                 // PUSH_PROMISE, which is never allowed
	ZeroIncrement          // WINDOW_UPDATE by 0
	SelfDependency         // a stream whose priority depends on itself
	ClientOnly             // PRIORITY_UPDATE from a server

	// Of settings and windows.
	BadSetting     // a value that the setting cannot have
	BadWindow      // SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1
	WindowOverflow // a window that grew above 2^31-1
	WindowExceeded // more data than the window allowed

	// Of messages. All but the limits make the message malformed (RFC 9113, section 8.1.1).
	BadFieldName     // a name that is not a token in lower case
	BadFieldValue    // a control character in a value, or white space around it
	LatePseudo       // a pseudo-field after a regular one, or in trailers
	UnknownPseudo    // a pseudo-field that such a message must not have
	RepeatedPseudo   // a pseudo-field twice
	MissingPseudo    // a required pseudo-field is absent
	BadMethod        // :method is not a token, or too long
	BadScheme        // :scheme is neither http nor https
	BadPath          // :path is empty, does not begin with "/", or has bytes that no target has
	BadHost          // no authority, more than one Host, or one that is not a host
	HostMismatch     // Host disagrees with :authority
	BadStatus        // :status is not three digits from 100 to 599, or 101
	ConnectionField  // a field that concerns a connection
	BadContentLength // not a number, too large, repeated, or where none may be
	LengthMismatch   // more or less data than Content-Length says
	UnendedMessage   // trailers that do not end the stream
	EarlyEnd         // an interim response that ends the stream
	Connect          // an ordinary CONNECT, which the gateway refuses
	PathTooLong      // Limits.Path
	HeadTooLarge     // Limits.Head
	TrailersTooLarge // Limits.Head, of a trailer section
	TooManyFields    // Limits.Fields

	// Of streams and time, which the caller checks.
	IdleStream    // a frame for a stream that has not begun
	ClosedStream  // a frame for a stream that is over
	StreamRefused // more streams at once than allowed, or a stream after GOAWAY
	BadBlock      // a field block that cannot be decoded
	HeadTimeout   // a head, or the beginning of the connection, that took too long
	Silent        // a PING was not answered

	// Of actions that a peer repeats too often: see Budget.
	TooManyResets
	TooManyFaults
	TooManySettings
	TooManyPings
	TooManyPriorities
	TooManyWindowUpdates
	TooManyEmptyFrames
	TooManySmallFrames
	TooManyGoAways
	TooManyUnknownFrames
	TooManyContinuations
	BlockTooLarge

	reasons // the count
)

// Reasons is the number of Reason values, OK included, for arrays of counters.
const Reasons = int(reasons)

// meanings has each reason's label and code.
var meanings = [reasons]struct {
	label string
	code  Code
}{
	OK: {"ok", NoError},

	BadPreface:             {"bad_preface", ProtocolError},
	NoSettings:             {"no_settings", ProtocolError},
	FrameTooLarge:          {"frame_too_large", FrameSizeError},
	BadFrameSize:           {"bad_frame_size", FrameSizeError},
	StreamZero:             {"stream_zero", ProtocolError},
	NotStreamZero:          {"not_stream_zero", ProtocolError},
	EvenStream:             {"even_stream", ProtocolError},
	BadPadding:             {"bad_padding", ProtocolError},
	MissingContinuation:    {"missing_continuation", ProtocolError},
	UnexpectedContinuation: {"unexpected_continuation", ProtocolError},
	Pushed:                 {"pushed", ProtocolError},
	ZeroIncrement:          {"zero_increment", ProtocolError},
	SelfDependency:         {"self_dependency", ProtocolError},
	ClientOnly:             {"client_only", ProtocolError},

	BadSetting:     {"bad_setting", ProtocolError},
	BadWindow:      {"bad_window", FlowControlError},
	WindowOverflow: {"window_overflow", FlowControlError},
	WindowExceeded: {"window_exceeded", FlowControlError},

	BadFieldName:     {"bad_field_name", ProtocolError},
	BadFieldValue:    {"bad_field_value", ProtocolError},
	LatePseudo:       {"late_pseudo", ProtocolError},
	UnknownPseudo:    {"unknown_pseudo", ProtocolError},
	RepeatedPseudo:   {"repeated_pseudo", ProtocolError},
	MissingPseudo:    {"missing_pseudo", ProtocolError},
	BadMethod:        {"bad_method", ProtocolError},
	BadScheme:        {"bad_scheme", ProtocolError},
	BadPath:          {"bad_path", ProtocolError},
	BadHost:          {"bad_host", ProtocolError},
	HostMismatch:     {"host_mismatch", ProtocolError},
	BadStatus:        {"bad_status", ProtocolError},
	ConnectionField:  {"connection_field", ProtocolError},
	BadContentLength: {"bad_content_length", ProtocolError},
	LengthMismatch:   {"length_mismatch", ProtocolError},
	UnendedMessage:   {"unended_message", ProtocolError},
	EarlyEnd:         {"early_end", ProtocolError},
	Connect:          {"connect", ConnectError},
	PathTooLong:      {"path_too_long", EnhanceYourCalm},
	HeadTooLarge:     {"head_too_large", EnhanceYourCalm},
	TrailersTooLarge: {"trailers_too_large", EnhanceYourCalm},
	TooManyFields:    {"too_many_fields", EnhanceYourCalm},

	IdleStream:    {"idle_stream", ProtocolError},
	ClosedStream:  {"closed_stream", StreamClosed},
	StreamRefused: {"stream_refused", RefusedStream},
	BadBlock:      {"bad_block", CompressionError},
	HeadTimeout:   {"head_timeout", SettingsTimeout},
	Silent:        {"silent", NoError},

	TooManyResets:        {"too_many_resets", EnhanceYourCalm},
	TooManyFaults:        {"too_many_faults", EnhanceYourCalm},
	TooManySettings:      {"too_many_settings", EnhanceYourCalm},
	TooManyPings:         {"too_many_pings", EnhanceYourCalm},
	TooManyPriorities:    {"too_many_priorities", EnhanceYourCalm},
	TooManyWindowUpdates: {"too_many_window_updates", EnhanceYourCalm},
	TooManyEmptyFrames:   {"too_many_empty_frames", EnhanceYourCalm},
	TooManySmallFrames:   {"too_many_small_frames", EnhanceYourCalm},
	TooManyGoAways:       {"too_many_goaways", EnhanceYourCalm},
	TooManyUnknownFrames: {"too_many_unknown_frames", EnhanceYourCalm},
	TooManyContinuations: {"too_many_continuations", EnhanceYourCalm},
	BlockTooLarge:        {"block_too_large", EnhanceYourCalm},
}

// Error makes a Reason usable as an error. It is a label, such as "bad_padding".
func (r Reason) Error() string { return meanings[r].label }

// Code is the error code to send to the peer.
func (r Reason) Code() Code { return meanings[r].code }

// Of is the error with this reason that ends a stream.
func (r Reason) Of(stream uint32) Error { return Error{r, stream} }

// Status is the status of the answer that a client may get, before its stream is reset, if its
// request's head was refused for this reason.
func (r Reason) Status() int {
	switch r {
	case PathTooLong:
		return http.StatusRequestURITooLong
	case HeadTooLarge, TrailersTooLarge, TooManyFields:
		return http.StatusRequestHeaderFieldsTooLarge
	case Connect:
		return http.StatusMethodNotAllowed
	}
	return http.StatusBadRequest
}
