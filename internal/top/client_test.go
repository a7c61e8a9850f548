package top

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answers is an admin API that answers as a map says, by path; what is not in it gets 404.
func answers(t *testing.T, by map[string]string) *httptest.Server {
	t.Helper()
	usual := map[string]string{
		"/readyz":           `{"state": "serving"}`,
		"/api/v1/routes":    `{"routes": []}`,
		"/api/v1/upstreams": `{"upstreams": []}`,
		"/api/v1/loops":     `{"loops": []}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := by[r.URL.Path]
		if !ok {
			body, ok = usual[r.URL.Path]
		}
		status := http.StatusOK
		if !ok {
			status = http.StatusNotFound
		}
		if code, rest, found := strings.Cut(body, "!"); found {
			fmt.Sscan(code, &status)
			body = rest
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s
}

func client(t *testing.T, address, token string) *Client {
	t.Helper()
	c, err := NewClient(address, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// next is the first look at an address; the loops of these APIs do not wait.
func next(t *testing.T, address string) (*Figures, error) {
	t.Helper()
	return NewWatcher(client(t, address, ""), ShortestInterval).Next(t.Context())
}

func TestErrorsSayWhatToDo(t *testing.T) {
	long := `{"routes": [` + strings.Repeat(`{"name": "a"},`, 10<<20/14) + `{}]}`
	for name, c := range map[string]struct {
		by   map[string]string
		says []string
	}{
		"a token is demanded": {map[string]string{"/readyz": `401!{"error": "this address requires"}`},
			[]string{"demands a token", "--token", "PLIMSOLL_ADMIN_TOKEN"}},
		"another service": {map[string]string{"/readyz": `{"status": "ok"}`},
			[]string{"/readyz does not answer as a plimsoll gateway", "--admin"}},
		"garbage": {map[string]string{"/readyz": "\x1b[2J<html>"},
			[]string{"/readyz does not answer as a plimsoll gateway", "--admin"}},
		"JSON of something else": {map[string]string{"/api/v1/routes": `{"routes": 7}`},
			[]string{"/api/v1/routes", "does not answer as a plimsoll gateway"}},
		"no such path": {map[string]string{"/api/v1/routes": "404!nothing"},
			[]string{"has no /api/v1/routes", "is it the admin address of a plimsoll gateway?"}},
		"10 MB": {map[string]string{"/api/v1/routes": long},
			[]string{"/api/v1/routes", "more than 8.39 MB", "is not the admin address", "/metrics"}},
		"forbidden": {map[string]string{"/readyz": `403!{"error": "the Host is not this address's own"}`},
			[]string{"403", "the Host is not this address's own"}},
		"another place":   {map[string]string{"/readyz": `302!`}, []string{"302", "it does not say why"}},
		"a crowd":         {map[string]string{"/api/v1/upstreams": `503!{"error": "x"}`}, []string{"too many others", "try again"}},
		"a failing line":  {map[string]string{"/api/v1/loadline": `500!{"error": "broken"}`}, []string{"loadline", "500", "broken"}},
		"a garbled line":  {map[string]string{"/api/v1/loadline": `[]`}, []string{"loadline", "does not answer as"}},
		"negative counts": {map[string]string{"/api/v1/routes": `{"routes": [{"requests": -1}]}`}, []string{"does not answer as"}},
	} {
		_, err := next(t, answers(t, c.by).URL)
		if err == nil {
			t.Errorf("%s is not an error", name)
			continue
		}
		for _, words := range c.says {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %q does not say %q", name, err, words)
			}
		}
		if len(err.Error()) > 500 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

func TestAnAddressThatNothingListensOnIsAnErrorWithAdvice(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, err = next(t, address)
	if err == nil || !strings.Contains(err.Error(), "cannot reach the admin API at http://"+address) ||
		!strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "give --admin") &&
		!strings.Contains(err.Error(), "Give --admin") {
		t.Errorf("got %v", err)
	}
}

// hanging is an API that never answers: it says that a request has come, and waits for its end.
func hanging(t *testing.T, partly bool) (address string, came chan struct{}) {
	t.Helper()
	came = make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if partly {
			w.Write([]byte(`{"state": "serv`))
			w.(http.Flusher).Flush()
		}
		came <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	return s.URL, came
}

func TestAnAPIThatHangsIsGivenUp(t *testing.T) {
	for _, partly := range []bool{false, true} {
		address, _ := hanging(t, partly)
		c := client(t, address, "")
		c.patience = 50 * time.Millisecond
		_, err := NewWatcher(c, ShortestInterval).Next(t.Context())
		if err == nil || !strings.Contains(err.Error(), "does not answer within 50ms (GET /readyz)") {
			t.Errorf("got %v", err)
		}
	}
}

func TestALookEndsWithItsContext(t *testing.T) {
	address, came := hanging(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-came
		cancel()
	}()
	_, err := NewWatcher(client(t, address, ""), ShortestInterval).Next(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTheTokenGoesToTheGatewayAndNowhereElse(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("top followed a redirection")
	}))
	defer elsewhere.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer s3cret" {
			t.Errorf("Authorization: %q", got)
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	}))
	defer s.Close()
	c := client(t, s.URL, "s3cret")
	if _, err := c.sample(t.Context()); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
	refused := answers(t, map[string]string{"/readyz": "401!{}"})
	c = client(t, refused.URL, "s3cret")
	if _, err := c.sample(t.Context()); err == nil || !strings.Contains(err.Error(), "does not take this token") ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

func TestAddressesAndTokensAreChecked(t *testing.T) {
	for _, address := range []string{"", "http://", "ftp://a:1", "http://a:1/api", "a:1?x=1", "u:p@a:1", "a b", "http://[::1"} {
		if c, err := NewClient(address, ""); err == nil {
			t.Errorf("%q is taken for %s", address, c)
		} else if !strings.Contains(err.Error(), "HOST:PORT") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for address, want := range map[string]string{"127.0.0.1:9900": "http://127.0.0.1:9900",
		"localhost": "http://localhost", "https://gw.example:1/": "https://gw.example:1", "[::1]:9900": "http://[::1]:9900"} {
		if c, err := NewClient(address, ""); err != nil || c.String() != want {
			t.Errorf("%q: %v, %v; want %s", address, c, err, want)
		}
	}
	for _, token := range []string{"a b", "a\r\nX: y", "ä"} {
		if _, err := NewClient("127.0.0.1:1", token); err == nil {
			t.Errorf("the token %q is taken", token)
		}
	}
}

func TestWhereTheLoopsAreCrowdedTheRestIsShown(t *testing.T) {
	s := answers(t, map[string]string{"/api/v1/loops": `503!{"error": "too many"}`,
		"/readyz": `503!{"state": "draining", "error": "the gateway is draining"}`})
	f, err := next(t, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if f.Gateway.State != "draining" || f.Gateway.Rate != nil || len(f.Notes) != 1 {
		t.Errorf("got %+v, %q", f.Gateway, f.Notes)
	}
}

// An interval that follows an error begins again, and one that follows another begins where it ended.
func TestIntervalsFollowEachOther(t *testing.T) {
	by := map[string]string{}
	looks := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/routes":
			looks++
			fmt.Fprintf(w, `{"routes": [{"name": "a", "requests": %d}]}`, looks)
		case "/api/v1/loops":
			if by["loops"] != "" {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			w.Write([]byte(`{"loops": []}`))
		case "/api/v1/loadline":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Write([]byte(`{"state": "serving"}`))
		}
	}))
	defer s.Close()
	w := NewWatcher(client(t, s.URL, ""), ShortestInterval)
	for i, step := range []struct {
		fails string
		looks int
	}{{"", 2}, {"", 3}, {"x", 3}, {"", 5}} {
		by["loops"] = step.fails
		_, err := w.Next(t.Context())
		if (err != nil) != (step.fails != "") || looks != step.looks {
			t.Errorf("step %d: %v after %d looks, want %d", i, err, looks, step.looks)
		}
	}
}
