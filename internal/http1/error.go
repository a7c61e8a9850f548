package http1

import "net/http"

// Error is why a message was refused. The set is closed: its values count refusals by reason and
// choose the answer.
type Error uint8

// What can be wrong with a message. OK is not an error.
const (
	OK            Error = iota
	BadLine             // a request line or status line that is not one
	BadMethod           // a method that is not a token
	BadTarget           // a target of no allowed form, or with a byte that no target has
	BadVersion          // "HTTP/" and something that is not 1.0 or 1.1
	BareLF              // a line that ends without CR
	BareCR              // a CR that ends no line, in a place where one could be taken for an end
	BadFieldName        // an empty name, one that is not a token, or white space before the colon
	BadFieldValue       // NUL or another control character in a value
	ObsFold             // a field line that begins with white space
	BadHost             // no Host, more than one, or one that is not an authority
	HostMismatch        // an absolute-form target that disagrees with Host
	// a Content-Length that is not a number, too large, a list, repeated; not 0 in 1xx
	BadContentLength
	LengthAndCoding   // Transfer-Encoding with Content-Length, in HTTP/1.0, or in a 1xx response
	UnknownCoding     // a transfer coding other than chunked, or chunked not last or twice
	BadChunk          // a chunk size that is invalid, too large, or followed by something wrong
	BadTrailer        // an invalid trailer field: its name, its value, or obs-fold
	LineTooLong       // Limits.Line
	HeadTooLarge      // Limits.Head
	TrailersTooLarge  // Limits.Head, of a trailer section
	BodyTooLong       // for a caller that bounds bodies; the codec itself has no bound
	TooManyFields     // Limits.Fields
	ExtensionTooLarge // Limits.Extension
	BadConnect        // CONNECT, which a gateway refuses
	BadStatus         // a status that is not three digits from 100 to 599
	Truncated         // the connection ended before the body did
	errors            // the count
)

// Errors is the number of Error values, OK included, for arrays of counters.
const Errors = int(errors)

// reasons are the short texts of answers and the labels of counters.
var reasons = [errors]string{
	OK: "ok", BadLine: "bad_line", BadMethod: "bad_method", BadTarget: "bad_target",
	BadVersion: "bad_version",
	BareLF:     "bare_lf", BareCR: "bare_cr", BadFieldName: "bad_field_name",
	BadFieldValue: "bad_field_value", ObsFold: "obs_fold",
	BadHost: "bad_host", HostMismatch: "host_mismatch", BadContentLength: "bad_content_length",
	LengthAndCoding: "length_and_coding",
	UnknownCoding:   "unknown_coding", BadChunk: "bad_chunk", BadTrailer: "bad_trailer",
	LineTooLong:  "line_too_long",
	HeadTooLarge: "head_too_large", TrailersTooLarge: "trailers_too_large", BodyTooLong: "body_too_long",
	TooManyFields: "too_many_fields", ExtensionTooLarge: "extension_too_large",
	BadConnect: "connect", BadStatus: "bad_status",
	Truncated: "truncated",
}

// Error makes an Error usable as an error. It is the reason's label, such as "bare_lf".
func (e Error) Error() string { return reasons[e] }

// Status is the answer that a client gets for a request that was refused so.
func (e Error) Status() int {
	switch e {
	case LineTooLong:
		return http.StatusRequestURITooLong
	case HeadTooLarge, TrailersTooLarge, TooManyFields:
		return http.StatusRequestHeaderFieldsTooLarge
	case BodyTooLong:
		return http.StatusRequestEntityTooLarge
	case BadVersion:
		return http.StatusHTTPVersionNotSupported
	case UnknownCoding:
		return http.StatusNotImplemented
	case BadConnect:
		return http.StatusMethodNotAllowed
	}
	return http.StatusBadRequest
}
