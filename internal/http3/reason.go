package http3

// Reason is why a frame, a stream or a connection was refused. The set is closed: its values count
// refusals, and each has one error code.
type Reason uint8

// What can be wrong. OK is not an error.
const (
	OK Reason = iota

	// Of frames and their order. They end the connection.
	UnexpectedFrame   // a frame that the stream may not carry, or not now
	TruncatedFrame    // a stream that ended within a frame
	BadFrame          // a payload that frames of the type cannot have
	FrameTooLarge     // a frame that is kept whole, beyond its bound
	NoSettings        // a control stream that does not begin with SETTINGS
	BadSettings       // a setting twice, or one of HTTP/2's
	BadID             // an identifier that grew, shrank or was never given
	BadStream         // a second stream of a kind, or one that only a server opens
	CriticalStreamEnd // the end of a stream that lasts as long as the connection
	BadBlock          // a field section that cannot be decoded
	BadEncoder        // an instruction for the dynamic table, which there is not
	BadDecoder        // an acknowledgement of what was never sent

	// Of one request.
	NoHead        // a stream that ended before a head
	BlockTooLarge // an encoded field section beyond the limit
	HeadTimeout   // a head that took too long
	AfterGoAway   // a request that came when none was taken care of any more
	Overloaded    // a request that came when streams held as much memory as they may

	// Of what a peer does too often. They end the connection.
	TooManyResets
	TooManyFaults
	TooMuchUnknown // bytes of frames of unknown types, or streams of unknown types

	reasons // the count
)

// Reasons is the number of Reason values, OK included, for arrays of counters.
const Reasons = int(reasons)

// meanings are each reason's label and code, and whether it ends the connection or one stream.
var meanings = [reasons]struct {
	label string
	code  Code
	whole bool
}{
	OK: {"ok", NoError, false},

	UnexpectedFrame:   {"unexpected_frame", FrameUnexpected, true},
	TruncatedFrame:    {"truncated_frame", FrameError, true},
	BadFrame:          {"bad_frame", FrameError, true},
	FrameTooLarge:     {"frame_too_large", ExcessiveLoad, true},
	NoSettings:        {"no_settings", MissingSettings, true},
	BadSettings:       {"bad_settings", SettingsError, true},
	BadID:             {"bad_id", IDError, true},
	BadStream:         {"bad_stream", StreamCreationError, true},
	CriticalStreamEnd: {"critical_stream_end", ClosedCriticalStream, true},
	BadBlock:          {"bad_block", DecompressionFailed, true},
	BadEncoder:        {"bad_encoder", EncoderStreamError, true},
	BadDecoder:        {"bad_decoder", DecoderStreamError, true},

	NoHead:        {"no_head", RequestIncomplete, false},
	BlockTooLarge: {"block_too_large", ExcessiveLoad, false},
	HeadTimeout:   {"head_timeout", RequestIncomplete, false},
	AfterGoAway:   {"after_goaway", RequestRejected, false},
	Overloaded:    {"overloaded", RequestRejected, false},

	TooManyResets:  {"too_many_resets", ExcessiveLoad, true},
	TooManyFaults:  {"too_many_faults", ExcessiveLoad, true},
	TooMuchUnknown: {"too_much_unknown", ExcessiveLoad, true},
}

// Error makes a Reason usable as an error. It is a label, such as "bad_frame".
func (r Reason) Error() string { return meanings[r].label }

// Code is what the peer is told.
func (r Reason) Code() Code { return meanings[r].code }

// EndsConnection says that the error is the connection's and not one stream's.
func (r Reason) EndsConnection() bool { return meanings[r].whole }
