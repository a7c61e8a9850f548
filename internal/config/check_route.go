package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"plimsoll/internal/exchange"
)

// maxVia bounds the name in Via, which every message of the route carries.
const maxVia = 200

func (r *Route) check(s *scope) {
	r.at = s.begins()
	if s.good("name") {
		if isName(r.Name) {
			s.routeNames = append(s.routeNames, named{s.at("name"), r.Name})
		} else {
			s.reject("name", "%q cannot name a route; use 1 to 200 characters that can be printed",
				clip(r.Name))
		}
	}
	if s.good("upstream") {
		s.refer(s.at("upstream"), r.Upstream)
	}
	names := r.checkPaths(s)
	r.checkLimits(s, names)
	r.checkConcurrency(s, names)
	r.checkCache(s)
	r.checkGuard(s, names)
	r.checkCompress(s)
	if s.good("forward_path") && r.ForwardPath == "as_sent" && (s.has("rewrite") || s.has("strip_prefix")) {
		s.reject("forward_path",
			"as_sent forwards what the client sent, and rewrite and strip_prefix change it; keep one of them")
	}
	if s.good("via") && (!isToken(r.Via) || len(r.Via) > maxVia) {
		s.reject("via", "%q cannot name this gateway in Via; use 1 to %d letters, digits, dots and hyphens",
			clip(r.Via), maxVia)
	}
	r.checkDeadlineHeader(s)
	if (s.has("respond") || s.has("redirect") || s.has("files")) && !s.has("upstream") && !s.has("split") {
		r.checkUnused(s)
	} else if !s.failed["sla"] {
		r.noteSteps(s)
	}
}

// noteSteps notes what the route gives in place of the live answer, for checkSteps.
func (r *Route) noteSteps(s *scope) {
	if s.has("fallback") {
		s.steps = append(s.steps, stepUse{s.at("fallback"), "the fallback", r.SLA, exchange.StepStatic})
	}
	if r.Cache == nil || !s.good("cache") {
		return
	}
	note := func(name string, d Duration) {
		if d > 0 {
			at := s.keyOf(s.at("cache"), name)
			s.steps = append(s.steps, stepUse{at, name, r.SLA, exchange.StepStale})
		}
	}
	note("stale_if_error", r.Cache.StaleIfError)
	note("stale_under_pressure", r.Cache.StaleUnderPressure)
}

// checkUnused refuses what only has an effect on requests that are forwarded. A default that is
// written out does no harm.
func (r *Route) checkUnused(s *scope) {
	def := prototype(reflect.TypeFor[Route]()).Interface().(Route)
	for _, c := range []struct {
		name   string
		unused bool
	}{
		{"timeout", r.Timeout != def.Timeout},
		{"stream_timeout", r.StreamTimeout != def.StreamTimeout},
		{"tunnel_timeout", r.TunnelTimeout != def.TunnelTimeout},
		{"websocket", r.WebSocket != def.WebSocket},
		{"strip_prefix", true},
		{"rewrite", true},
		{"forward_path", r.ForwardPath != def.ForwardPath},
		{"via", true},
		{"deadline_header", true},
		{"request_headers", true},
		{"mirror", true},
		{"grpc_web", r.GRPCWeb},
		{"early_hints", r.EarlyHints},
		{"fallback", true},
	} {
		if c.unused && s.good(c.name) {
			s.reject(c.name, "has no effect on a route that does not forward; remove it")
		}
	}
}

// checkPaths checks the pattern, and what uses its values, whose names it returns: nil where the
// pattern is wrong.
func (r *Route) checkPaths(s *scope) []string {
	values := s.pathValues
	s.pathValues = nil
	if !s.good("match") {
		return nil
	}
	names, path, err := parsePattern(r.Match)
	if err != nil {
		s.reject("match", "%v", err)
		return nil
	}
	for _, v := range values {
		if !slices.Contains(names, v.name) {
			s.fail(v.at, "${path.%s} names no value of the pattern %q; %s", clip(v.name),
				clip(r.Match), s.suggest.advice(v.name, names))
		}
	}
	if s.good("rewrite") {
		if !strings.HasPrefix(r.Rewrite, "/") {
			s.reject("rewrite", "%q is not a path; begin it with /", clip(r.Rewrite))
		} else if strings.ContainsAny(r.Rewrite, "?#") {
			s.reject("rewrite", "%q goes beyond the path; the request's query is kept, leave it "+
				"out here", clip(r.Rewrite))
		}
		s.braces(s.at("rewrite"), r.Rewrite, names)
	}
	if s.good("redirect") {
		s.braces(s.within("redirect", "to"), r.Redirect.To, names)
	}
	if s.good("files") && !strings.HasSuffix(path, "/") && !strings.HasSuffix(path, "...}") &&
		!strings.HasSuffix(path, "/{$}") {
		s.reject("match", "%q leaves nothing of a path that could name a file; end it in a slash "+
			"or in {rest...}", clip(r.Match))
	}
	names = append([]string{}, names...)
	if !s.good("strip_prefix") {
		return names
	}
	literal, _, hasValues := strings.Cut(path, "{")
	switch prefix := r.StripPrefix; {
	case !isPath(prefix) || prefix == "/":
		s.reject("strip_prefix", "%q is not the leading part of a path; write one such as \"/api\"",
			clip(prefix))
	case s.has("rewrite"):
		s.reject("strip_prefix", "rewrite replaces the whole path; remove one of the two")
	case !strings.HasPrefix(literal, prefix) && !(hasValues && strings.HasPrefix(prefix, literal)):
		s.reject("strip_prefix", "no path that matches %q begins with %q; make it the beginning "+
			"of the match", clip(r.Match), clip(prefix))
	}
	return names
}

// refer notes that an upstream is named, to be looked up when all are known.
func (s *scope) refer(at place, name string) {
	s.references = append(s.references, named{at, name})
}

// braces checks the {name} values in a template against those of the pattern, and that the rest may
// stand in a URL.
func (s *scope) braces(at place, text string, names []string) {
	if strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`|", r)
	}) {
		s.fail(at, "%q has a character that a URL cannot have; write it percent-encoded", clip(text))
		return
	}
	for rest := text; ; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			if strings.Contains(rest, "}") {
				s.fail(at, "%q has a } that closes nothing; remove it", clip(text))
			}
			return
		}
		name, after, closed := strings.Cut(rest[open+1:], "}")
		if !closed {
			s.fail(at, "%q has a { that is not closed; write {name}", clip(text))
			return
		}
		variable := open > 0 && rest[open-1] == '$'
		rest = after
		if name = strings.TrimSuffix(name, "..."); !variable && !slices.Contains(names, name) {
			s.fail(at, "{%s} names no value of the pattern; %s", clip(name), s.suggest.advice(name, names))
		}
	}
}

// parsePattern checks the shape of a pattern, "[METHOD ][HOST]/[PATH]", and returns the names of its
// values and its path. What patterns mean to each other is found when the routes are compiled.
func parsePattern(pattern string) (names []string, path string, err error) {
	if len(pattern) > 8192 {
		return nil, "", fmt.Errorf("has %d bytes; 8192 are the most", len(pattern))
	}
	rest := pattern
	if blank := strings.IndexAny(pattern, " \t"); blank >= 0 {
		rest = strings.TrimLeft(pattern[blank:], " \t")
		if strings.Contains(pattern[:blank], "/") {
			return nil, "", fmt.Errorf("%q has a blank in its path; write it percent-encoded, as %%20",
				clip(pattern))
		}
		if err := checkMethod(pattern[:blank]); err != nil {
			return nil, "", err
		}
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return nil, "", fmt.Errorf("%q has no path; write [METHOD ][HOST]/[PATH], as \"/\" or "+
			"\"GET example.com/items/{id}\"", clip(pattern))
	}
	if host := strings.TrimPrefix(rest[:slash], "*."); host != "" || slash > 0 {
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && !isHostName(host) {
			return nil, "", fmt.Errorf("%q is not a host; write a name without a port, or *.name "+
				"for what is under it", clip(rest[:slash]))
		}
	}
	path = rest[slash:]
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		name, err := segmentName(segment, i == len(segments)-1)
		if err != nil {
			return nil, "", err
		}
		if name != "" && slices.Contains(names, name) {
			return nil, "", fmt.Errorf("has two values named {%s}; rename one", name)
		}
		if name != "" {
			names = append(names, name)
		}
	}
	return names, path, nil
}

// segmentName is the name of the value that a segment of a pattern stands for, or "" for a literal
// one.
func segmentName(segment string, last bool) (string, error) {
	if !strings.ContainsAny(segment, "{}") {
		if segment != "" && !isPath("/"+segment) {
			return "", fmt.Errorf("the segment %q has a character that a path cannot have; write "+
				"it percent-encoded", clip(segment))
		}
		return "", nil
	}
	name, opened := strings.CutPrefix(segment, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !opened || !closed {
		return "", fmt.Errorf("the segment %q is only in part in brackets; a value takes a whole "+
			"segment, as in /{name}/", clip(segment))
	}
	if name == "$" && last {
		return "", nil
	}
	name, multi := strings.CutSuffix(name, "...")
	switch {
	case !exchange.IsPatternName(name):
		return "", fmt.Errorf("%q is not a value of a pattern; write {name}, {name...} at the "+
			"end, or {$} at the end", clip(segment))
	case multi && !last:
		return "", fmt.Errorf("%q takes the rest of the path; it can only be the last segment", clip(segment))
	}
	return name, nil
}

func checkMethod(method string) error {
	switch {
	case !isToken(method):
		return fmt.Errorf("%q is not a method; write one such as GET, or none for all", clip(method))
	case method != strings.ToUpper(method):
		return fmt.Errorf("the method %q is not in upper case, which methods are; write %s",
			clip(method), strings.ToUpper(clip(method)))
	case method == "CONNECT":
		return fmt.Errorf("CONNECT is always refused; remove the route, or choose another method")
	}
	return nil
}

func (w *Split) check(s *scope) {
	sum := 0
	s.entries("weights", func(name string, key, _ place) {
		s.refer(key, name)
		sum += w.Weights[name]
	})
	if s.good("weights") && sum == 0 {
		s.reject("weights", "every weight is 0, so that no upstream is used; give one of them a weight")
	}
	if s.good("sticky") {
		s.key("sticky", w.Sticky, stickyKeys)
	}
}

func (m *Mirror) check(s *scope) {
	if s.good("upstream") {
		s.refer(s.at("upstream"), m.Upstream)
	}
}

func (a *Access) check(s *scope) {
	if len(a.Allow) == 0 && len(a.Deny) == 0 && !s.failed["allow"] && !s.failed["deny"] {
		s.fail(s.mapping, "names no address; give allow or deny at least one, or remove it")
	}
	lists := make(map[netip.Prefix]string)
	note := func(list string) func(place, netip.Prefix) {
		return func(at place, prefix netip.Prefix) {
			if before, again := lists[prefix]; again {
				s.fail(at, "%s is in %s already; keep one", prefix, before)
				return
			}
			lists[prefix] = list
		}
	}
	s.prefixes("allow", a.Allow, note("allow"))
	s.prefixes("deny", a.Deny, note("deny"))
}
