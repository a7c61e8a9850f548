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

// Files serves the files of a directory, to GET and HEAD. The path of a file is what {rest...}
// stands for at the end of the route's match, or what follows a match that ends in a slash; a match
// that ends in {$} is for the directory itself.
type Files struct {
	// Root is the directory. Required. Nothing outside of it is ever served. It is opened when the
	// config is loaded, and again when its path comes to lead elsewhere.
	Root string `yaml:"root" required:"true" file:"true"`
	// Index is the file that answers for a directory. Default: "index.html". "" is none.
	Index string `yaml:"index" default:"index.html"`
	// SPA answers a path that has no file with the root's index and 200, for applications of a
	// single page that have paths of their own. Default: false, 404. Hazard: a script or a picture
	// that is missing becomes a page, too; give those a route of their own.
	SPA bool `yaml:"spa" default:"false"`
	// Precompressed are the codings of files that lie beside others, compressed: "br" (name.br),
	// "zstd" (name.zst) and "gzip" (name.gz). A client gets the one that it prefers, and among
	// equals the first in this list. Default: none. Hazard: a compressed file that is older than
	// its original is sent all the same; make both again together.
	Precompressed []string `yaml:"precompressed" enum:"br,zstd,gzip"`
	// CacheControl is the Cache-Control of what is served. Default: none.
	CacheControl string `yaml:"cache_control"`
	// Listing lists a directory that has no index: as a page, or in JSON for a client that accepts
	// that and no HTML. Default: false, 404. Hazard: every client sees every name.
	Listing bool `yaml:"listing" default:"false"`
	// Symlinks says which symbolic links beneath the root are followed: "inside", those that stay
	// beneath it, or "none". Default: "inside". None is ever followed that is absolute, or leads
	// out.
	Symlinks string `yaml:"symlinks" default:"inside" enum:"inside,none"`
	// Dotfiles serves names that begin with a dot; .well-known is served in any case. Default:
	// false,
	// 404. Hazard: .git, .env and .htpasswd are such names.
	Dotfiles bool `yaml:"dotfiles" default:"false"`
	// Fresh is how long what is known of a file is used before it is checked again. The kernel
	// reports changes, so most are seen at once; where it cannot, as on network file systems, they
	// are seen after twice this time at the latest. Default: 1s.
	Fresh Duration `yaml:"fresh" default:"1s" min:"10ms" max:"1h"`
	// OpenFiles is how many files are kept open. Those that are being sent count only while others
	// need no place. Default: 1024. Hazard: each takes a descriptor from clients, of whose share at
	// least half is left; see LimitNOFILE.
	OpenFiles int `yaml:"open_files" default:"1024" min:"1" max:"1000000"`
	// Memory is how many bytes are kept of small files, and of what is known of paths. Default:
	// 32MB.
	Memory Size `yaml:"memory" default:"32MB" min:"64KB" max:"4GB"`
	// MemoryFile is the longest file that is sent from memory. Default: 32KB. 0B sends none from
	// memory.
	MemoryFile Size `yaml:"memory_file" default:"32KB" min:"0B" max:"1MB"`
	// Readers is how many files are opened, or read from a disk, at once. Default: 16.
	Readers int `yaml:"readers" default:"16" min:"1" max:"1024"`
	// MaxWaiting is how many requests may wait for the disk; more get 503 with the reason
	// files_busy. Default: 1024.
	MaxWaiting int `yaml:"max_waiting" default:"1024" min:"1" max:"1000000"`
	// MaxWait is how long a request waits for a file to be found and opened; then it gets 503,
	// likewise. Default: 5s.
	MaxWait Duration `yaml:"max_wait" default:"5s" min:"10ms" max:"1h"`
}

// Fallback is a static answer in the place of the 502, 503 or 504 that the gateway gives when the
// upstream failed, did not answer in time, has no target or no free connection, or when the request
// was shed to protect it (an open breaker, a limit of concurrency). Only GET and HEAD get it, in
// classes whose degrade has "static", and where the cache has nothing that may be given. What the
// upstream itself answers is passed on, errors too. The answer carries "X-Degraded: static".
type Fallback struct {
	// Status of the answer. Default: 200.
	Status int `yaml:"status" default:"200" min:"200" max:"599"`
	// ContentType is the Content-Type of the body. Default: "text/plain; charset=utf-8", unless
	// headers has one.
	ContentType string `yaml:"content_type"`
	// Headers of the answer. Values may have ${variables}, as those of response_headers.
	// Cache-Control is no-store unless it is given here. Hazard: a cache that may keep the answer
	// goes on giving it when the service is back.
	Headers map[string]string `yaml:"headers" template:"true"`
	// Body of the answer. In plain text, JSON, HTML and XML it may have ${variables}: at most 32 in
	// 64KB, of which each is given up to 1KB. They are escaped for the type; in JSON they stand in
	// strings alone, in HTML and XML in text alone. docs/protection-ladder.md has more. Default:
	// empty.
	Body string `yaml:"body" template:"true"`
	// File whose content is the body, read when the config is loaded, 16MB at most. Default: none.
	File string `yaml:"file" file:"true"`
	// Template: the file has ${variables} as the body may. Default: false, because pages with
	// scripts may have a "${" of their own.
	Template bool `yaml:"template" default:"false"`

	// Content is what File held when the configuration was loaded, nil when there is no
	// File. Routes that name the same file share the bytes: do not change them.
	Content []byte `yaml:"-"`
}

// Compress encodes the content of responses. What the service has encoded itself is passed on.
type Compress struct {
	// On: false switches it off, as leaving compress out does. Default: true.
	On bool `yaml:"on" default:"true" scalar:"true"`
	// Encodings that clients are given: "zstd", "br" and "gzip". The first wins where a client
	// likes several alike. Default: zstd, br, gzip.
	Encodings []string `yaml:"encodings" enum:"zstd,br,gzip"`
	// MinSize is the shortest content that is encoded, where its length is known before. Default:
	// 1KB. Below that a response takes as many packets as it would without.
	MinSize Size `yaml:"min_size" default:"1KB" min:"0B" max:"1GB"`
	// Types of content that are encoded: media types, such as application/json; all of a kind, such
	// as "text/*"; or a suffix, such as "+json". Default: text, JSON, XML, YAML, JavaScript,
	// WebAssembly and fonts that are not compressed; docs/compression.md has the list.
	Types []string `yaml:"types"`
	// Level: "fast", "balanced" or "small": how much processor time goes into making content small.
	// Default: "fast". docs/compression.md says what each costs.
	Level string `yaml:"level" default:"fast" enum:"fast,balanced,small"`
	// Adapt lowers the level of a loop that is busy, and passes content on as it is where that is
	// not enough. Default: true.
	Adapt bool `yaml:"adapt" default:"true"`
}
