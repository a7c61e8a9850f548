package config

// Redis is a server, or a cluster of them, that instances of the gateway share.
type Redis struct {
	// Addresses, each "host:port": of one server, or of some masters of a cluster, whose other
	// servers are found by them. At least one is needed. Names are looked up at each new
	// connection.
	Addresses []string `yaml:"addresses" required:"true"`
	// Username to authenticate with. Default: none, the server's default user.
	Username string `yaml:"username"`
	// Password to authenticate with. Default: none.
	Password string `yaml:"password" secret:"true"`
	// TLS makes the connections TLS. Default: plain text.
	TLS *UpstreamTLS `yaml:"tls"`
	// Timeout is how long a request waits for an answer; then unavailable of its limit decides. It
	// must be shorter than the timeout of routes that use this Redis. Default: 50ms.
	Timeout Duration `yaml:"timeout" default:"50ms" min:"1ms" max:"10s"`
	// MaxInFlight is the most calls that are under way at a time; further ones are treated as if
	// Redis were unavailable. Default: 1024.
	MaxInFlight int `yaml:"max_in_flight" default:"1024" min:"1" max:"1000000"`
	// Prefix of every key. Default: "plimsoll:". Gateways that should count separately need
	// different prefixes.
	Prefix string `yaml:"prefix" default:"plimsoll:"`

	at Position
}

// Position is where the store begins in its file.
func (r *Redis) Position() Position { return r.at }
