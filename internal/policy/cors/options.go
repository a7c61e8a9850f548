package cors

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Options of the policy.
type Options struct {
	// Origins allowed, at least one: "https://a.example", "https://*.a.example" (one label in the
	// star's place), or "*".
	Origins []string
	// Methods are the methods that answers to preflights allow. Default: GET, HEAD, POST.
	Methods []string
	// Headers that requests may carry besides the safelisted ones.
	Headers []string
	// Expose lists response headers that scripts may read besides the safelisted ones.
	Expose []string
	// Credentials allows cookies and authorization. Not with the origin "*", nor with "*" in
	// another list.
	Credentials bool
	// MaxAge is how long a browser may remember a preflight, in whole seconds; 0 or more. Browsers
	// have their own limits.
	MaxAge time.Duration
}

// New checks the options and prepares all answers.
func New(o Options) (*Policy, error) {
	p := &Policy{credentials: o.Credentials}
	if len(o.Origins) == 0 {
		return nil, errors.New(`cors allows no origin; list some, or "*"`)
	}
	for _, text := range o.Origins {
		if err := p.origins.add(text); err != nil {
			return nil, err
		}
	}
	if p.origins.any && o.Credentials {
		return nil, errors.New(`credentials cannot be allowed to the origin "*"; list the origins`)
	}
	if o.MaxAge < 0 {
		return nil, fmt.Errorf("a max age of %v; give 0s or more", o.MaxAge)
	}
	methods := o.Methods
	if len(methods) == 0 {
		methods = []string{"GET", "HEAD", "POST"}
	}
	for _, list := range []struct {
		field  string
		names  []string
		fields *[]head.Field
	}{
		{"Access-Control-Allow-Methods", methods, &p.preflight},
		{"Access-Control-Allow-Headers", o.Headers, &p.preflight},
		{"Access-Control-Expose-Headers", o.Expose, &p.expose},
	} {
		for _, name := range list.names {
			if !head.IsToken([]byte(name)) {
				return nil, fmt.Errorf("%q cannot stand in %s: it is not a method or header name",
					name, list.field)
			}
		}
		if o.Credentials && slices.Contains(list.names, "*") {
			return nil, fmt.Errorf(`browsers do not take "*" in %s for everything where credentials are `+
				`allowed; list the names`, list.field)
		}
		if len(list.names) > 0 {
			*list.fields = append(*list.fields,
				exchange.StaticField(list.field, strings.Join(list.names, ", ")))
		}
	}
	seconds := strconv.FormatInt(int64(o.MaxAge/time.Second), 10)
	p.preflight = append(p.preflight, exchange.StaticField("Access-Control-Max-Age", seconds))
	return p, nil
}
