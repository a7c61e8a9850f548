package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	maxStaticFile = 16 << 20
	maxFieldValue = 8 << 10
)

// framing are the fields that say where a message ends or what becomes of its connection. The
// gateway makes them itself; one that a route could set would let a message be read in two ways.
var framing = []string{
	"content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te",
	"trailer", "upgrade",
}

func (h *HeaderOps) check(s *scope) {
	onRequest := s.mapping.path != nil && s.mapping.path.name == "request_headers"
	s.fields("add", h.Add, false)
	s.fields("set", h.Set, onRequest)
	s.items("remove", func(i int, at place) { s.fieldName(at, h.Remove[i], false) })
}

// fields checks names and values of header fields that a message gets.
func (s *scope) fields(name string, fields map[string]string, mayBeHost bool) {
	seen := make(map[string]bool)
	s.entries(name, func(name string, key, value place) {
		s.fieldName(key, name, mayBeHost)
		if lower := strings.ToLower(name); seen[lower] {
			s.fail(key, "%s is given twice in different spellings, and case makes no difference "+
				"in a header's name; keep one", clip(name))
		} else {
			seen[lower] = true
		}
		s.fieldValue(value, fields[name])
	})
}

func (s *scope) fieldName(at place, name string, mayBeHost bool) {
	lower := strings.ToLower(name)
	switch {
	case !isToken(name):
		s.fail(at, "%q is not the name of a header; use letters, digits and hyphens", clip(name))
	case slices.Contains(framing, lower):
		s.fail(at, "%s frames the message and is the gateway's own; remove it", name)
	case lower == "host" && !mayBeHost:
		s.fail(at, "host can only be set, and only in request_headers; move it there, or remove it")
	}
}

func (s *scope) fieldValue(at place, value string) {
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		s.fail(at, "has a line break or another control character, which a header cannot carry; remove it")
	} else if len(value) > maxFieldValue {
		s.fail(at, "has %d bytes; %d are the most for a header", len(value), maxFieldValue)
	}
}

func (w *When) check(s *scope) {
	seen := make(map[string]bool)
	s.entries("headers", func(name string, key, value place) {
		if !isToken(name) {
			s.fail(key, "%q is not the name of a header; use letters, digits and hyphens", clip(name))
		}
		if lower := strings.ToLower(name); seen[lower] {
			s.fail(key, "%s is given twice in different spellings, and case makes no difference "+
				"in a header's name; keep one", clip(name))
		} else {
			seen[lower] = true
		}
		s.fieldValue(value, w.Headers[name])
	})
	s.entries("query", func(name string, key, _ place) {
		if name == "" {
			s.fail(key, "the name of a query value is empty; give it one")
		}
	})
}

func (r *Respond) check(s *scope) {
	s.fields("headers", r.Headers, false)
	r.Content = s.staticBody(r.Status, r.File)
}

func (f *Fallback) check(s *scope) {
	s.fields("headers", f.Headers, false)
	s.entries("headers", func(name string, key, _ place) {
		switch {
		case strings.EqualFold(name, "X-Degraded"):
			s.fail(key, "%s is what the gateway marks the answer with; remove it", name)
		case s.has("content_type") && strings.EqualFold(name, "Content-Type"):
			s.fail(key, "content_type says this already; keep one")
		}
	})
	if s.good("content_type") {
		s.fieldValue(s.at("content_type"), f.ContentType)
	}
	f.Content = s.staticBody(f.Status, f.File)
	if f.Template && !s.has("file") && s.good("template") {
		s.reject("template", "is about a file, and there is none; remove it: "+
			"a body may have variables without it")
	}
}

// staticBody checks the body of an answer with this status, under the keys body and file, and
// returns what the file holds; nil where there is none.
func (s *scope) staticBody(status int, file string) []byte {
	if s.has("body") && s.has("file") {
		s.reject("file", "body and file are both given; keep one")
		return nil
	}
	if status == 204 || status == 205 || status == 304 {
		for _, name := range []string{"body", "file"} {
			if s.has(name) {
				s.reject(name, "an answer with status %d has no body; remove it, or choose "+
					"another status", status)
			}
		}
	}
	if !s.good("file") {
		return nil
	}
	content, err := s.files.read(file)
	if err != nil {
		s.reject("file", "%s cannot be read: %v; give the path of a readable file of at most %s",
			file, bare(err), Size(maxStaticFile))
	}
	return content
}

// read returns a file's content, the same slice each time.
func (c *fileCache) read(path string) ([]byte, error) {
	if content, ok := c.content[path]; ok {
		return content, nil
	}
	content, err := readBounded(path, maxStaticFile)
	if err != nil {
		return nil, err
	}
	if c.total += len(content); c.total > maxFiles {
		return nil, fmt.Errorf("the files of all routes are together larger than %s", Size(maxFiles))
	}
	if c.content == nil {
		c.content = make(map[string][]byte)
	}
	c.content[path] = content
	return content, nil
}

func (r *Redirect) check(s *scope) {
	if !s.good("to") {
		return
	}
	to := r.To
	if !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "http://") &&
		!strings.HasPrefix(to, "https://") && !strings.HasPrefix(to, "${") {
		s.reject("to", "%q is not a location; begin it with /, http://, https:// or ${scheme}://", clip(to))
	}
}

func (c *CORS) check(s *scope) {
	s.items("origins", func(i int, at place) {
		origin := c.Origins[i]
		if err := checkOrigin(origin); err != nil {
			s.fail(at, "%v", err)
		}
		if origin == "*" && c.Credentials {
			s.fail(at, "browsers refuse credentials together with the origin \"*\"; list the "+
				"origins, or remove credentials")
		} else if origin == "*" && len(c.Origins) > 1 {
			s.fail(at, "\"*\" allows every origin, so that the others have no effect; remove it or them")
		}
	})
	s.items("methods", func(i int, at place) {
		if c.Methods[i] == "*" {
			s.wildcard(at, c.Credentials)
		} else if err := checkMethod(c.Methods[i]); err != nil {
			s.fail(at, "%v", err)
		}
	})
	for name, list := range map[string][]string{"headers": c.Headers, "expose": c.Expose} {
		s.items(name, func(i int, at place) {
			if list[i] == "*" {
				s.wildcard(at, c.Credentials)
			} else if !isToken(list[i]) {
				s.fail(at, "%q is not the name of a header; use letters, digits and hyphens", clip(list[i]))
			}
		})
	}
}

// wildcard checks a "*" that is a name like any other to a browser that sends credentials (Fetch
// Standard, section 3.3.3).
func (s *scope) wildcard(at place, credentials bool) {
	if credentials {
		s.fail(at, "browsers take \"*\" literally together with credentials; list the names")
	}
}

// checkOrigin checks "scheme://host[:port]" as browsers send it, where the host may begin with one
// wildcard label.
func checkOrigin(origin string) error {
	if origin == "*" {
		return nil
	}
	wrong := fmt.Errorf("%q is not an origin; write https://host, https://host:port, "+
		"https://*.host or \"*\", without a path", clip(origin))
	u, err := url.Parse(strings.Replace(origin, "://*.", "://", 1))
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.User != nil ||
		u.RawQuery != "" || u.ForceQuery || strings.Contains(origin, "#") {
		return wrong
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil && !isHostName(u.Hostname()) {
		return wrong
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n == 0 || n > 65535 {
			return wrong
		}
	}
	if origin != strings.ToLower(origin) {
		return fmt.Errorf("browsers send origins in lower case; write %q", strings.ToLower(clip(origin)))
	}
	return nil
}
