package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"plimsoll/internal/crash"
)

const (
	// maxChecks bounds the health checks of an upstream that are under way at once.
	maxChecks = 64
	// checkBody is how many bytes of a check's answer are read, so that the connection of a small
	// answer does not end in a reset.
	checkBody = 64 << 10
	// deepFirst is the time within which the first deep check is made.
	deepFirst = 10 * time.Second
	// deepHurry is how many light intervals pass between deep checks of a target that is down or
	// has just failed one. At five minutes each, three failures would take a quarter of an hour.
	deepHurry = 10
)

// check is one of the two kinds of health check, light or deep.
type check struct {
	deep     bool
	asks     string // the path, or with gRPC the service, that it asks for
	interval time.Duration
	timeout  time.Duration
}

// watch begins the health checks of a target; drop ends them. The caller holds mu.
func (u *Upstream) watch(t *Target) {
	a := u.options.Active
	if a == nil {
		return
	}
	var ctx context.Context
	ctx, t.stop = context.WithCancel(u.ctx)
	light := check{asks: a.Path, interval: a.Interval, timeout: a.Timeout}
	deep := check{deep: true, asks: a.DeepPath, interval: a.DeepInterval, timeout: a.DeepTimeout}
	if a.GRPC != nil {
		light.asks, deep.asks = a.GRPC.Service, a.GRPC.DeepService
	}
	first := u.draw(light.interval)
	u.wg.Go(func() { u.ask(ctx, t, light, first) })
	if deep.asks != "" {
		first := u.draw(min(deep.interval, deepFirst))
		u.wg.Go(func() { u.ask(ctx, t, deep, first) })
	}
}

// draw returns a random part of an interval. The caller holds mu.
func (u *Upstream) draw(interval time.Duration) time.Duration {
	return time.Duration(u.draws.next() % uint64(interval))
}

// ask makes one kind of check of one target until ctx ends. The first check comes after a random
// part of the interval, so that targets and gateways that begin together are not checked together.
func (u *Upstream) ask(ctx context.Context, t *Target, c check, first time.Duration) {
	defer crash.Guard("in a health check")
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		select {
		case u.checks <- struct{}{}:
		case <-ctx.Done():
			return
		}
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		err := u.probe(limited, t, c.asks)
		cancel()
		<-u.checks
		if ctx.Err() != nil {
			return
		}
		timer.Reset(u.checked(t, c, u.env.Now(), err))
	}
}

// checked counts a result, and returns after how long to check again. The reason for a change is
// logged and shown, so it does not name the path, which may contain a token.
func (u *Upstream) checked(t *Target, c check, now int64, err error) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.options.Active
	s, bit, kind := &t.light, stateDown, "check"
	if c.deep {
		s, bit, kind = &t.deep, stateDeepDown, "deep check"
	}
	if s.add(now, err, a.UnhealthyAfter, a.HealthyAfter) {
		if s.down {
			u.change(t, now, bit, 0, fmt.Sprintf("%s failed %d times: %v", kind, s.failures, err))
		} else {
			u.change(t, now, 0, bit, fmt.Sprintf("%s succeeded %d times", kind, s.successes))
		}
	}
	if c.deep && (s.down || s.failures > 0) {
		return min(c.interval, deepHurry*a.Interval)
	}
	return c.interval
}

// httpProbe makes one health check by HTTP. Each check uses a new connection: a kept one would only
// show that this connection works.
func (u *Upstream) httpProbe(ctx context.Context, t *Target, path string) error {
	transport := &http.Transport{
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: checkBody,
		DialContext:            dialForCheck(ctx, t.addr),
	}
	transport.Protocols = u.checkProtocols()
	scheme := "http"
	if u.options.TLS != nil {
		scheme = "https"
		transport.TLSClientConfig = u.checkTLS()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+t.addr.Authority()+path, nil)
	if err != nil {
		return errors.New("the path of the check is not valid") // err would show the path
	}
	if h := u.options.Active.Host; h != "" {
		req.Host = h
	}
	req.Header.Set("User-Agent", "plimsoll-health")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// The status decides. The body is only read so that the connection is not closed while the
	// service still writes its answer.
	_, _ = io.CopyN(io.Discard, resp.Body, checkBody)
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// dialForCheck returns a dial function whose connections are closed when the check's context ends,
// which it does with the check. net/http itself goes on to establish a connection whose request was
// given up meanwhile, and keeps an HTTP/2 one for ever, whatever DisableKeepAlives says. A service
// whose handshakes take longer than its checks would get one more connection with each check.
func dialForCheck(check context.Context, a Address) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := dialTarget(ctx, a)
		if err == nil {
			context.AfterFunc(check, func() { c.Close() })
		}
		return c, err
	}
}

// dialPause is the time between two tries to connect to a unix socket whose accept queue is full.
const dialPause = 10 * time.Millisecond

// dialTarget connects to a target. A unix socket whose accept queue is full refuses at once,
// whereas TCP waits for room. So dialTarget tries again until ctx ends, as traffic does, so that a
// burst alone does not take a target out.
func dialTarget(ctx context.Context, a Address) (net.Conn, error) {
	var d net.Dialer
	if !a.Unix() {
		return d.DialContext(ctx, "tcp", a.TCP.String())
	}
	pause := time.NewTicker(dialPause)
	defer pause.Stop()
	for {
		c, err := d.DialContext(ctx, "unix", a.Path)
		if !errors.Is(err, syscall.EAGAIN) {
			return c, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to %s: its accept queue is full: %w", a, ctx.Err())
		}
	}
}

// checkTLS returns a copy of the TLS settings that offers, by ALPN, the protocols of the traffic.
func (u *Upstream) checkTLS() *tls.Config {
	c := u.options.TLS.Clone()
	switch u.options.Protocol {
	case HTTP1:
		c.NextProtos = []string{"http/1.1"}
	case Negotiated:
		c.NextProtos = []string{"h2", "http/1.1"}
	case HTTP2:
		c.NextProtos = []string{"h2"}
	}
	return c
}

// checkProtocols returns the versions of HTTP that a check may use.
func (u *Upstream) checkProtocols() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(u.options.Protocol != HTTP2)
	p.SetHTTP2(u.options.TLS != nil && u.options.Protocol != HTTP1)
	p.SetUnencryptedHTTP2(u.options.TLS == nil && u.options.Protocol == HTTP2)
	return p
}
