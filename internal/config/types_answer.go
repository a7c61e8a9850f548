package config

// Respond answers at once.
type Respond struct {
	// Status of the answer. Default: 200.
	Status int `yaml:"status" default:"200" min:"200" max:"599"`
	// Headers of the answer.
	Headers map[string]string `yaml:"headers"`
	// Body of the answer. Default: empty.
	Body string `yaml:"body"`
	// File whose content is the body, read when the config is loaded, 16MB at most. Default: none.
	File string `yaml:"file" file:"true"`

	// Content is what File held when the configuration was loaded, nil when there is no
	// File. Routes that name the same file share the bytes: do not change them.
	Content []byte `yaml:"-"`
}

// Redirect sends the client elsewhere.
type Redirect struct {
	// To is the location; it may use the pattern's {name} values and ${variables}. Required.
	To string `yaml:"to" required:"true" template:"true"`
	// Status: 301, 302, 303, 307 or 308. Default: 308.
	Status int `yaml:"status" default:"308" enum:"301,302,303,307,308"`
}

// Fallback is a static answer in the place of the 502, 503 or 504 that the gateway gives when the
// upstream failed, did not answer in time, has no target or no free connection, or when the request
// was shed to protect it (an open breaker, a limit of concurrency). Only GET and HEAD get it. What
// the upstream itself answers is passed on, errors too. The answer carries "X-Degraded: static".
type Fallback struct {
	// Status of the answer. Default: 200.
	Status int `yaml:"status" default:"200" min:"200" max:"599"`
	// ContentType is the Content-Type of the body. Default: "text/plain; charset=utf-8", unless
	// headers has one.
	ContentType string `yaml:"content_type"`
	// Headers of the answer. Cache-Control is no-store unless it is given here. Hazard: a cache that
	// may keep the answer goes on giving it when the service is back.
	Headers map[string]string `yaml:"headers"`
	// Body of the answer. Default: empty.
	Body string `yaml:"body"`
	// File whose content is the body, read when the config is loaded, 16MB at most. Default: none.
	File string `yaml:"file" file:"true"`

	// Content is what File held when the configuration was loaded, nil when there is no
	// File. Routes that name the same file share the bytes: do not change them.
	Content []byte `yaml:"-"`
}
