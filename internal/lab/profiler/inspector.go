package profiler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"
	"github.com/google/pprof/profile"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/stacks"
)

// samplingInterval is the interval, in microseconds, at which V8 samples the stack: a hundred times
// a second, as other profilers do. V8's default of 1,000 times costs ten times as much.
const samplingInterval = 10_000

// Inspector takes profiles of V8 through its inspector: of the main thread of Node and similar
// runtimes. It may be used by any goroutine, one at a time.
type Inspector struct {
	url    *url.URL
	client http.Client
	grace  time.Duration
}

// NewInspector returns an Inspector for an address as printed by node --inspect
// (ws://127.0.0.1:9229/…), or without the path, http://127.0.0.1:9229, which takes the first target
// there. Its error is for the person who wrote the address.
func NewInspector(address string) (*Inspector, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "ws" {
		return nil, errors.New("the inspector's address is a URL such as http://127.0.0.1:9229: " +
			"start with node --inspect, or turn it on with kill -USR1 PID")
	}
	i := &Inspector{url: u, grace: grace}
	// No connection may stay open: it would be counted as a connection of the target's.
	i.client.Transport = &http.Transport{DisableKeepAlives: true}
	// An inspector does not redirect, and a target's response must not make the lab ask other
	// hosts.
	i.client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	return i, nil
}

// Take takes a profile of the given length. It returns at the latest grace after that, or soon
// after ctx has ended, and leaves no connection behind. If it is interrupted, the profiler in the
// target ends with the connection.
func (i *Inspector) Take(ctx context.Context, length time.Duration) (*profile.Profile, error) {
	soon, cancel := context.WithTimeout(ctx, length+i.grace)
	defer cancel()
	address, err := i.target(soon)
	if err != nil {
		return nil, err
	}
	conn, _, err := websocket.Dial(soon, address, &websocket.DialOptions{HTTPClient: &i.client})
	if err != nil {
		return nil, fmt.Errorf("the inspector at %s cannot be reached: %s", i.url.Host,
			format.Clean(err.Error()))
	}
	defer conn.CloseNow()
	conn.SetReadLimit(stacks.Most)
	s := &session{conn: conn}
	for _, step := range []struct {
		method string
		params any
	}{
		{"Profiler.enable", nil},
		{"Profiler.setSamplingInterval", map[string]int{"interval": samplingInterval}},
		{"Profiler.start", nil},
	} {
		if _, err := s.call(soon, step.method, step.params); err != nil {
			return nil, err
		}
	}
	over := time.NewTimer(length)
	defer over.Stop()
	select {
	case <-over.C:
	case <-soon.Done():
		return nil, soon.Err()
	}
	raw, err := s.call(soon, "Profiler.stop", nil)
	if err != nil {
		return nil, err
	}
	var result struct{ Profile json.RawMessage }
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("the inspector gives no profile: %w", err)
	}
	p, _, err := stacks.Read(result.Profile, stacks.Options{})
	if err != nil {
		return nil, fmt.Errorf("the inspector's profile: %w", err)
	}
	conn.Close(websocket.StatusNormalClosure, "")
	return p, nil
}

// target returns the address of the first target's WebSocket. Its host is the one in the
// inspector's address: behind a published port an inspector knows itself by another one.
func (i *Inspector) target(ctx context.Context) (string, error) {
	to := *i.url
	to.Scheme = "ws"
	if len(i.url.Path) > 1 {
		return to.String(), nil
	}
	list := *i.url
	list.Scheme, list.Path = "http", "/json/list"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, list.String(), nil)
	if err != nil {
		return "", err
	}
	answer, err := i.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("the inspector at %s cannot be reached: is the target started with "+
			"node --inspect, or was it told with kill -USR1? %s", i.url.Host, format.Clean(err.Error()))
	}
	defer answer.Body.Close()
	var targets []struct{ WebSocketDebuggerURL string }
	body := io.LimitReader(answer.Body, 1<<20)
	if err := json.NewDecoder(body).Decode(&targets); err != nil || answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers /json/list with status %d, and not as an inspector does",
			i.url.Host, answer.StatusCode)
	}
	for _, one := range targets {
		if u, err := url.Parse(one.WebSocketDebuggerURL); err == nil && u.Path != "" {
			to.Path = u.Path
			return to.String(), nil
		}
	}
	return "", fmt.Errorf("the inspector at %s has no target that can be looked at: "+
		"is another debugger there?", i.url.Host)
}

// session is a conversation with an inspector, one call at a time.
type session struct {
	conn *websocket.Conn
	last int
}

// mostNotices is how many other messages may come before the response.
const mostNotices = 100_000

// call calls a method and returns its result. It ignores what else the inspector sends meanwhile.
func (s *session) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	s.last++
	message, err := json.Marshal(struct {
		ID     int    `json:"id"`
		Method string `json:"method"`
		Params any    `json:"params,omitempty"`
	}{s.last, method, params})
	if err == nil {
		err = s.conn.Write(ctx, websocket.MessageText, message)
	}
	for n := 0; err == nil && n < mostNotices; n++ {
		var raw []byte
		if _, raw, err = s.conn.Read(ctx); err != nil {
			break
		}
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err = json.Unmarshal(raw, &answer); err != nil || answer.ID != s.last {
			continue
		}
		if answer.Error != nil {
			return nil, fmt.Errorf("the inspector refuses %s: %.200q", method, answer.Error.Message)
		}
		return answer.Result, nil
	}
	if err == nil {
		err = errors.New("it says other things, and never answers")
	}
	return nil, fmt.Errorf("the inspector's answer to %s: %s", method, format.Clean(err.Error()))
}
