package route

import "net/http"

// Error is why a target was refused. The set is closed: its values count refusals by reason.
type Error uint8

// What can be wrong with a target. OK is not an error.
const (
	OK             Error = iota
	NotOrigin            // neither a path that begins with "/" nor "*"
	BadByte              // a byte that no target may have: a control, a space, "#", or one above 0x7e
	BadEscape            // "%" without two hexadecimal digits after it
	EncodedControl       // an encoded control character, %00 first of all
	Backslash            // "\" or %5C, which some servers take for a slash
	AboveRoot            // more ".." than there are segments to leave
	// a dot segment that shows only to who decodes %2F or drops ";parameters": "..%2F", "..;"
	HiddenDots
	errors // the count
)

// Errors is the number of Error values, OK included, for arrays of counters.
const Errors = int(errors)

var reasons = [errors]string{
	OK: "ok", NotOrigin: "not_origin_form", BadByte: "bad_path_byte", BadEscape: "bad_escape",
	EncodedControl: "encoded_control", Backslash: "backslash", AboveRoot: "above_root",
	HiddenDots: "hidden_dots",
}

// Error makes an Error usable as an error. It is the reason's label, such as "above_root".
func (e Error) Error() string { return reasons[e] }

// Status is the answer that a client gets for a request that was refused so: 400.
func (e Error) Status() int { return http.StatusBadRequest }
