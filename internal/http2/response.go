package http2

import "plimsoll/internal/head"

// ResponseHead assembles and validates the head of a response from its decoded fields, as
// RequestHead does for requests (RFC 9113, section 8.3.2). Call Reset before use.
type ResponseHead struct {
	lim *Limits
	fields
}

const sawStatus = 1

// Reset prepares r for a response, or for the next head after an interim response. r keeps lim.
func (r *ResponseHead) Reset(lim *Limits) {
	*r = ResponseHead{lim: lim, fields: fields{length: head.Unknown}}
}

// Field takes the next field, as RequestHead.Field does. resp must have been reset.
func (r *ResponseHead) Field(resp *head.Response, name, value []byte) Reason {
	if r.failed == OK {
		r.failed = r.field(resp, name, value)
	}
	return r.failed
}

func (r *ResponseHead) field(resp *head.Response, name, value []byte) Reason {
	if reason := r.enter(r.lim, name, value); reason != OK {
		return reason
	}
	if len(name) == 0 || name[0] != ':' {
		_, reason := r.add(&resp.Fields, name, value)
		return reason
	}
	if string(name) != ":status" {
		return UnknownPseudo
	}
	if reason := r.pseudo(sawStatus); reason != OK {
		return reason
	}
	if len(value) != 3 {
		return BadStatus
	}
	resp.Status = 0
	for _, c := range value {
		if c < '0' || c > '9' {
			return BadStatus
		}
		resp.Status = resp.Status*10 + int(c-'0')
	}
	if resp.Status < 100 || resp.Status > 599 || resp.Status == 101 {
		return BadStatus
	}
	return OK
}

// End makes the checks that need the whole head, and sets resp.Length. toHEAD says that the request
// was a HEAD; endStream, that no body follows. A status below 200 means an interim response, after
// which another head comes.
//
// Length is 0 for a response to HEAD, for 204 and for 304, whatever Content-Length says. Code that
// forwards such a head decides what to do with that field.
func (r *ResponseHead) End(resp *head.Response, toHEAD, endStream bool) Reason {
	if r.failed == OK {
		r.failed = r.conclude(resp, toHEAD, endStream)
	}
	return r.failed
}

func (r *ResponseHead) conclude(resp *head.Response, toHEAD, endStream bool) Reason {
	resp.Length = 0
	switch {
	case r.seen&sawStatus == 0:
		return MissingPseudo
	case resp.Status < 200 && endStream:
		return EarlyEnd
	case resp.Status < 200 && r.length > 0:
		return BadContentLength
	case resp.Status < 200 || toHEAD || resp.Status == 204 || resp.Status == 304:
	case !endStream:
		resp.Length = r.length
	case r.length > 0:
		return LengthMismatch
	}
	return OK
}
