package rules

import (
	"bytes"

	"plimsoll/internal/head"
)

// MaxBlock is the longest block of fields that is stored, in bytes. Responses with longer heads are
// not stored.
const MaxBlock = 64 << 10

// AppendBlock appends the fields of a response in the form in which they are stored, as HTTP/1
// lines. It leaves out fields that belong to a connection or only to this answer (RFC 9111, section
// 3.1), those that no-cache and private withhold, and those that are made anew when the response is
// served: Age, Content-Length and Cache-Status. dst must be empty. AppendBlock records in s where
// the validators are. ok is false if the block is longer than MaxBlock.
func (o *Options) AppendBlock(dst []byte, s *Stored, fields *head.List) (block []byte, ok bool) {
	var d Directives
	o.directives(&d, fields)
	s.etag, s.modified = span{}, span{}
	connection := connectionNames(fields)
	dated := false
	for i := range fields.Len() {
		f := fields.At(i)
		if !o.keeps(f) || listed(connection, f.Name) || withheldName(d.withheld, f.Name) {
			continue
		}
		if f.ID == head.Date {
			if dated {
				continue
			}
			dated = true
		}
		dst = appendLine(dst, f.Name, f.Value, s)
	}
	if !dated {
		dst = append(head.AppendDate(append(dst, "Date: "...), s.Date*second), "\r\n"...)
	}
	return dst, len(dst) <= MaxBlock
}

func appendLine(dst, name, value []byte, s *Stored) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	at := uint32(len(dst))
	dst = append(dst, value...)
	end := uint32(len(dst))
	switch {
	case s.etag.end == 0 && is(name, "etag") && head.IsTag(value):
		s.etag = span{at, end}
	case s.modified.end == 0 && is(name, "last-modified"):
		s.modified = span{at, end}
	}
	return append(dst, "\r\n"...)
}

// connectionNames are the values of Connection.
func connectionNames(fields *head.List) [][]byte {
	var names [][]byte
	for i := range fields.Len() {
		if f := fields.At(i); f.ID == head.Connection {
			names = append(names, f.Value)
		}
	}
	return names
}

// listed reports whether one of the lists names the field.
func listed(lists [][]byte, name []byte) bool {
	for _, list := range lists {
		for len(list) > 0 {
			var member []byte
			if member, list = nextMember(list); head.EqualFold(member, name) {
				return true
			}
		}
	}
	return false
}

func withheldName(names [][]byte, name []byte) bool {
	for _, n := range names {
		if head.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// keeps reports whether a field of a response is stored, as far as that depends only on the field.
func (o *Options) keeps(f *head.Field) bool {
	switch f.ID {
	case head.Connection, head.KeepAlive, head.ProxyConnection, head.TE, head.Trailer,
		head.TransferEncoding, head.Upgrade,
		head.ProxyAuthenticate, head.ProxyAuthorization, head.ContentLength, head.HTTP2Settings, head.Alias:
		return false
	case head.SetCookie:
		return o.SetCookie == KeepSetCookie
	case head.Other:
		return !dropped(f.Name) && (o.SetCookie == KeepSetCookie || !is(f.Name, "set-cookie2"))
	}
	return true
}

// dropped reports whether a field without an ID must not be stored.
func dropped(name []byte) bool {
	switch len(name) {
	case len("age"):
		return is(name, "age")
	case len("cache-status"):
		return is(name, "cache-status")
	case len("surrogate-key"):
		return is(name, "surrogate-key")
	case len("surrogate-control"):
		return is(name, "surrogate-control")
	case len("proxy-authentication-info"):
		return is(name, "proxy-authentication-info")
	}
	return false
}

// Fields reads a block into a list that has been reset. The fields and their lines alias the block.
// Nothing is allocated once the list has its usual capacity.
func Fields(fields *head.List, block []byte) {
	for len(block) > 0 {
		end := bytes.IndexByte(block, '\n') + 1
		if end < 2 {
			return // AppendBlock makes no such line
		}
		line := block[:end:end]
		block = block[end:]
		colon := bytes.IndexByte(line, ':')
		if colon < 0 || colon+2 > end-2 {
			return
		}
		name := line[:colon:colon]
		f := fields.Extend(head.Lookup(name))
		f.Name, f.Value, f.Line = name, line[colon+2:end-2:end-2], line
	}
}
