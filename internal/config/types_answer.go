package config

// Respond sends a fixed answer.
type Respond struct {
	// Status of the answer. Default: 200.
	Status int `yaml:"status" default:"200" min:"200" max:"599"`
	// Headers of the answer.
	Headers map[string]string `yaml:"headers"`
	// Body of the answer. Default: empty.
	Body string `yaml:"body"`
	// File with the body. It is read when the configuration is loaded, and may have up to 16MB.
	// Default: none.
	File string `yaml:"file" file:"true"`

	// Content is what File held when the configuration was loaded, nil when there is no
	// File. Routes that name the same file share the bytes: do not change them.
	Content []byte `yaml:"-"`
}

// Redirect sends the client to another URL.
type Redirect struct {
	// To is the target URL. It may use {name} values of the pattern and ${variables}. Required.
	To string `yaml:"to" required:"true" template:"true"`
	// Status: 301, 302, 303, 307 or 308. Default: 308.
	Status int `yaml:"status" default:"308" enum:"301,302,303,307,308"`
}

// Files serves the files of a directory to GET and HEAD requests. The path of a file is what
// {rest...} at the end of the route's match stands for, or what follows a match that ends in a
// slash. A match that ends in {$} serves the directory itself.
type Files struct {
	// Root is the directory. Nothing outside it is ever served. It is opened when the configuration
	// is loaded, and again if its path later leads to another directory. Required.
	Root string `yaml:"root" required:"true" file:"true"`
	// Index is the name of the file that is served for a directory. Default: "index.html". "" turns
	// it off.
	Index string `yaml:"index" default:"index.html"`
	// SPA answers a path that has no file with the root's index and status 200. This is for
	// single-page applications that handle such paths themselves. Default: false, 404. Hazard: a
	// missing script or image is answered with the page, too. Give those a route of their own.
	SPA bool `yaml:"spa" default:"false"`
	// Precompressed lists the encodings of compressed files that lie beside the originals: "br"
	// (name.br), "zstd" (name.zst) and "gzip" (name.gz). A client gets the encoding that it
	// prefers. If it gives several the same weight, the first one in this list is used. Default:
	// none. Hazard: a compressed file is sent even if it is older than its original. Always update
	// both.
	Precompressed []string `yaml:"precompressed" enum:"br,zstd,gzip"`
	// CacheControl is the Cache-Control header of the responses. Default: none.
	CacheControl string `yaml:"cache_control"`
	// Listing lists a directory that has no index: as an HTML page, or as JSON for a client that
	// accepts JSON and no HTML. Default: false, 404. Hazard: every client sees every name.
	Listing bool `yaml:"listing" default:"false"`
	// Symlinks says which symbolic links below the root are followed: "inside" (links that stay
	// below the root) or "none". Absolute links, and links that lead out of the root, are never
	// followed. Default: "inside".
	Symlinks string `yaml:"symlinks" default:"inside" enum:"inside,none"`
	// Dotfiles serves names that begin with a dot. .well-known is always served. Default: false,
	// 404. Hazard: .git, .env and .htpasswd are such names.
	Dotfiles bool `yaml:"dotfiles" default:"false"`
	// Fresh is how long cached information about a file is used before it is checked again. The
	// kernel reports most changes at once. Changes that it does not report, as on network file
	// systems, are seen after twice this time at the latest. Default: 1s.
	Fresh Duration `yaml:"fresh" default:"1s" min:"10ms" max:"1h"`
	// OpenFiles is how many files are kept open. A file that is being sent counts only until
	// another file needs its place. Default: 1024. Hazard: open files take descriptors that clients
	// could use. Clients keep at least half of theirs: see LimitNOFILE in docs/operations.md.
	OpenFiles int `yaml:"open_files" default:"1024" min:"1" max:"1000000"`
	// Memory limits the memory for small files and for information about paths. Default: 32MB.
	Memory Size `yaml:"memory" default:"32MB" min:"64KB" max:"4GB"`
	// MemoryFile is the maximum length of a file that is sent from memory. Default: 32KB. 0B sends
	// no file from memory.
	MemoryFile Size `yaml:"memory_file" default:"32KB" min:"0B" max:"1MB"`
	// Readers is how many files are opened, or read from a disk, at once. Default: 16.
	Readers int `yaml:"readers" default:"16" min:"1" max:"1024"`
	// MaxWaiting is how many requests may wait for the disk. More get 503 with the reason
	// files_busy. Default: 1024.
	MaxWaiting int `yaml:"max_waiting" default:"1024" min:"1" max:"1000000"`
	// MaxWait is how long a request may wait for a file to be found and opened. After that, it gets
	// 503 with the reason files_busy. Default: 5s.
	MaxWait Duration `yaml:"max_wait" default:"5s" min:"10ms" max:"1h"`
}

// Fallback is a static answer that replaces a 502, 503 or 504 of the gateway. It is sent if the
// upstream failed, did not answer in time, or has no target or no free connection, and if the
// request was shed to protect the upstream (an open breaker, a concurrency limit). It is sent only
// to GET and HEAD requests, only if the degrade list of their class has "static", and only if the
// cache has nothing that may be sent instead. What the upstream itself answers is passed on, errors
// too. The answer carries "X-Degraded: static".
type Fallback struct {
	// Status of the answer. Default: 200.
	Status int `yaml:"status" default:"200" min:"200" max:"599"`
	// ContentType is the Content-Type of the body. Default: "text/plain; charset=utf-8", unless
	// headers has one.
	ContentType string `yaml:"content_type"`
	// Headers of the answer. Values may use ${variables}, like those of response_headers.
	// Cache-Control is no-store unless it is set here. Hazard: a cache that may store the answer
	// keeps serving it after the service has recovered.
	Headers map[string]string `yaml:"headers" template:"true"`
	// Body of the answer. In plain text, JSON, HTML and XML it may use ${variables}: at most 32, in
	// a body of at most 64KB, and at most 1KB of each value is used. Values are escaped for the
	// content type. Variables may stand only within strings in JSON, and only in text in HTML and
	// XML. docs/protection-ladder.md has the details. Default: empty.
	Body string `yaml:"body" template:"true"`
	// File with the body. It is read when the configuration is loaded, and may have up to 16MB.
	// Default: none.
	File string `yaml:"file" file:"true"`
	// Template lets the file use ${variables}, as body may. Default: false, because pages with
	// scripts may contain "${" for other reasons.
	Template bool `yaml:"template" default:"false"`

	// Content is what File held when the configuration was loaded, nil when there is no
	// File. Routes that name the same file share the bytes: do not change them.
	Content []byte `yaml:"-"`
}

// Compress encodes the content of responses. Content that the service has encoded itself is passed
// on unchanged.
type Compress struct {
	// On can be set to false to turn compression off, as if compress were left out. Default: true.
	On bool `yaml:"on" default:"true" scalar:"true"`
	// Encodings that the gateway may use: "zstd", "br" and "gzip". If a client gives several of
	// them the same weight, the first one in this list is used. Default: zstd, br, gzip.
	Encodings []string `yaml:"encodings" enum:"zstd,br,gzip"`
	// MinSize is the minimum length of content that is encoded, if the length is known in advance.
	// Default: 1KB. Below that, encoding does not save a packet.
	MinSize Size `yaml:"min_size" default:"1KB" min:"0B" max:"1GB"`
	// Types of content that are encoded: media types, such as application/json; all subtypes of a
	// type, such as "text/*"; or a suffix, such as "+json". Default: text, JSON, XML, YAML,
	// JavaScript, WebAssembly and uncompressed fonts. docs/compression.md has the list.
	Types []string `yaml:"types"`
	// Level says how much CPU time is spent on making content small: "fast", "balanced" or "small".
	// Default: "fast". docs/compression.md says what each costs.
	Level string `yaml:"level" default:"fast" enum:"fast,balanced,small"`
	// Adapt lowers the level on a busy loop. If that is not enough, content is sent uncompressed.
	// Default: true.
	Adapt bool `yaml:"adapt" default:"true"`
}
