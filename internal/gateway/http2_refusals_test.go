package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	codec "plimsoll/internal/http2"
)

// What a request of HTTP/2 says must mean the same in HTTP/1.1. One that could be read in two ways
// there, or holds what belongs to one connection, is refused: its stream alone ends, and the
// upstream sees no byte of it.

// h2refusal is a request that must be refused.
type h2refusal struct {
	name    string
	fields  []string // the whole field block
	body    string   // "" where the request ends with its head
	trailer []string
	code    http2.ErrCode
	why     codec.Reason
	status  int // of an answer that comes in place of a reset
}

// evil is a request's fields, with more behind them.
func evil(more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":authority", "a", ":path", "/evil"},
		more...)
}

// instead is evil with another value of one pseudo-field.
func instead(name, value string) []string {
	fields := evil()
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == name {
			fields[i+1] = value
		}
	}
	return fields
}

// without is evil without one pseudo-field.
func without(name string) (fields []string) {
	for i, all := 0, evil(); i < len(all); i += 2 {
		if all[i] != name {
			fields = append(fields, all[i], all[i+1])
		}
	}
	return fields
}

const protocolError = http2.ErrCodeProtocol

// expectH2Refusals sends all of them on one connection, on which other streams go on unharmed.
func expectH2Refusals(t *testing.T, all []h2refusal) {
	t.Helper()
	s := newService(t, replying(func(r *http.Request, body string) string {
		return echo(r,
			r.RequestURI+" "+body)
	}))
	g := serveClean(t, h2Upstream(s.address(), ""))
	c := g.h2()
	slow := c.open("PUT", "/slow")
	slow.data("first,", false)
	for i, bad := range all {
		before := g.refusedH2(bad.why)
		st := c.stream(0)
		c.together(func() { // or a request may be sent on before what is wrong with it comes
			st.headers(c.encode(bad.fields...), bad.body == "" && bad.trailer == nil)
			if bad.body != "" {
				st.data(bad.body, bad.trailer == nil)
			}
			if bad.trailer != nil {
				st.headers(c.encode(bad.trailer...), bad.why != codec.UnendedMessage)
			}
		})
		sibling := c.ask("GET", fmt.Sprint("/good", i))
		t.Run(bad.name, func(t *testing.T) {
			c.wait("an end", func() bool { return st.reset || st.ended })
			switch {
			case bad.status != 0 && (!st.ended || st.status != bad.status):
				t.Errorf("it got %d, reset %v (%v), want %d", st.status, st.reset, st.code, bad.status)
			case bad.status == 0 && (!st.reset || st.code != bad.code):
				t.Errorf("it got %d, reset %v with %v, want %v", st.status, st.reset, st.code, bad.code)
			}
			sibling.expect(200, fmt.Sprintf("GET /good%d ", i))
			if n := g.refusedH2(bad.why) - before; n != 1 {
				t.Errorf("%d refusals are counted for %v, want 1", n, bad.why)
			}
		})
	}
	slow.data("last", true)
	slow.expect(200, "PUT /slow first,last")
	if strings.Contains(s.saw(), "evil") || strings.Count(s.saw(), " HTTP/1.1\r\n") != len(all)+1 {
		t.Errorf("the upstream saw\n%s", s.saw())
	}
	c.leave()
}

func TestHazardFieldsThatMeanSomethingElseInHTTP1(t *testing.T) {
	name := func(n string) h2refusal {
		return h2refusal{name: fmt.Sprintf("the name %q", n), fields: evil(n, "evil"),
			code: protocolError, why: codec.BadFieldName}
	}
	value := func(v string) h2refusal {
		return h2refusal{name: fmt.Sprintf("the value %q", v), fields: evil("x", v), code: protocolError,
			why: codec.BadFieldValue}
	}
	connection := func(n, v string) h2refusal {
		return h2refusal{name: n + ": " + v, fields: evil(n, v), code: protocolError,
			why: codec.ConnectionField}
	}
	expectH2Refusals(t, []h2refusal{
		name("X-Upper"), name("x y"), name("x:y"), name("x\r\nevil"), name("x\ny"), name("x\ry"), name("x\x00y"), name("x\x7f"),
		name("x\x80"), name("x\t"), name(" x"), name("x "), name(""), name("transfer-encoding "), name("(x)"), name("host\x0b"),
		value("a\r\nevil: b"), value("a\nevil"), value("a\revil"), value("a\x00b"), value(" a"), value("a "), value("\ta"), value("a\t"),
		value("a\x01b"), value("a\x7fb"), value(" "),
		connection("connection", "close"), connection("connection", "x"), connection("connection", ""),
		connection("keep-alive", "timeout=5"), connection("proxy-connection", "keep-alive"),
		connection("transfer-encoding", "chunked"), connection("transfer-encoding",
			"identity"), connection("transfer-encoding", ""),
		connection("upgrade", "h2c"), connection("upgrade", "websocket"), connection("te",
			"gzip"), connection("te", "trailers, gzip"),
	})
}

func TestHazardPseudoFields(t *testing.T) {
	r := func(name string, why codec.Reason, fields []string) h2refusal {
		return h2refusal{name: name, fields: fields, code: protocolError, why: why}
	}
	all := []h2refusal{
		r("no :method", codec.MissingPseudo, without(":method")),
		r("no :scheme", codec.MissingPseudo, without(":scheme")),
		r("no :path", codec.MissingPseudo, without(":path")),
		r("nothing at all", codec.MissingPseudo, nil),
		r("a :status", codec.UnknownPseudo, evil(":status", "200")),
		r("an unknown one", codec.UnknownPseudo, append([]string{":evil", "x"}, evil()...)),
		r("only a colon", codec.UnknownPseudo, append([]string{":", "x"}, evil()...)),
		r(":protocol", codec.UnknownPseudo, append([]string{":protocol", "websocket"}, evil()...)),
		r("one in upper case", codec.UnknownPseudo, append([]string{":METHOD", "GET"},
			without(":method")...)),
		r("one behind a field", codec.LatePseudo, append(append([]string{":method", "GET", "x", "y"},
			without(":method")...), "z", "evil")),
		r("a second :path behind a field", codec.LatePseudo, evil("x", "y", ":path", "/evil")),
		r("an empty :path", codec.BadPath, instead(":path", "")),
		r("an absolute :path", codec.BadPath, instead(":path", "http://b/evil")),
		r("a :path without a slash", codec.BadPath, instead(":path", "evil")),
		r("a :path of *", codec.BadPath, instead(":path", "*")),
		r("a :path with a space", codec.BadPath, instead(":path", "/evil HTTP/1.1")),
		r("a :path with CR LF", codec.BadPath, instead(":path", "/evil HTTP/1.1\r\nx: y")),
		r("a :path with NUL", codec.BadPath, instead(":path", "/evil\x00")),
		r("a :path with a fragment", codec.BadPath, instead(":path", "/evil#x")),
		r("a :path over 0x7f", codec.BadPath, instead(":path", "/evil\xff")),
		r("another scheme", codec.BadScheme, instead(":scheme", "ftp")),
		r("a scheme with CR LF", codec.BadScheme, instead(":scheme", "http\r\nevil: x")),
		r("an empty scheme", codec.BadScheme, instead(":scheme", "")),
		r("a method with spaces", codec.BadMethod, instead(":method",
			"GET /evil HTTP/1.1\r\nX: y\r\n\r\nGET")),
		r("an empty method", codec.BadMethod, instead(":method", "")),
		r("a method that is too long", codec.BadMethod, instead(":method", strings.Repeat("A", 33))),
		r("no authority", codec.BadHost, without(":authority")),
		r("an empty authority", codec.BadHost, instead(":authority", "")),
		r("an authority with userinfo", codec.BadHost, instead(":authority", "u@a")),
		r("an authority with a path", codec.BadHost, instead(":authority", "a/evil")),
		r("an authority with CR LF", codec.BadHost, instead(":authority", "a\r\nevil: x")),
		r("two authorities", codec.RepeatedPseudo, append([]string{":authority", "a"}, evil()...)),
		r("two Hosts", codec.BadHost, evil("host", "a", "host", "a")),
		r("an empty Host", codec.BadHost, evil("host", "")),
		r("a Host against the authority", codec.HostMismatch, evil("host", "b")),
		r("a Host with another port", codec.HostMismatch, evil("host", "a:81")),
		{name: "CONNECT", fields: []string{":method", "CONNECT", ":authority", "evil:443"},
			why: codec.Connect, status: 405},
		{name: "CONNECT with a path", fields: instead(":method", "CONNECT"), why: codec.Connect,
			status: 405},
		{name: "connect", fields: instead(":method", "connect"), why: codec.Connect, status: 405},
	}
	for _, twice := range []string{":method", ":scheme", ":path"} {
		for i, pair := 0, evil(); i < len(pair); i += 2 {
			if pair[i] == twice {
				all = append(all, r(twice+" twice", codec.RepeatedPseudo,
					append([]string{twice, pair[i+1]}, pair...)))
			}
		}
	}
	expectH2Refusals(t, all)
}

func TestHazardLengthsThatDisagree(t *testing.T) {
	r := func(name string, why codec.Reason, body string, more ...string) h2refusal {
		return h2refusal{name: name, fields: evil(more...), body: body, code: protocolError, why: why}
	}
	trailers := func(name string, why codec.Reason, more ...string) h2refusal {
		return h2refusal{name: name, fields: evil(), body: "x", trailer: more, code: protocolError,
			why: why}
	}
	expectH2Refusals(t, []h2refusal{
		r("less data", codec.LengthMismatch, "abc", "content-length", "4"),
		r("more data", codec.LengthMismatch, "abc", "content-length", "2"),
		r("data and a length of 0", codec.LengthMismatch, "abc", "content-length", "0"),
		r("no data", codec.LengthMismatch, "", "content-length", "4"),
		r("two lengths", codec.BadContentLength, "abc", "content-length", "3", "content-length", "4"),
		r("the same length twice", codec.BadContentLength, "abc", "content-length", "3", "content-length",
			"3"),
		r("a list of lengths", codec.BadContentLength, "abc", "content-length", "3, 3"),
		r("a length with a sign", codec.BadContentLength, "abc", "content-length", "+3"),
		r("a negative length", codec.BadContentLength, "abc", "content-length", "-3"),
		r("a length in hexadecimal", codec.BadContentLength, "abc", "content-length", "0x3"),
		r("a length that overflows", codec.BadContentLength, "abc", "content-length",
			"18446744073709551619"),
		r("an empty length", codec.BadContentLength, "abc", "content-length", ""),
		r("a length and a coding", codec.ConnectionField, "abc", "content-length", "3",
			"transfer-encoding", "chunked"),
		{name: "less data, and trailers", fields: evil("content-length", "4"), body: "abc",
			trailer: []string{"x", "y"},
			code:    protocolError, why: codec.LengthMismatch},
		trailers("a pseudo-field in trailers", codec.LatePseudo, ":path", "/evil"),
		trailers("an upper-case name in trailers", codec.BadFieldName, "X", "evil"),
		trailers("CR LF in a trailer", codec.BadFieldValue, "x", "a\r\nevil: b"),
		trailers("a field of the connection in trailers", codec.ConnectionField, "transfer-encoding",
			"chunked"),
		trailers("trailers that do not end the stream", codec.UnendedMessage, "x", "y"),
	})
}

func TestUnambiguousFieldsAreTranslated(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serveClean(t, h2Upstream(s.address(), ""))
	c := g.h2()
	for _, want := range []struct{ what, saw string }{
		{"several cookies", "cookie: a=b; c=d; e\r\n"}, {"a Host that says the same", "host: a\r\n"},
		{"settings for an upgrade", ""},
	} {
		before := len(s.saw())
		var more []string
		switch want.what {
		case "several cookies":
			more = []string{"cookie", "a=b", "cookie", "c=d", "x", "y", "cookie", "e", "cookie", ""}
		case "a Host that says the same":
			more = []string{"host", "A:80"}
		default:
			more = []string{"http2-settings", "AAMAAABkAAQAAP__"}
		}
		c.ask("GET", "/", more...).expect(200, "ok")
		saw := strings.ToLower(s.saw()[before:])
		if !strings.Contains(saw, want.saw) || strings.Count(saw, "cookie") > 1 ||
			strings.Count(saw, "\r\nhost:") != 1 ||
			strings.Contains(saw, "http2-settings") {
			t.Errorf("%s: the upstream saw\n%s", want.what, saw)
		}
	}
	// Without an authority, Host counts.
	st := c.stream(0)
	st.headers(c.encode(":method", "GET", ":scheme", "http", ":path", "/host", "host", "b"), true)
	st.expect(200, "ok")
	if !strings.Contains(strings.ToLower(s.saw()), "get /host http/1.1\r\nhost: b\r\n") {
		t.Errorf("the upstream saw\n%s", s.saw())
	}
}

// The crumbs of a cookie are put together for the upstream, which takes their room a second time.
func TestHazardCookieCrumbs(t *testing.T) {
	s := newService(t, replying(echo))
	g := serveClean(t, h2Upstream(s.address(), ""))
	c := g.h2()
	for _, crumb := range []int{15_900, 16_500, 17_800} {
		st := c.ask("GET", "/", "cookie", strings.Repeat("0", crumb), "cookie",
			strings.Repeat("1", crumb))
		if status, body := st.answer(); status != 200 && status != 431 || status == 431 &&
			crumb < 16_000 {
			t.Errorf("two crumbs of %d bytes got %d %q", crumb, status, body)
		}
		c.ask("GET", "/").expect(200, "GET ")
	}
	if !strings.Contains(s.saw(), strings.Repeat("0", 15_900)+"; "+strings.Repeat("1",
		15_900)+"\r\n") {
		t.Error("the upstream did not see the cookie that fits")
	}
}

// A field block of a stream that is refused is decoded all the same, in as many frames as it comes.
func TestARefusedStreamsFieldsStillCountForTheNext(t *testing.T) {
	s := newService(t, replying(echo))
	g := serveClean(t, h2Upstream(s.address(), ""))
	c := g.h2()
	for _, frames := range []int{1, 2, 3} {
		st := c.stream(0)
		block := c.encode(evil("x-new", "evil"+fmt.Sprint(frames))...)
		c.send(func(f *http2.Framer) {
			f.WriteHeaders(http2.HeadersFrameParam{
				StreamID: st.id, EndStream: true, EndHeaders: frames == 1, BlockFragment: block[:len(block)/frames],
				Priority: http2.PriorityParam{StreamDep: st.id, Weight: 1}, // a stream that depends on itself
			})
			rest := block[len(block)/frames:]
			for n := frames - 1; n > 0; n-- {
				f.WriteContinuation(st.id, n == 1, rest[:len(rest)/n])
				rest = rest[len(rest)/n:]
			}
		})
		st.expectReset(protocolError)
		c.ask("GET", "/", "x-new", "evil"+fmt.Sprint(frames)).expect(200, "GET ")
	}
	g.expectRefusedH2(codec.SelfDependency, 3)
}
