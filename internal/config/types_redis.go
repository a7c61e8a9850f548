package config

// Redis is a Redis server or cluster that instances of the gateway share.
type Redis struct {
	// Addresses of the server, each as "host:port". For a cluster, give some of its masters: the
	// gateway finds the other servers through them. Host names are resolved again for each new
	// connection. At least one is required.
	Addresses []string `yaml:"addresses" required:"true"`
	// Username for authentication. Default: none, the server's default user.
	Username string `yaml:"username"`
	// Password for authentication. Default: none.
	Password string `yaml:"password" secret:"true"`
	// TLS turns on TLS for the connections. Default: plain text.
	TLS *UpstreamTLS `yaml:"tls"`
	// Timeout is how long a request waits for an answer. After that, the limit's unavailable
	// decides. It must be shorter than the timeout of the routes that use this Redis for limits.
	// Default: 50ms.
	Timeout Duration `yaml:"timeout" default:"50ms" min:"1ms" max:"10s"`
	// MaxInFlight is the maximum number of calls in flight. Further calls are treated as if Redis
	// were unavailable. Default: 1024.
	MaxInFlight int `yaml:"max_in_flight" default:"1024" min:"1" max:"1000000"`
	// Prefix of all keys. Gateways that should count separately need different prefixes. Default:
	// "plimsoll:".
	Prefix string `yaml:"prefix" default:"plimsoll:"`

	at Position
}

// Position is where the store begins in its file.
func (r *Redis) Position() Position { return r.at }
