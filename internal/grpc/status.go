package grpc

import "strconv"

// Code is a status of gRPC, the value of grpc-status.
type Code uint8

// The codes ("Status Codes" in gRPC's statuscodes.md).
const (
	OK Code = iota
	Canceled
	Unknown
	InvalidArgument
	DeadlineExceeded
	NotFound
	AlreadyExists
	PermissionDenied
	ResourceExhausted
	FailedPrecondition
	Aborted
	OutOfRange
	Unimplemented
	Internal
	Unavailable
	DataLoss
	Unauthenticated
	Codes // how many there are
)

var codeNames = [Codes]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
	"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
	"OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// String is the code's name as gRPC writes it, "CODE_N" for one that has none.
func (c Code) String() string {
	if c < Codes {
		return codeNames[c]
	}
	return "CODE_" + strconv.Itoa(int(c))
}

// ParseCode reads the value of grpc-status. A number that is not a code of today's is Unknown, as
// for gRPC's own clients. Not ok: it is not a decimal number, or has more than nine digits.
func ParseCode(value []byte) (code Code, ok bool) {
	if len(value) == 0 || len(value) > 9 {
		return Unknown, false
	}
	n := 0
	for _, c := range value {
		if c < '0' || c > '9' {
			return Unknown, false
		}
		n = n*10 + int(c-'0')
	}
	if n >= int(Codes) {
		return Unknown, true
	}
	return Code(n), true
}

// AppendCode appends the value of grpc-status.
func AppendCode(out []byte, c Code) []byte { return strconv.AppendInt(out, int64(c), 10) }

// FromHTTP is what a client makes of a response without grpc-status (gRPC's
// http-grpc-status-mapping.md). It is never OK: a success of HTTP is none of gRPC.
func FromHTTP(status int) Code {
	switch status {
	case 400:
		return Internal
	case 401:
		return Unauthenticated
	case 403:
		return PermissionDenied
	case 404:
		return Unimplemented
	case 429, 502, 503, 504:
		return Unavailable
	}
	return Unknown
}
