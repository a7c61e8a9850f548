package config

import (
	"mime"
	"slices"
	"strings"
)

func (c *Compress) check(s *scope) {
	s.items("encodings", func(i int, at place) {
		if slices.Contains(c.Encodings[:i], c.Encodings[i]) {
			s.fail(at, "%s is given twice; keep one", clip(c.Encodings[i]))
		}
	})
	if s.good("encodings") && len(c.Encodings) == 0 {
		s.reject("encodings", "has none; name some, or write compress: false")
	}
	s.items("types", func(i int, at place) {
		if !isMediaRange(c.Types[i]) {
			s.fail(at, "%q is not a media type; write one such as application/json, \"text/*\" or "+
				"\"+json\"", clip(c.Types[i]))
		}
	})
	if s.good("types") && len(c.Types) == 0 {
		s.reject("types", "has none; name some, or write compress: false")
	}
}

// isMediaRange says whether a text is a media type, "type/*" or "+suffix".
func isMediaRange(text string) bool {
	if suffix, ok := strings.CutPrefix(text, "+"); ok {
		return isToken(suffix)
	}
	family, sub, ok := strings.Cut(text, "/")
	if !ok || family == "*" || len(text) > maxMediaType {
		return false
	}
	_, _, err := mime.ParseMediaType(text)
	return err == nil && isToken(family) && isToken(sub) && (sub == "*" || !strings.Contains(sub, "*"))
}

// maxMediaType bounds a media type: longer ones are not looked up.
const maxMediaType = 128

// negotiated are the fields that compress makes, and that a client's caches go by.
var negotiated = []string{"vary", "content-encoding", "etag"}

// checkCompress refuses response headers that would undo what compress says of a response: they are
// changed behind it.
func (r *Route) checkCompress(s *scope) {
	if r.Compress == nil || !r.Compress.On || !s.has("compress") || !s.has("response_headers") {
		return
	}
	const advice = "is the field of compress, and caches would mix up what they store without it; %s"
	for name := range r.ResponseHeaders.Set {
		if slices.Contains(negotiated, strings.ToLower(name)) {
			s.fail(s.keyOf(s.at("response_headers"), "set"), "%s "+advice, name,
				"use add, or remove compress")
		}
	}
	for _, name := range r.ResponseHeaders.Remove {
		if slices.Contains(negotiated, strings.ToLower(name)) {
			s.fail(s.keyOf(s.at("response_headers"), "remove"), "%s "+advice, name,
				"keep it, or remove compress")
		}
	}
}
