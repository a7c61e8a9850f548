package gateway

import (
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/access"
	"plimsoll/internal/policy/cors"
	"plimsoll/internal/policy/forwarded"
	"plimsoll/internal/policy/headers"
	"plimsoll/internal/policy/maxbody"
	"plimsoll/internal/policy/mirror"
	"plimsoll/internal/policy/redirect"
	"plimsoll/internal/policy/requestid"
	"plimsoll/internal/policy/respond"
	"plimsoll/internal/policy/rewrite"
	"plimsoll/internal/policy/split"
	"plimsoll/internal/policy/trace"
)

// plan is a route on its way from the config to a chain.
type plan struct {
	*config.Route
	names    []string       // of its pattern
	upstream map[string]int // the indexes of upstreams by name
	random   func() uint64  // nil for each policy's own
}

// policies are all there are, in the order in which a chain runs them, both for requests and for
// responses. A policy is made for the routes that name it and nil for all others: a route carries
// only what it asks for. To add a policy is to add its room and its line here.
var policies = []struct {
	name string
	make func(plan) (any, error)
}{
	{"access", func(p plan) (any, error) {
		if p.Access == nil {
			return nil, nil
		}
		return access.New(access.Options{Allow: p.Access.Allow, Deny: p.Access.Deny})
	}},
	{"request_id", func(p plan) (any, error) {
		if !p.RequestID {
			return nil, nil
		}
		return requestid.New(requestid.Options{Random: p.random})
	}},
	{"trace", func(p plan) (any, error) {
		if !p.Trace {
			return nil, nil
		}
		return trace.New(trace.Options{Random: p.random})
	}},
	{"cors", func(p plan) (any, error) {
		c := p.CORS
		if c == nil {
			return nil, nil
		}
		return cors.New(cors.Options{Origins: c.Origins, Methods: c.Methods, Headers: c.Headers, Expose: c.Expose, Credentials: c.Credentials,
			MaxAge: time.Duration(c.MaxAge)})
	}},
	{"max_body", func(p plan) (any, error) {
		if p.MaxBody == 0 {
			return nil, nil
		}
		return maxbody.New(maxbody.Options{Max: int64(p.MaxBody)})
	}},
	{"split", func(p plan) (any, error) {
		if p.Split == nil {
			return nil, nil
		}
		o := split.Options{Sticky: p.Split.Sticky, Random: p.random}
		for name, weight := range p.Split.Weights {
			o.Shares = append(o.Shares, split.Share{Upstream: p.upstream[name], Weight: weight})
		}
		return split.New(o)
	}},
	{"mirror", func(p plan) (any, error) {
		if p.Mirror == nil {
			return nil, nil
		}
		return mirror.New(mirror.Options{Upstream: p.upstream[p.Mirror.Upstream], Share: float64(*p.Mirror.Share), MaxBody: int64(p.Mirror.MaxBody),
			Random: p.random})
	}},
	{"rewrite", func(p plan) (any, error) {
		if p.StripPrefix == "" && p.Rewrite == "" {
			return nil, nil
		}
		return rewrite.New(rewrite.Options{StripPrefix: p.StripPrefix, Replace: p.Rewrite, PathNames: p.names})
	}},
	{"forwarded", func(p plan) (any, error) {
		if p.Upstream == "" && p.Split == nil {
			return nil, nil
		}
		return forwarded.New(forwarded.Options{})
	}},
	{"request_headers", func(p plan) (any, error) {
		if empty(p.RequestHeaders) {
			return nil, nil
		}
		return headers.NewRequest(headerOptions(p.RequestHeaders, p.names))
	}},
	{"response_headers", func(p plan) (any, error) {
		if empty(p.ResponseHeaders) {
			return nil, nil
		}
		return headers.NewResponse(headerOptions(p.ResponseHeaders, p.names))
	}},
	{"respond", func(p plan) (any, error) {
		if p.Respond == nil {
			return nil, nil
		}
		body := p.Respond.Content
		if body == nil {
			body = []byte(p.Respond.Body)
		}
		return respond.New(respond.Options{Status: p.Respond.Status, Headers: p.Respond.Headers, Body: body})
	}},
	{"redirect", func(p plan) (any, error) {
		if p.Redirect == nil {
			return nil, nil
		}
		return redirect.New(redirect.Options{To: p.Redirect.To, Status: p.Redirect.Status, PathNames: p.names})
	}},
}

func empty(h config.HeaderOps) bool { return len(h.Add)+len(h.Set)+len(h.Remove) == 0 }

func headerOptions(h config.HeaderOps, names []string) headers.Options {
	return headers.Options{Remove: h.Remove, Set: h.Set, Add: h.Add, PathNames: names}
}

// misfit is a policy that could not be made.
type misfit struct {
	key string
	err error
}

// chain compiles a route's policies.
func (p plan) chain() (c exchange.Chain, bad []misfit) {
	for _, entry := range policies {
		policy, err := entry.make(p)
		switch {
		case err != nil:
			bad = append(bad, misfit{entry.name, err})
		case policy != nil:
			c.Append(policy)
		}
	}
	return c, bad
}
