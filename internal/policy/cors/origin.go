package cors

import (
	"fmt"
	"strings"
)

// origins are the allowed origins.
type origins struct {
	any       bool
	exact     map[string]struct{}
	wildcards []wildcard
}

// wildcard is an origin with any one label between before and after: "https://" and ".a.example".
type wildcard struct{ before, after string }

// allow reports whether an Origin's value is allowed. Browsers write origins in one form (RFC 6454,
// section 6.2), lower-case and without default ports, so bytes are compared. It does not allocate.
func (o *origins) allow(origin []byte) bool {
	switch {
	case len(origin) == 0 || string(origin) == "null":
		return false
	case o.any:
		return true
	}
	if _, ok := o.exact[string(origin)]; ok {
		return true
	}
	for i := range o.wildcards {
		if o.wildcards[i].match(origin) {
			return true
		}
	}
	return false
}

func (w *wildcard) match(origin []byte) bool {
	n := len(origin) - len(w.before) - len(w.after)
	if n < 1 || string(origin[:len(w.before)]) != w.before ||
		string(origin[len(origin)-len(w.after):]) != w.after {
		return false
	}
	for _, c := range origin[len(w.before) : len(w.before)+n] {
		if !isLabel(c) {
			return false
		}
	}
	return true
}

func isLabel(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// add reads an origin of the configuration.
func (o *origins) add(text string) error {
	origin := strings.ToLower(text)
	switch origin {
	case "*":
		o.any = true
		return nil
	case "null":
		return fmt.Errorf("the origin %q is that of every sandboxed page and local file and "+
			"cannot be allowed", text)
	}
	scheme, host, ok := strings.Cut(origin, "://")
	if !ok || scheme == "" || host == "" ||
		strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.") != "" {
		return fmt.Errorf("%q is not an origin; write one like https://a.example or "+
			"https://*.a.example, or *", text)
	}
	if strings.ContainsAny(host, "/?#@ \t\r\n\"\\") {
		return fmt.Errorf("%q is more than an origin; leave out what follows the host and port", text)
	}
	if scheme == "https" && strings.HasSuffix(host, ":443") || scheme == "http" &&
		strings.HasSuffix(host, ":80") {
		return fmt.Errorf("%q has its scheme's default port, which browsers leave out; leave it "+
			"out too", text)
	}
	if suffix, found := strings.CutPrefix(host, "*."); found && suffix != "" &&
		!strings.Contains(suffix, "*") {
		o.wildcards = append(o.wildcards, wildcard{scheme + "://", "." + suffix})
		return nil
	}
	if strings.Contains(host, "*") {
		return fmt.Errorf("%q has a star in a place other than a whole first label; write one "+
			"like https://*.a.example", text)
	}
	for i := range len(host) {
		if c := host[i]; !isLabel(c) && strings.IndexByte(".:[]", c) < 0 {
			return fmt.Errorf("%q has a character that no host has; write international names in "+
				"their xn-- form", text)
		}
	}
	if o.exact == nil {
		o.exact = map[string]struct{}{}
	}
	o.exact[origin] = struct{}{}
	return nil
}
