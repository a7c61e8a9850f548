package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Instances are the shop's running servers, on loopback ports that the kernel chose.
type Instances struct {
	servers []*http.Server
	targets []string
	served  chan error
}

// Open starts one server for each of the options, all selling from stock. Close stops them.
func Open(stock *Stock, options ...Options) (*Instances, error) {
	in := &Instances{served: make(chan error, len(options))}
	for _, o := range options {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(
				fmt.Errorf("the shop's instance %q cannot listen on loopback: %w", o.Name, err),
				in.Close(),
			)
		}
		server := &http.Server{
			Handler:           NewShop(stock, o),
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
		}
		in.servers = append(in.servers, server)
		in.targets = append(in.targets, listener.Addr().String())
		go func() { in.served <- server.Serve(listener) }()
	}
	return in, nil
}

// Targets are the servers' addresses ("127.0.0.1:port"), in the order of the options.
func (in *Instances) Targets() []string { return in.targets }

// Close stops the servers: requests under way have three seconds to finish, then they are cut. It
// returns when the servers have ended.
func (in *Instances) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	var problems []error
	for _, server := range in.servers {
		if server.Shutdown(ctx) != nil {
			problems = append(problems, server.Close())
		}
	}
	for range in.servers {
		if err := <-in.served; !errors.Is(err, http.ErrServerClosed) {
			problems = append(problems, err)
		}
	}
	in.servers = nil
	return errors.Join(problems...)
}
