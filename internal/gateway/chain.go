package gateway

import (
	"maps"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/access"
	"plimsoll/internal/policy/cache"
	"plimsoll/internal/policy/compress"
	"plimsoll/internal/policy/cors"
	"plimsoll/internal/policy/earlyhints"
	"plimsoll/internal/policy/files"
	"plimsoll/internal/policy/forwarded"
	"plimsoll/internal/policy/guard"
	"plimsoll/internal/policy/headers"
	"plimsoll/internal/policy/inflight"
	"plimsoll/internal/policy/ladder"
	"plimsoll/internal/policy/limit"
	"plimsoll/internal/policy/maxbody"
	"plimsoll/internal/policy/mirror"
	"plimsoll/internal/policy/redirect"
	"plimsoll/internal/policy/requestid"
	"plimsoll/internal/policy/respond"
	"plimsoll/internal/policy/rewrite"
	"plimsoll/internal/policy/split"
	"plimsoll/internal/policy/trace"
	"plimsoll/internal/policy/tunnels"
)

// plan is what is needed to compile a route of the config to a chain.
type plan struct {
	*config.Route
	names    []string       // the names in its pattern
	upstream map[string]int // indexes of the upstreams by name
	stores   stores
	memory   *cache.Memory
	encoders *compress.Encoders
	env      exchange.Env
	barred   exchange.Barred
	// what unsafe requests invalidate; nil if no route has a cache
	outdating *cache.Outdating
}

// kind is a kind of policy.
type kind struct {
	name   string // its key in a route's config
	series []exchange.Series
	make   func(plan) (any, error)
}

// policies are all kinds of policies, in the order in which a chain runs them, both for requests
// and for responses. make returns nil for routes that do not name the policy, so that a route
// carries only what it asks for. (The cache is an exception: if one route has it, the unsafe
// requests of all routes invalidate what it stores.) To add a policy, add its package, its key in
// the config's types, and its entry here.
var policies = []kind{
	{name: "fallback", series: ladder.Series, make: func(p plan) (any, error) {
		if p.Fallback == nil && p.Cache == nil {
			return nil, nil
		}
		o := ladder.Options{Stored: p.Cache != nil, Loops: p.env.Loops,
			Barred: p.barred[exchange.StepStatic]}
		if f := p.Fallback; f != nil {
			o.Answer, o.PathNames = fallbackAnswer(f), p.names
			o.Plain = f.Content != nil && !f.Template
		}
		return ladder.New(o)
	}},
	{name: "access", make: func(p plan) (any, error) {
		if p.Access == nil {
			return nil, nil
		}
		return access.New(access.Options{Allow: p.Access.Allow, Deny: p.Access.Deny})
	}},
	{name: "request_id", make: func(p plan) (any, error) {
		if !p.RequestID {
			return nil, nil
		}
		return requestid.New(requestid.Options{Random: p.env.Random})
	}},
	{name: "trace", make: func(p plan) (any, error) {
		if !p.Trace {
			return nil, nil
		}
		return trace.New(trace.Options{Random: p.env.Random})
	}},
	{name: "cors", make: func(p plan) (any, error) {
		c := p.CORS
		if c == nil {
			return nil, nil
		}
		return cors.New(cors.Options{Origins: c.Origins, Methods: c.Methods, Headers: c.Headers,
			Expose: c.Expose, Credentials: c.Credentials,
			MaxAge: time.Duration(c.MaxAge)})
	}},
	{name: "limits", series: limit.Series, make: func(p plan) (any, error) {
		if len(p.Limits) == 0 {
			return nil, nil
		}
		o, err := limitOptions(p.Limits, p.stores)
		if err != nil {
			return nil, err
		}
		o.Env, o.Route = p.env, p.Name
		return limit.New(o)
	}},
	{name: "websocket", series: tunnels.Series, make: func(p plan) (any, error) {
		if p.WebSocket.Max == 0 {
			return nil, nil
		}
		return tunnels.New(tunnels.Options{Max: p.WebSocket.Max})
	}},
	{name: "max_body", make: func(p plan) (any, error) {
		if p.MaxBody == 0 {
			return nil, nil
		}
		return maxbody.New(maxbody.Options{Max: int64(p.MaxBody)})
	}},
	{name: "response_headers", make: func(p plan) (any, error) {
		if empty(p.ResponseHeaders) {
			return nil, nil
		}
		return headers.NewResponse(headerOptions(p.ResponseHeaders, p.names))
	}},
	{name: "guard", series: guard.Series, make: func(p plan) (any, error) {
		g := p.Guard
		if g == nil {
			return nil, nil
		}
		o := guard.Options{Key: g.Key, File: g.File, URL: g.URL, Every: time.Duration(g.Every),
			FalsePositives: float64(g.FalsePositives), MaxKeys: g.MaxKeys,
			KeepAdded: time.Duration(g.KeepAdded), Env: p.env}
		if g.Redis != nil {
			o.Redis, o.Set = p.stores[g.Redis.Name].Client, g.Redis.Set
		}
		return guard.New(o)
	}},
	{name: "split", make: func(p plan) (any, error) {
		if p.Split == nil {
			return nil, nil
		}
		o := split.Options{Sticky: p.Split.Sticky, Random: p.env.Random}
		for name, weight := range p.Split.Weights {
			o.Shares = append(o.Shares, split.Share{Upstream: p.upstream[name], Weight: weight})
		}
		return split.New(o)
	}},
	{name: "early_hints", make: func(p plan) (any, error) {
		if !p.EarlyHints {
			return nil, nil
		}
		return earlyhints.New(earlyhints.Options{Loops: p.env.Loops})
	}},
	{name: "concurrency", series: inflight.Series, make: func(p plan) (any, error) {
		c := p.Concurrency
		if c == nil {
			return nil, nil
		}
		return inflight.New(inflight.Options{Max: c.Max, Key: c.Key, PerValue: c.MaxPerValue,
			SkipMissing: c.Missing == "pass", Values: c.Values, Env: p.env})
	}},
	{name: "cache", series: cache.Series, make: func(p plan) (any, error) {
		switch {
		case p.Cache != nil:
		case p.outdating != nil && (p.Upstream != "" || p.Split != nil):
			return cache.NewOutdater(p.outdating, p.env.Loops), nil
		default:
			return nil, nil
		}
		o, err := cacheOptions(p)
		if err != nil {
			return nil, err
		}
		return cache.New(o)
	}},
	{name: "compress", series: compress.Series, make: func(p plan) (any, error) {
		c := p.Compress
		if c == nil || !c.On {
			return nil, nil
		}
		return compress.New(compress.Options{Encodings: c.Encodings, MinSize: int64(c.MinSize),
			Types: c.Types,
			Level: compressLevels[c.Level], Fixed: !c.Adapt, Encoders: p.encoders})
	}},
	{name: "mirror", make: func(p plan) (any, error) {
		if p.Mirror == nil {
			return nil, nil
		}
		return mirror.New(mirror.Options{Upstream: p.upstream[p.Mirror.Upstream],
			Share: float64(*p.Mirror.Share), MaxBody: int64(p.Mirror.MaxBody),
			Random: p.env.Random})
	}},
	{name: "rewrite", make: func(p plan) (any, error) {
		if p.StripPrefix == "" && p.Rewrite == "" {
			return nil, nil
		}
		return rewrite.New(rewrite.Options{StripPrefix: p.StripPrefix, Replace: p.Rewrite,
			PathNames: p.names})
	}},
	{name: "forwarded", make: func(p plan) (any, error) {
		if p.Upstream == "" && p.Split == nil {
			return nil, nil
		}
		return forwarded.New(forwarded.Options{})
	}},
	{name: "request_headers", make: func(p plan) (any, error) {
		if empty(p.RequestHeaders) {
			return nil, nil
		}
		return headers.NewRequest(headerOptions(p.RequestHeaders, p.names))
	}},
	{name: "respond", make: func(p plan) (any, error) {
		if p.Respond == nil {
			return nil, nil
		}
		r := p.Respond
		return respond.New(respond.Options{Status: r.Status, Headers: r.Headers,
			Body: staticBody(r.Content, r.Body)})
	}},
	{name: "redirect", make: func(p plan) (any, error) {
		if p.Redirect == nil {
			return nil, nil
		}
		return redirect.New(redirect.Options{To: p.Redirect.To, Status: p.Redirect.Status,
			PathNames: p.names})
	}},
	{name: "files", series: files.Series, make: func(p plan) (any, error) {
		f := p.Files
		if f == nil {
			return nil, nil
		}
		return files.New(files.Options{Root: f.Root, Index: f.Index, Fallback: f.SPA,
			Codings:      f.Precompressed,
			CacheControl: f.CacheControl, Listing: f.Listing, Symlinks: f.Symlinks == "inside",
			Dotfiles: f.Dotfiles,
			Fresh:    time.Duration(f.Fresh), OpenFiles: f.OpenFiles, Memory: int64(f.Memory),
			MemoryFile: int64(f.MemoryFile), Readers: f.Readers, Waiting: f.MaxWaiting,
			MaxWait: time.Duration(f.MaxWait), Pattern: p.Match, Env: p.env})
	}},
}

// compressLevels are the levels of compress by their names in a config.
var compressLevels = map[string]compress.Level{
	"fast": compress.Fast, "balanced": compress.Balanced, "small": compress.Small,
}

func fallbackAnswer(f *config.Fallback) *exchange.StaticOptions {
	o := &exchange.StaticOptions{Status: f.Status, Headers: f.Headers, Body: staticBody(f.Content, f.Body)}
	if f.ContentType != "" {
		o.Headers = map[string]string{"Content-Type": f.ContentType}
		maps.Copy(o.Headers, f.Headers)
	}
	return o
}

// staticBody is the content of a file or, without a file, the text.
func staticBody(content []byte, text string) []byte {
	if content == nil {
		return []byte(text)
	}
	return content
}

func empty(h config.HeaderOps) bool { return len(h.Add)+len(h.Set)+len(h.Remove) == 0 }

func headerOptions(h config.HeaderOps, names []string) headers.Options {
	return headers.Options{Remove: h.Remove, Set: h.Set, Add: h.Add, PathNames: names}
}

// policy is a policy of a route.
type policy struct {
	route, kind string
	is          any
}

// misfit is a policy that could not be made.
type misfit struct {
	key string
	err error
}

// chain compiles a route's policies.
func (p plan) chain(kinds []kind) (c exchange.Chain, made []policy, bad []misfit) {
	for _, entry := range kinds {
		is, err := entry.make(p)
		switch {
		case err != nil:
			bad = append(bad, misfit{entry.name, err})
		case is != nil:
			c.Append(is)
			made = append(made, policy{p.Name, entry.name, is})
		}
	}
	return c, made, bad
}
