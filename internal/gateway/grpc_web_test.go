package gateway

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	interoppb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// webClient speaks gRPC-Web: in text mode or not, over HTTP/1.1 or HTTP/2.
type webClient struct {
	*http.Client
	t    *testing.T
	url  string
	text bool
}

// webAnswer is a response of gRPC-Web.
type webAnswer struct {
	status   int
	head     http.Header
	messages []string
	trailers http.Header // of the last frame; nil where there is none
	rest     string      // what is not a frame
}

// eachWeb runs a test with every kind of client of gRPC-Web on a configuration's gateway, whose
// listener it completes.
func eachWeb(t *testing.T, yaml string, run func(t *testing.T, g *instance, c *webClient)) {
	ca := newAuthority(t)
	p := ca.issue(t, "a")
	secure := fmt.Sprintf(`"127.0.0.1:0", tls: {certificates: [{cert: %s, key: %s}]}`, p.cert, p.key)
	g := serve(t, strings.Replace(yaml, `"127.0.0.1:0"`, secure, 1))
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, text := range []bool{false, true} {
			name := version + " binary"
			if text {
				name = version + " text"
			}
			t.Run(name, func(t *testing.T) {
				transport := &http.Transport{
					TLSClientConfig: &tls.Config{RootCAs: ca.pool}, Protocols: new(http.Protocols),
					DisableCompression: true,
				}
				transport.Protocols.SetHTTP1(version == "HTTP/1.1")
				transport.Protocols.SetHTTP2(version == "HTTP/2.0")
				defer transport.CloseIdleConnections()
				run(t, g, &webClient{&http.Client{Transport: transport, Timeout: patience}, t, "https://" + g.address(0), text})
			})
		}
	}
}

// kind is the media type of the client's messages.
func (c *webClient) kind() string {
	if c.text {
		return "application/grpc-web-text"
	}
	return "application/grpc-web"
}

// begin sends a request and returns the response when its head is there. In text mode the body is
// encoded in padded parts of odd lengths.
func (c *webClient) begin(method, body string, fields ...string) *http.Response {
	c.t.Helper()
	if c.text {
		var parts strings.Builder
		for n := 1; len(body) > 0; n = n*3 + 1 {
			n = min(n, len(body))
			parts.WriteString(base64.StdEncoding.EncodeToString([]byte(body[:n])))
			body = body[n:]
		}
		body = parts.String()
	}
	return c.sendRaw(method, body, fields...)
}

// sendRaw is begin with a body that is sent as it is.
func (c *webClient) sendRaw(method, body string, fields ...string) *http.Response {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), "POST", c.url+method, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", c.kind()+"+proto")
	r.Header.Set("X-Grpc-Web", "1")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// finish reads the rest of a response.
func (c *webClient) finish(resp *http.Response) *webAnswer {
	c.t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("read the body: %v", err)
	}
	return c.decode(resp, body)
}

// decode takes a body apart, which is whole.
func (c *webClient) decode(resp *http.Response, body []byte) *webAnswer {
	c.t.Helper()
	a := &webAnswer{status: resp.StatusCode, head: resp.Header}
	if len(resp.Trailer) > 0 {
		c.t.Errorf("there are trailers of HTTP: %v", resp.Trailer)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), c.kind()) {
		a.rest = string(body)
		return a
	}
	if c.text {
		body = c.plain(body)
	}
	for len(body) >= 5 && a.trailers == nil {
		n := int(binary.BigEndian.Uint32(body[1:]))
		if len(body) < 5+n {
			break
		}
		content := string(body[5 : 5+n])
		if body[0] == 0x80 {
			a.trailers = http.Header{}
			for line := range strings.SplitSeq(strings.TrimSuffix(content, "\r\n"), "\r\n") {
				name, value, _ := strings.Cut(line, ": ")
				if strings.ToLower(name) != name {
					c.t.Errorf("the trailer %s is not in lower case", name)
				}
				a.trailers.Add(name, value)
			}
		} else {
			a.messages = append(a.messages, content)
		}
		body = body[5+n:]
	}
	a.rest = string(body)
	return a
}

// plain decodes padded parts.
func (c *webClient) plain(body []byte) (out []byte) {
	c.t.Helper()
	for len(body) > 0 {
		end := len(body)
		if pad := bytes.IndexByte(body, '='); pad >= 0 {
			end = min(end, pad/4*4+4)
		}
		part, err := base64.StdEncoding.Strict().DecodeString(string(body[:end]))
		if err != nil {
			c.t.Fatalf("%q is not base64: %v", body[:end], err)
		}
		out, body = append(out, part...), body[end:]
	}
	return out
}

// expectWeb fails the test unless a response is whole and ends with a status.
func (c *webClient) expectWeb(a *webAnswer, code codes.Code, messages ...string) {
	c.t.Helper()
	if a.status != 200 || a.head.Get("Content-Type") != c.kind()+"+proto" && a.head.Get("Content-Type") != c.kind() {
		c.t.Errorf("status %d, content type %q", a.status, a.head.Get("Content-Type"))
	}
	if a.trailers.Get("grpc-status") != fmt.Sprint(int(code)) || a.rest != "" {
		c.t.Errorf("trailers %q, and %.100q behind the frames; want grpc-status %d", a.trailers, a.rest, code)
	}
	if len(a.messages) != len(messages) {
		c.t.Fatalf("%d messages, want %d", len(a.messages), len(messages))
	}
	for i, m := range messages {
		if a.messages[i] != m {
			c.t.Errorf("message %d is %d bytes %.100q, want %d bytes %.100q", i, len(a.messages[i]), a.messages[i], len(m), m)
		}
	}
}

// marshal is a message of protobuf.
func marshal(t *testing.T, m proto.Message) string {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const webRoute = "{match: /, upstream: s, grpc_web: true}"

func TestWebCalls(t *testing.T) {
	s := newGRPC(t, nil)
	payload := func(n int) *interoppb.Payload {
		return &interoppb.Payload{Body: bytes.Repeat([]byte{0}, n)}
	}
	eachWeb(t, grpcUpstream("", webRoute, s.address), func(t *testing.T, g *instance, c *webClient) {
		empty := c.finish(c.begin(emptyCall, message("")))
		c.expectWeb(empty, codes.OK, "")

		unary := c.finish(c.begin("/grpc.testing.TestService/UnaryCall",
			message(marshal(t, &interoppb.SimpleRequest{ResponseSize: 314159, Payload: payload(271828)})),
			"x-grpc-test-echo-initial", "a", "x-grpc-test-echo-trailing-bin", "q6ur"))
		c.expectWeb(unary, codes.OK, marshal(t, &interoppb.SimpleResponse{Payload: payload(314159)}))
		if unary.head.Get("x-grpc-test-echo-initial") != "a" || unary.trailers.Get("x-grpc-test-echo-trailing-bin") != "q6ur" {
			t.Errorf("metadata: %v and %v", unary.head, unary.trailers)
		}

		const text = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
		const value = "%09%0Atest with whitespace%0D%0Aand Unicode BMP %E2%98%BA and non-BMP %F0%9F%98%88%09%0A"
		failed := c.finish(c.begin("/grpc.testing.TestService/UnaryCall", message(marshal(t,
			&interoppb.SimpleRequest{ResponseStatus: &interoppb.EchoStatus{Code: 2, Message: text}}))))
		c.expectWeb(failed, codes.Unknown)
		if got := failed.trailers.Get("grpc-message"); got != value {
			t.Errorf("grpc-message is %q", got)
		}

		c.expectWeb(c.finish(c.begin("/grpc.testing.TestService/Nothing", message(""))), codes.Unimplemented)

		sizes := []int32{31415, 9, 2653, 58979}
		request, want := &interoppb.StreamingOutputCallRequest{}, []string(nil)
		for _, size := range sizes {
			request.ResponseParameters = append(request.ResponseParameters, &interoppb.ResponseParameters{Size: size})
			want = append(want, marshal(t, &interoppb.StreamingOutputCallResponse{Payload: payload(int(size))}))
		}
		stream := c.finish(c.begin("/grpc.testing.TestService/StreamingOutputCall", message(marshal(t, request))))
		c.expectWeb(stream, codes.OK, want...)
	})
}

// Each message is with the client before the next is made: nothing waits for a whole group of
// base64, or for the end.
func TestAWebStreamArrivesMessageByMessage(t *testing.T) {
	next := make(chan struct{})
	s := answeringCalls(t, func(s grpc.ServerStream) error {
		for size := range 5 {
			m := &interoppb.Payload{Body: make([]byte, size)}
			if err := s.SendMsg(m); err != nil {
				return err
			}
			<-next
		}
		return nil
	})
	eachWeb(t, grpcUpstream("", webRoute, s.address), func(t *testing.T, g *instance, c *webClient) {
		resp := c.begin("/any.Service/Method", message(""))
		defer resp.Body.Close()
		var body []byte
		for size := range 5 {
			want := message(marshal(t, &interoppb.Payload{Body: make([]byte, size)}))
			length := len(want)
			if c.text {
				length = (length + 2) / 3 * 4
			}
			part := make([]byte, length)
			if _, err := io.ReadFull(resp.Body, part); err != nil {
				t.Fatal(err)
			}
			body = append(body, part...)
			next <- struct{}{}
		}
		rest, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if a := c.decode(resp, append(body, rest...)); len(a.messages) != 5 || a.trailers.Get("grpc-status") != "0" {
			t.Errorf("%d messages, trailers %v", len(a.messages), a.trailers)
		}
	})
}

// The request's body in text mode, cut anywhere, comes as what it stands for.
func TestAWebRequestIsDecodedWhereverItIsCut(t *testing.T) {
	got := make(chan []byte, 1)
	address := plainH2C(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if kind := r.Header.Get("Content-Type"); kind != "application/grpc+proto" || r.Header.Get("Te") != "trailers" {
			t.Errorf("the upstream got %v", r.Header)
		}
		got <- body
		w.Header().Set("Content-Type", "application/grpc+proto")
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	g := serve(t, grpcUpstream(noPassive, webRoute, address))
	draws := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		content := make([]byte, draws.IntN(40))
		for i := range content {
			content[i] = byte(draws.Uint32())
		}
		want := message(string(content))
		text := base64.StdEncoding.EncodeToString([]byte(want))
		p := g.dial()
		p.send("POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web-text+proto\r\n" +
			fmt.Sprintf("Content-Length: %d\r\n\r\n", len(text)))
		for len(text) > 0 {
			n := 1 + draws.IntN(len(text))
			p.send(text[:n])
			text = text[n:]
		}
		if r, body := p.response("POST"); r.StatusCode != 200 || body != base64.StdEncoding.EncodeToString([]byte("\x80\x00\x00\x00\x10grpc-status: 0\r\n")) {
			t.Errorf("got %d %q", r.StatusCode, body)
		}
		if body := <-got; string(body) != want {
			t.Errorf("the upstream got %q, want %q", body, want)
		}
		p.Close()
	}
}

func TestAWebRequestThatIsNotBase64IsRefused(t *testing.T) {
	var calls bytes.Buffer
	s := answeringCalls(t, func(s grpc.ServerStream) error { return s.RecvMsg(&interoppb.Empty{}) })
	eachWeb(t, grpcUpstream(noPassive, webRoute, s.address), func(t *testing.T, g *instance, c *webClient) {
		if !c.text {
			return
		}
		for _, body := range []string{"AAAAAAA", "AAAA!AAA", "====", "AAAAAB==", "AAAA AAAA"} {
			a := c.finish(c.sendRaw("/any.Service/Method", body))
			c.expectWeb(a, codes.Internal)
			if got := a.trailers.Get("grpc-message"); !strings.Contains(got, "bad_request") {
				t.Errorf("%q: %q", body, got)
			}
		}
	})
	if calls.Len() > 0 {
		t.Error(calls.String())
	}
}

func TestAWebClientIsAnsweredInItsOwnTerms(t *testing.T) {
	const routes = `{match: /, upstream: s, grpc_web: true}, {match: /plain/, upstream: s}, {match: /denied, respond: {status: 403}}`
	yaml := grpcUpstream(noPassive+", retry: {attempts: 0}", routes, refusing(t))
	eachWeb(t, yaml, func(t *testing.T, g *instance, c *webClient) {
		c.expectWeb(c.finish(c.begin("/a.B/C", message(""))), codes.Unavailable)
		c.expectWeb(c.finish(c.begin("/plain/C", message(""))), codes.Unavailable)
		a := c.finish(c.begin("/denied", message("")))
		c.expectWeb(a, codes.PermissionDenied)
		if got := a.trailers.Get("grpc-message"); !strings.HasPrefix(got, "403 Forbidden") || a.head.Get("Grpc-Status") != "" {
			t.Errorf("grpc-message %q, head %v", got, a.head)
		}
	})
}

// What is not gRPC is passed on as it came, and so is everything on a route that does not
// translate.
func TestWhatAWebRouteDoesNotTranslate(t *testing.T) {
	address := plainH2C(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		if r.URL.Path == "/broken" {
			w.WriteHeader(503)
		}
		fmt.Fprintf(w, "%s %q", r.Header.Get("Content-Type"), body)
	})
	g := serve(t, grpcUpstream(noPassive, webRoute+", {match: /as-it-is, upstream: s}", address))
	for _, c := range []struct {
		path, kind, body string
		status           int
		want             string
	}{
		{"/broken", "application/grpc-web-text", "aGk=", 503, `application/grpc "hi"`},
		{"/broken", "application/grpc-web+proto", "hi", 503, `application/grpc+proto "hi"`},
		{"/x", "application/json", "aGk=", 200, `application/json "aGk="`},
		{"/x", "application/grpc-web-textual", "aGk=", 200, `application/grpc-web-textual "aGk="`},
		{"/as-it-is", "application/grpc-web-text", "aGk=", 200, `application/grpc-web-text "aGk="`},
	} {
		p := g.dial()
		p.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nContent-Length: "+
			"%d\r\n\r\n%s", c.path, c.kind, len(c.body), c.body))
		if r, body := p.response("POST"); r.StatusCode != c.status || body != c.want {
			t.Errorf("%s as %s: got %d %q, want %d %q", c.path, c.kind, r.StatusCode, body, c.status, c.want)
		}
		p.Close()
	}
}

// A call that breaks off between two messages ends with a frame that says so; within a message only
// a reset can.
func TestAWebCallThatBreaksOff(t *testing.T) {
	whole := message("hello!") + message("") // 16 bytes: 24 characters
	body := func(path string) string {
		if path == "/within" {
			return whole + whole[:7]
		}
		return whole
	}
	cut := make(chan struct{})
	address := plainH2C(t, breakingOff(body, cut))
	eachWeb(t, grpcUpstream(noPassive, webRoute, address), func(t *testing.T, g *instance, c *webClient) {
		for _, path := range []string{"/between", "/within"} {
			resp := c.begin(path, message(""))
			first := make([]byte, 16)
			if c.text {
				first = make([]byte, 24)
			}
			if _, err := io.ReadFull(resp.Body, first); err != nil {
				t.Fatal(err)
			}
			cut <- struct{}{}
			rest, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if path == "/within" {
				if err == nil {
					t.Errorf("a cut message passes for whole: %q", rest)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			c.expectWeb(c.decode(resp, append(first, rest...)), codes.Unavailable, "hello!", "")
		}
	})
}

// Trailers that come with the head belong into the frame too, and other fields of such a head do
// not.
func TestAWebResponseWithoutMessages(t *testing.T) {
	s := answeringCalls(t, func(s grpc.ServerStream) error {
		s.SetTrailer(metadata.Pairs("x-note", "n"))
		return status.Error(codes.NotFound, "no such thing")
	})
	eachWeb(t, grpcUpstream("", webRoute, s.address), func(t *testing.T, g *instance, c *webClient) {
		a := c.finish(c.begin("/any.Service/Method", message("")))
		c.expectWeb(a, codes.NotFound)
		if a.head.Get("X-Note") != "n" || a.head.Get("Grpc-Status") != "" || a.trailers.Get("grpc-message") != "no such thing" {
			t.Errorf("head %v, trailers %v", a.head, a.trailers)
		}
	})
}

func TestAWebCallIsTriedAgain(t *testing.T) {
	for _, body := range []string{"AAAAAAA=", "AAAAAAU=aGVsbG8="} { // both are whole messages
		tries := 0
		address := plainH2C(t, func(w http.ResponseWriter, r *http.Request) {
			content, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/grpc")
			if tries++; tries == 1 {
				w.Header().Set("Grpc-Status", "14")
				return
			}
			w.Write(content)
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		})
		g := serve(t, grpcUpstream(noPassive+", retry: {budget: 100%, on: [grpc-unavailable]}", webRoute, address))
		p := g.dial()
		p.send(fmt.Sprintf("POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: "+
			"application/grpc-web-text\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		c := &webClient{t: t, text: true}
		r, text := p.response("POST")
		a := c.decode(r, []byte(text))
		sent := c.plain([]byte(body))
		if tries != 2 {
			t.Errorf("%d tries", tries)
		}
		c.expectWeb(a, codes.OK, string(sent[5:]))
	}
}
