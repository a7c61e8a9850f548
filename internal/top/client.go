package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/loadline"
)

const (
	// maxAnswer bounds what is read of an answer. A route with its histogram has some 2 kB.
	maxAnswer = 8 << 20
	// maxQuoted bounds what is repeated of an answer in an error.
	maxQuoted = 200
	// patience is how long an answer may take. The admin API itself lets a request wait for 5s when
	// it is crowded.
	patience = 10 * time.Second
)

// errCrowded says that too many others are at this part of the admin API.
var errCrowded = errors.New("too many others look at the gateway: try again later")

// errAbsent says that this gateway has no such path.
var errAbsent = errors.New("not found")

// Client asks an admin API.
type Client struct {
	base     *url.URL
	token    string
	patience time.Duration
	http     *http.Client
}

// NewClient makes a client of the admin API at an address, such as 127.0.0.1:9900 or
// http://10.0.0.7:9900. An empty token is none.
func NewClient(address, token string) (*Client, error) {
	full := address
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	base, err := url.Parse(full)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" ||
		strings.Trim(base.Path, "/") != "" || base.RawQuery != "" || base.User != nil {
		return nil, fmt.Errorf("%q is not the address of an admin API: "+
			"give HOST:PORT, such as 127.0.0.1:9900, or http://HOST:PORT", address)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("the token holds a space, a control character or a letter that is " +
			"not ASCII: give admin.token as it is in the gateway's configuration")
	}
	return &Client{
		base: &url.URL{Scheme: base.Scheme, Host: base.Host}, token: token, patience: patience,
		http: &http.Client{
			// Neither a proxy nor another host is to see the token.
			Transport: &http.Transport{MaxIdleConnsPerHost: 1, MaxResponseHeaderBytes: 64 << 10},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}, nil
}

// String is the address.
func (c *Client) String() string { return c.base.String() }

// Close closes the connections that wait for a request.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// get asks for JSON. Beside 200 it takes the statuses that are given.
func (c *Client) get(
	ctx context.Context, path string, patience time.Duration, into any, also ...int,
) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return c.unreached(ctx, path, patience, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return c.unreached(ctx, path, patience, err)
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("%s%s answers with more than %s, which top does not read: it is not the "+
			"admin address of a plimsoll gateway, or of one with thousands of routes, whose "+
			"/metrics say the same", c, path, format.Bytes(maxAnswer))
	}
	if res.StatusCode != http.StatusOK && !slices.Contains(also, res.StatusCode) {
		return c.refused(path, res.StatusCode, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return c.foreign(path, err.Error())
	}
	return nil
}

// foreign says that an answer is not a gateway's.
func (c *Client) foreign(path, why string) error {
	return fmt.Errorf("%s%s does not answer as a plimsoll gateway does (%s): "+
		"is it the admin address of one? Give --admin HOST:PORT", c, path, why)
}

// unreached says what to do when there is no answer.
func (c *Client) unreached(
	ctx context.Context, path string, patience time.Duration, err error,
) error {
	if parent := context.Cause(ctx); errors.Is(parent, context.Canceled) {
		return parent
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the admin API at %s does not answer within %s (GET %s): "+
			"is it the address of a plimsoll gateway? Give --admin HOST:PORT", c, patience, path)
	}
	cause := err
	if e, ok := errors.AsType[*url.Error](err); ok {
		cause = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		cause = e.Err
	}
	return fmt.Errorf("cannot reach the admin API at %s (%w): is the gateway running, and is this "+
		"its admin.address? Give --admin HOST:PORT", c, cause)
}

// refused says what an answer other than 200 means.
func (c *Client) refused(path string, status int, body []byte) error {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		said.Error = "it does not say why"
	}
	said.Error = said.Error[:min(len(said.Error), maxQuoted)]
	switch status {
	case http.StatusUnauthorized:
		if c.token == "" {
			return fmt.Errorf("the admin API at %s demands a token: give admin.token of the "+
				"gateway's configuration by --token or $PLIMSOLL_ADMIN_TOKEN", c)
		}
		return fmt.Errorf("the admin API at %s does not take this token: give admin.token of the "+
			"active configuration by --token or $PLIMSOLL_ADMIN_TOKEN", c)
	case http.StatusNotFound:
		return fmt.Errorf("%s has no %s (%w): is it the admin address of a plimsoll gateway? "+
			"Give --admin HOST:PORT", c, path, errAbsent)
	case http.StatusServiceUnavailable:
		return fmt.Errorf("GET %s%s: %w", c, path, errCrowded)
	}
	return fmt.Errorf("GET %s%s: %d: %s", c, path, status, said.Error)
}

// sample looks at everything that is known since the gateway's start.
func (c *Client) sample(ctx context.Context) (*sample, error) {
	s := new(sample)
	// While the gateway drains it says so with 503.
	err := c.get(ctx, "/readyz", c.patience, &s.ready, http.StatusServiceUnavailable)
	if err != nil {
		return nil, err
	}
	if s.ready.State == "" {
		return nil, c.foreign("/readyz", "it does not say its state")
	}
	var routes struct {
		Routes []routeSample `json:"routes"`
	}
	if err := c.get(ctx, "/api/v1/routes?histogram=1", c.patience, &routes); err != nil {
		return nil, err
	}
	s.routes, s.routesAt = routes.Routes, time.Now()
	var upstreams struct {
		Upstreams []upstreamSample `json:"upstreams"`
	}
	if err := c.get(ctx, "/api/v1/upstreams?histogram=1", c.patience, &upstreams); err != nil {
		return nil, err
	}
	s.upstreams, s.upstreamsAt = upstreams.Upstreams, time.Now()
	line := new(loadline.Status)
	err = c.get(ctx, "/api/v1/loadline", c.patience, line)
	switch {
	case err == nil:
		s.line = line
	case !errors.Is(err, errAbsent):
		return nil, err
	}
	return s, nil
}

// loops watches the loops for some time, and waits for it.
func (c *Client) loops(ctx context.Context, over time.Duration) ([]loopSample, error) {
	var said struct {
		Loops []loopSample `json:"loops"`
	}
	err := c.get(ctx, "/api/v1/loops?over="+over.String(), over+c.patience, &said)
	return said.Loops, err
}
