package gateway

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	codec3 "plimsoll/internal/http3"
)

// A single exchange, done over each protocol and put into words that do not depend on it.

// likeCase is one exchange.
type likeCase struct {
	name    string
	method  string // GET where it is empty
	path    string // "/" where it is empty
	fields  string // lines
	body    string
	streams bool   // the body's length is not announced
	trailer string // one line; the length is not announced then

	limits   string // of the listener
	upstream string // further keys
	dead     bool   // of the service's two targets nobody listens at one
	routes   string // in place of one that goes to service s
	response string // of the service; "" for one that nobody listens for

	saw  string // the service must have seen this, among others; "" where nothing may reach it
	want string // the client must get this, among others
}

// run does the exchange over a protocol, and says what the service saw and what the client got, in
// words that do not depend on the protocol.
func (c *likeCase) run(t *testing.T, p spoken, ca *authority, cert pair) (saw, got string) {
	t.Helper()
	var seen []string
	s := newService(t, func(sc *serviceConn, _ int) {
		for {
			r, body, ok := sc.request()
			if !ok {
				return
			}
			sc.s.mu.Lock()
			seen = append(seen, sawWords(r, body))
			sc.s.mu.Unlock()
			if !sc.write(c.response) || strings.Contains(c.response, "HTTP/1.0") ||
				strings.Contains(c.response, "close") {
				return
			}
		}
	})
	got = c.ask(t, p, s.address(), "", ca, cert)
	s.mu.Lock()
	defer s.mu.Unlock()
	return alike(strings.Join(seen, ""), s.address()), got
}

// ask does the exchange with a service at an address, whose upstream has further keys.
func (c *likeCase) ask(t *testing.T, p spoken, address, keys string, ca *authority, cert pair) (got string) {
	t.Helper()
	if c.response == "" {
		address = refusing(t)
	}
	yaml := c.config(p, address, keys, cert)
	if c.dead {
		yaml = strings.Replace(yaml, address, refusing(t)+`", "`+address, 1)
	}
	g := serveClean(t, yaml)
	switch {
	case p.http3:
		return c.overHTTP3(t, &bed{g, ca})
	case p.http2:
		return c.overHTTP2(t, g, p, ca)
	}
	return c.overHTTP1(t, g, p, ca)
}

// alike takes out of what a service saw how its client spoke and where the service is.
func alike(saw, address string) string {
	return strings.NewReplacer(address, "ADDRESS", "Via: 2 ", "Via: 1.1 ", "Via: 3 ", "Via: 1.1 ",
		"X-Forwarded-Proto: https", "X-Forwarded-Proto: http").Replace(saw)
}

func (c *likeCase) config(p spoken, address, keys string, cert pair) string {
	listener := "address: \"127.0.0.1:0\", http2: true, limits: {" + c.limits + "}"
	if p.http3 {
		listener += ", http3: true"
	}
	if p.tls {
		listener += fmt.Sprintf(", tls: {certificates: [{cert: %q, key: %q}]}", cert.cert, cert.key)
	}
	routes := c.routes
	if routes == "" {
		routes = "[{match: /, upstream: s}]"
	}
	return "loops: 1\nlisteners: [{" + listener + "}]\nupstreams: {s: {targets: [\"" + address +
		"\"]" + keys + c.upstream +
		"}}\nroutes: " + routes + "\n"
}

// pairsOf are the names and values of the case's fields.
func (c *likeCase) pairsOf(lower bool) (pairs []string) {
	for line := range strings.Lines(c.fields) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if lower {
			name = strings.ToLower(name)
		}
		pairs = append(pairs, name, value)
	}
	if c.body != "" && !c.streams && c.trailer == "" {
		pairs = append(pairs, "content-length", fmt.Sprint(len(c.body)))
	}
	return pairs
}

func (c *likeCase) line() (method, path string) {
	method, path = c.method, c.path
	if method == "" {
		method = "GET"
	}
	if path == "" {
		path = "/"
	}
	return method, path
}

func (c *likeCase) overHTTP1(t *testing.T, g *instance, p spoken, ca *authority) string {
	peer := g.dial()
	if p.tls {
		peer = g.mustDialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a",
			NextProtos: []string{"http/1.1"}})
	}
	method, path := c.line()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: a\r\n", method, path)
	pairs := c.pairsOf(false)
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", pairs[i], pairs[i+1])
	}
	if strings.Contains(c.fields, "TE: ") {
		b.WriteString("Connection: TE\r\n")
	}
	switch {
	case c.streams || c.trailer != "":
		fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n", len(c.body), c.body)
		if c.trailer != "" {
			b.WriteString(c.trailer + "\r\n")
		}
		b.WriteString("\r\n")
	default:
		b.WriteString("\r\n" + c.body)
	}
	peer.send(b.String())
	defer peer.Close()
	return gotWords(t, peer.r, method)
}

func (c *likeCase) overHTTP2(t *testing.T, g *instance, p spoken, ca *authority) string {
	var client *h2
	if p.tls {
		client = g.h2TLS(ca)
	} else {
		client = g.h2()
	}
	defer client.leave()
	method, path := c.line()
	st := client.stream(0)
	st.headers(client.encode(client.request(method, path, c.pairsOf(true)...)...), c.body == "")
	if c.body != "" && st.upload([]byte(c.body), 10_000, c.trailer == "") && c.trailer != "" {
		name, value, _ := strings.Cut(c.trailer, ": ")
		st.headers(client.encode(strings.ToLower(name), value), true)
	}
	st.answer()
	return streamWords(st.interims, st.hints, st.status, st.fields, st.body, st.trailers)
}

func (c *likeCase) overHTTP3(t *testing.T, b *bed) string {
	client := b.h3()
	method, path := c.line()
	st := client.stream()
	st.say(c.body == "", frame(codec3.Headers, section(client.request(method, path, c.pairsOf(true)...)...)))
	if c.body != "" {
		var frames []string
		for body := c.body; body != ""; body = body[min(len(body), 10_000):] {
			frames = append(frames, frame(codec3.Data, body[:min(len(body), 10_000)]))
		}
		if c.trailer != "" {
			name, value, _ := strings.Cut(c.trailer, ": ")
			frames = append(frames, frame(codec3.Headers, section(strings.ToLower(name), value)))
		}
		st.say(true, frames...)
	}
	st.answer()
	return streamWords(st.interims, st.hints, st.status, st.fields, st.body, st.trailers)
}

// gotWords reads a response of HTTP/1.1, with what comes before it, and puts it into words.
func gotWords(t *testing.T, from *bufio.Reader, method string) string {
	var b strings.Builder
	for {
		r, err := http.ReadResponse(from, &http.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d\n%s", r.StatusCode, fieldLines(r.Header))
		if r.StatusCode >= 200 {
			fmt.Fprintf(&b, "\n%s\n%s", body, fieldLines(r.Trailer))
			return b.String()
		}
	}
}

// sawWords puts a request into words.
func sawWords(r *http.Request, body string) string {
	fields := r.Header.Clone()
	fields["Host"] = []string{r.Host}
	framing := strings.Join(r.TransferEncoding, ",")
	return fmt.Sprintf("%s %s %s\n%s%s\n\n%s\n%s", r.Method, r.RequestURI, r.Proto, fieldLines(fields),
		framing, body, fieldLines(r.Trailer))
}

// streamWords is what a stream of HTTP/2 or HTTP/3 was answered; hints are the fields of interims.
func streamWords(
	interims []int, hints []http.Header, status int, fields http.Header, body []byte, trailers http.Header,
) string {
	var words strings.Builder
	for i, interim := range interims {
		fmt.Fprintf(&words, "%d\n%s", interim, fieldLines(hints[i]))
	}
	fmt.Fprintf(&words, "%d\n%s\n%s\n%s", status, fieldLines(fields), body, fieldLines(trailers))
	return words.String()
}

// fieldLines are fields in the order of their names. A Date that the gateway made is left out, and
// so are what only HTTP/1.1 says and what net/http takes for itself.
func fieldLines(fields http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == "Connection" || name == "Trailer" {
			continue
		}
		for _, value := range fields[name] {
			if _, err := http.ParseTime(value); err != nil {
				fmt.Fprintf(&b, "%s: %s\n", name, value)
			}
		}
	}
	return b.String()
}
