// Package hpack is the header compression of HTTP/2, RFC 7541, both sides.
package hpack
