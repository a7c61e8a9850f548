package config

import (
	"strings"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// claimName checks the name of a field that trusted peers may send and that the gateway takes from
// everybody else: it must not be one that has a meaning already.
func (s *scope) claimName(key, name string) bool {
	if !isToken(name) {
		s.reject(key, "%q is not the name of a header; use up to 256 letters, digits and hyphens", clip(name))
		return false
	}
	if exchange.CheckFieldName(name) != nil || head.Lookup([]byte(name)) != head.Other {
		s.reject(key, "%s has a meaning of its own; choose another name, such as X-SLA-Class", clip(name))
		return false
	}
	return true
}

// sameField says whether two names may be read as one: case makes no difference, and neither does
// '_' for '-' to some services.
func sameField(a, b string) bool {
	dashes := strings.NewReplacer("_", "-")
	return strings.EqualFold(dashes.Replace(a), dashes.Replace(b))
}

func (r *Route) checkDeadlineHeader(s *scope) {
	if !s.good("deadline_header") || !s.claimName("deadline_header", r.DeadlineHeader) {
		return
	}
	s.deadlines = append(s.deadlines, named{s.at("deadline_header"), r.DeadlineHeader})
	if s.failed["request_headers"] {
		return
	}
	changed := append([]string{}, r.RequestHeaders.Remove...)
	for name := range r.RequestHeaders.Set {
		changed = append(changed, name)
	}
	for name := range r.RequestHeaders.Add {
		changed = append(changed, name)
	}
	for _, name := range changed {
		if sameField(name, r.DeadlineHeader) {
			s.reject("deadline_header", "request_headers change %s too, before the gateway writes it; "+
				"leave it out there", clip(name))
			return
		}
	}
}
