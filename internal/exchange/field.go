package exchange

import (
	"fmt"
	"strings"

	"plimsoll/internal/head"
)

// framing are the fields that say where a message ends and what belongs to one connection only. The
// data plane alone sets them: a policy that could would let one message be read as two.
const framing = 1<<head.Connection | 1<<head.ContentLength | 1<<head.TransferEncoding |
	1<<head.Expect | 1<<head.Upgrade |
	1<<head.KeepAlive | 1<<head.ProxyConnection | 1<<head.TE | 1<<head.Trailer | 1<<head.ProxyAuthenticate |
	1<<head.ProxyAuthorization | 1<<head.HTTP2Settings

// CheckFieldName says why a configuration may not change the header field called name, or nil. Host
// passes: a caller that cannot set it refuses it.
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

// CheckFieldValue says why value cannot be that of a header field, or nil.
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

// StaticField is a field that never changes, made once and appended to any number of lists by all
// loops. Name and value were checked.
func StaticField(name, value string) head.Field {
	line := []byte(name + ": " + value + "\r\n")
	from := len(name) + len(": ")
	return head.Field{
		Name: line[:len(name):len(name)], Value: line[from : from+len(value) : from+len(value)],
		Line: line, ID: head.Lookup([]byte(name)),
	}
}

var plainText = StaticField("Content-Type", "text/plain; charset=utf-8")

// Refuse answers in the gateway's own name with a line of text that says the reason and what it
// means.
func (x *Exchange) Refuse(status int, reason Reason) PolicyVerdict {
	x.Answer(status, reason, RefusalBody(status, reason))
	x.Response.Fields.Append(plainText)
	return Answered
}
