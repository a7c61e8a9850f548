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

// Compress encodes the content of responses. What the service has encoded itself is passed on.
type Compress struct {
	// On: false switches it off, as leaving compress out does. Default: true.
	On bool `yaml:"on" default:"true" scalar:"true"`
	// Encodings that clients are given: "zstd", "br" and "gzip". The first wins where a client likes
	// several alike. Default: zstd, br, gzip.
	Encodings []string `yaml:"encodings" enum:"zstd,br,gzip"`
	// MinSize is the shortest content that is encoded, where its length is known before. Default: 1KB.
	// Below that a response takes as many packets as it would without.
	MinSize Size `yaml:"min_size" default:"1KB" min:"0B" max:"1GB"`
	// Types of content that are encoded: media types, such as application/json; all of a kind, such as
	// "text/*"; or a suffix, such as "+json". Default: text, JSON, XML, YAML, JavaScript, WebAssembly and
	// fonts that are not compressed; docs/compression.md has the list.
	Types []string `yaml:"types"`
	// Level: "fast", "balanced" or "small": how much processor time goes into making content small.
	// Default: "fast". docs/compression.md says what each costs.
	Level string `yaml:"level" default:"fast" enum:"fast,balanced,small"`
	// Adapt lowers the level of a loop that is busy, and passes content on as it is where that is not
	// enough. Default: true.
	Adapt bool `yaml:"adapt" default:"true"`
}
