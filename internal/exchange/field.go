package exchange

import (
	"fmt"
	"strings"

	"plimsoll/internal/head"
)

// framing is the fields that delimit a message or concern only one connection. Only the data plane
// sets them. A policy that set them could cause one message to be read as two.
const framing = 1<<head.Connection | 1<<head.ContentLength | 1<<head.TransferEncoding |
	1<<head.Expect | 1<<head.Upgrade |
	1<<head.KeepAlive | 1<<head.ProxyConnection | 1<<head.TE | 1<<head.Trailer | 1<<head.ProxyAuthenticate |
	1<<head.ProxyAuthorization | 1<<head.HTTP2Settings

// CheckFieldName returns an error if a configuration may not change the header field called name.
// It accepts Host; callers that cannot set Host must refuse it.
func CheckFieldName(name string) error {
	if !head.IsToken([]byte(name)) {
		return fmt.Errorf("%q is not a name of a header field: letters, digits and any of "+
			"!#$%%&'*+-.^_`|~", name)
	}
	switch id := head.Lookup([]byte(name)); {
	case id == head.Alias:
		return fmt.Errorf("%s would be read as %s by some servers and is never sent; write it "+
			"with dashes", name, strings.ReplaceAll(name, "_", "-"))
	case framing>>id&1 != 0:
		return fmt.Errorf("%s belongs to one connection and is the gateway's own to set; leave it out", name)
	}
	return nil
}

// CheckFieldValue returns an error if value cannot be the value of a header field.
func CheckFieldValue(value string) error {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("%q holds a control character, which no header field can", value)
		}
	}
	if value != strings.Trim(value, " \t") {
		return fmt.Errorf("%q has white space at its ends, which no header field keeps", value)
	}
	return nil
}

// StaticField makes a field that never changes. All loops may append it to any number of lists. The
// caller has checked name and value.
func StaticField(name, value string) head.Field {
	line := []byte(name + ": " + value + "\r\n")
	from := len(name) + len(": ")
	return head.Field{
		Name: line[:len(name):len(name)], Value: line[from : from+len(value) : from+len(value)],
		Line: line, ID: head.Lookup([]byte(name)),
	}
}

var plainText = StaticField("Content-Type", "text/plain; charset=utf-8")

// Refuse answers with a line of text that gives the reason and its meaning, and returns Answered.
func (x *Exchange) Refuse(status int, reason Reason) PolicyVerdict {
	x.Answer(status, reason, RefusalBody(status, reason))
	x.Response.Fields.Append(plainText)
	return Answered
}
