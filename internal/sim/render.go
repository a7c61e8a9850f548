package sim

import (
	"fmt"
	"strings"
)

// render appends a request in the form in which it is sent.
func (c *client) render(raw []byte, q *request) []byte {
	version := "HTTP/1.1"
	if q.Old {
		version = "HTTP/1.0"
	}
	target := q.target()
	if q.Query {
		target += "?page=2&next=/a/c0r0"
	}
	host := "Host: shop.test\r\n"
	if q.Absolute {
		target = "http://shop.test" + target
		if q.Old {
			host = ""
		}
	}
	raw = fmt.Appendf(raw, "%s %s %s\r\n%s", q.Method, target, version, host)
	switch {
	case q.Close:
		raw = append(raw, "Connection: close\r\n"...)
	case q.WebSocket != nil:
		raw = append(raw, "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"...)
	case q.Upgrade:
		raw = append(raw, "Connection: upgrade\r\nUpgrade: raw-noise\r\n"...)
	case q.Trailers:
		raw = append(raw, "Connection: te, x-hop\r\nTE: trailers\r\n"+
			"Trailer: X-Sum, X-Hop\r\nX-Hop: 1\r\n"...)
	case q.Old && c.rng.IntN(2) == 0:
		raw = append(raw, "Connection: keep-alive\r\n"...)
	}
	if q.Cached != nil && len(q.Cached.Fields) > 0 {
		raw = append(raw, strings.Join(q.Cached.Fields, "\r\n")+"\r\n"...)
	}
	if q.Class != "" {
		raw = fmt.Appendf(raw, "X-Class: %s\r\nx_class: P0\r\n", q.Class)
	}
	if q.Left != "" {
		raw = fmt.Appendf(raw, "X-Left: %s\r\n", q.Left)
	}
	if q.Expect {
		raw = append(raw, "Expect: 100-continue\r\n"...)
	}
	body := noiseOf(q.token + "up")
	switch {
	case q.Body < 0:
		raw = append(raw, "\r\n"...)
	case q.Chunked:
		raw = fmt.Appendf(raw, "X-Size: %d\r\nTransfer-Encoding: chunked\r\n\r\n", q.Body)
		for at := 0; at < q.Body; {
			n := 1 + c.rng.IntN(q.Body-at)
			raw = body.append(fmt.Appendf(raw, "%x\r\n", n), at, n)
			raw = append(raw, "\r\n"...)
			at += n
		}
		switch {
		case q.Torn:
			raw = append(raw, "zz\r\n\r\n"...)
		case q.Trailers:
			raw = fmt.Appendf(raw, "0\r\nX-Sum: %s\r\nX-Hop: %s\r\n\r\n", q.token, q.token)
		default:
			raw = append(raw, "0\r\n\r\n"...)
		}
	default:
		raw = fmt.Appendf(raw, "X-Size: %d\r\nContent-Length: %d\r\n\r\n", q.Body, q.Body)
		raw = body.append(raw, 0, q.Body)
	}
	if q.Spoiled > 0 {
		raw = append(raw[:q.from], spoilers[q.Spoiled-1].apply(string(raw[q.from:]))...)
	}
	return raw
}

// spoilers are ways to malform a request. A refused one must never reach a service.
var spoilers = []struct {
	name    string
	refused bool
	apply   func(raw string) string
}{
	{"two lengths", true, func(s string) string {
		return insert(s, "Content-Length: 3\r\nContent-Length: 4\r\n")
	}},
	{"a length and chunks", true, func(s string) string {
		return insert(s, "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n")
	}},
	{"a bare line feed", true, func(s string) string {
		return strings.Replace(s, "\r\n", "\n", 1)
	}},
	{"a space before a colon", true, func(s string) string { return insert(s, "X-A : 1\r\n") }},
	{"an unknown coding", true, func(s string) string {
		return insert(s, "Transfer-Encoding: gzip\r\n")
	}},
	{"two hosts", true, func(s string) string { return insert(s, "Host: evil.test\r\n") }},
	{"a long head", true, func(s string) string {
		return insert(s, "X-Long: "+strings.Repeat("x", 60_000)+"\r\n")
	}},
	{"claims of its own", false, func(s string) string {
		return insert(s, "X-Forwarded-For: "+claimed+"\r\nX_Real_Ip: "+claimed+"\r\n")
	}},
	{"an escape above the root", true, func(s string) string {
		return strings.Replace(s, " /", " /%2e%2e/../", 1)
	}},
}

// claimed is the address that some clients claim to have.
const claimed = "6.6.6.6"

func insert(raw, lines string) string {
	head, rest, _ := strings.Cut(raw, "\r\n")
	return head + "\r\n" + lines + rest
}
