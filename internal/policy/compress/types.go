package compress

import (
	"bytes"
	"fmt"
	"strings"

	"plimsoll/internal/grpc"
	"plimsoll/internal/head"
)

// DefaultTypes are the media types that compress well. Images, audio, video, archives, PDF and WOFF
// are already compressed.
var DefaultTypes = []string{
	"text/*", "+json", "+xml", "+yaml", "application/json", "application/xml", "application/javascript",
	"application/x-javascript", "application/ecmascript", "application/ndjson", "application/x-ndjson",
	"application/jsonl", "application/graphql", "application/yaml", "application/x-yaml", "application/toml",
	"application/wasm", "application/rtf", "application/x-www-form-urlencoded",
	"application/vnd.ms-fontobject",
	"font/ttf", "font/otf", "font/collection", "image/bmp", "image/x-icon", "image/vnd.microsoft.icon",
}

// types is a set of media types.
type types struct {
	whole    map[string]bool // "application/json"
	families map[string]bool // "text", for text/*
	suffixes map[string]bool // "json", for all types that end in +json
}

// maxType is the longest media type that is looked up.
const maxType = 128

func newTypes(all []string) (t types, err error) {
	t = types{whole: map[string]bool{}, families: map[string]bool{}, suffixes: map[string]bool{}}
	for _, one := range all {
		if err := CheckType(one); err != nil {
			return t, err
		}
		one = strings.ToLower(one)
		if suffix, ok := strings.CutPrefix(one, "+"); ok {
			t.suffixes[suffix] = true
		} else if family, ok := strings.CutSuffix(one, "/*"); ok {
			t.families[family] = true
		} else {
			t.whole[one] = true
		}
	}
	return t, nil
}

// CheckType returns an error if a text cannot be one of Options.Types.
func CheckType(text string) error {
	wrong := fmt.Errorf("%q is not a media type; write one such as \"application/json\", "+
		"\"text/*\" or \"+json\"", text)
	family, sub, ok := strings.Cut(text, "/")
	if suffix, suffixed := strings.CutPrefix(text, "+"); suffixed {
		family, sub, ok = suffix, suffix, true
	}
	if !ok || len(text) > maxType || !isToken(family) || sub != "*" && !isToken(sub) {
		return wrong
	}
	return nil
}

func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("!#$&-^_.+", r))
	})
}

// gain reports whether content of this Content-Type should be encoded.
func (t *types) gain(value []byte) bool {
	var memory [maxType]byte
	name := mediaType(value, &memory)
	slash := bytes.IndexByte(name, '/')
	if slash < 0 {
		return false
	}
	if t.whole[string(name)] || t.families[string(name[:slash])] {
		return true
	}
	plus := bytes.LastIndexByte(name, '+')
	return plus > slash && t.suffixes[string(name[plus+1:])]
}

// mediaType is a Content-Type without its parameters, in lower case; empty if it is too long.
func mediaType(value []byte, memory *[maxType]byte) []byte {
	value, _, _ = bytes.Cut(value, semicolon)
	value = bytes.TrimSpace(value)
	if len(value) > maxType {
		return nil
	}
	name := memory[:copy(memory[:], value)]
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			name[i] = c | 0x20
		}
	}
	return name
}

// isEvents reports whether the response is an event stream, which lasts as long as the client
// listens.
func isEvents(l *head.List) bool {
	var memory [maxType]byte
	return string(mediaType(l.Value(head.ContentType), &memory)) == "text/event-stream"
}

// isCall reports whether a message is one of gRPC or gRPC-Web.
func isCall(l *head.List) bool { return grpc.KindOf(l.Value(head.ContentType)) != grpc.None }
