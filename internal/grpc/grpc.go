// Package grpc is the part of gRPC that a gateway has to understand: which requests are gRPC or
// gRPC-Web, how long a call may take, statuses, the framing of messages, and the two encodings of
// gRPC-Web. It works on bytes and knows neither sockets nor HTTP: the code that carries the fields
// and bodies calls it. Nothing here allocates unless the function says so, and all state is
// bounded, whatever the bytes say.
//
// The specifications are PROTOCOL-HTTP2.md and PROTOCOL-WEB.md of the gRPC project. Comments refer
// to their sections by name.
package grpc

// Kind says how a message of HTTP carries gRPC.
type Kind uint8

// The kinds.
const (
	None    Kind = iota // no gRPC
	Native              // application/grpc: HTTP/2 with trailers
	Web                 // application/grpc-web: the trailers are the body's last frame
	WebText             // application/grpc-web-text: the same in base64
)

// KindOf says what a Content-Type names. Case does not matter (RFC 9110, section 8.3.1). A suffix
// such as +proto and parameters are allowed, and say nothing here: the message format is between
// the client and the service.
func KindOf(contentType []byte) Kind {
	kind, _ := split(contentType)
	return kind
}

// Translated appends the content type that says of the same messages that they are carried as to:
// the media type of that kind with the suffix and the parameters of from, which is one of gRPC's.
func Translated(out, from []byte, to Kind) []byte {
	_, suffix := split(from)
	return append(append(out, mediaTypes[to]...), suffix...)
}

var mediaTypes = [...]string{
	None: "", Native: "application/grpc", Web: "application/grpc-web", WebText: "application/grpc-web-text",
}

// split is the kind of a content type and what stands behind its media type.
func split(contentType []byte) (kind Kind, suffix []byte) {
	for kind := WebText; kind > None; kind-- {
		name := mediaTypes[kind]
		if len(contentType) < len(name) || !foldEqual(contentType[:len(name)], name) {
			continue
		}
		suffix = contentType[len(name):]
		if len(suffix) == 0 {
			return kind, suffix
		}
		switch suffix[0] {
		case '+', ';', ' ', '\t':
			return kind, suffix
		}
	}
	return None, nil
}

// foldEqual compares text with lower, which has no upper-case letter and is as long.
func foldEqual(text []byte, lower string) bool {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
