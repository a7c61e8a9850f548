package http2_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"plimsoll/internal/head"
	"plimsoll/internal/http2"
)

var usualLimits = http2.Limits{Path: 8 << 10, Head: 32 << 10, Fields: 100}

// cut makes fields of lines "name: value"; the first colon may be of a pseudo-field.
func cut(lines string) (fields [][2][]byte) {
	for line := range strings.SplitSeq(lines, "|") {
		name, value, ok := strings.Cut(line[min(1, len(line)):], ": ")
		if !ok {
			name, value, _ = strings.Cut(line[min(1, len(line)):], ":")
		}
		name = line[:min(1, len(line))] + name
		fields = append(fields, [2][]byte{[]byte(name), []byte(value)})
	}
	return fields
}

type request struct {
	head.Request
	http2.RequestHead
}

func readRequest(lim *http2.Limits, fields [][2][]byte, endStream, extended bool) (r request, reason http2.Reason) {
	r.RequestHead.Reset(lim, extended)
	for _, f := range fields {
		reason = r.Field(&r.Request, f[0], f[1])
	}
	if _, end := r.End(&r.Request, endStream, nil); reason != http2.OK && end != reason {
		panic("End forgets what was wrong")
	} else {
		reason = end
	}
	return r, reason
}

// text is a request as HTTP/1.1 would have it.
func (r *request) text() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.Method, r.Target)
	if !r.Fields.Has(head.Host) {
		fmt.Fprintf(&b, "Host: %s\r\n", r.Host)
	}
	for i := range r.Fields.Len() {
		if f := r.Fields.At(i); f.ID != head.Alias {
			fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
		}
	}
	return b.String() + "\r\n"
}

const get = ":method: GET|:scheme: https|:authority: a.example|:path: /p?q"

func TestRequestHeads(t *testing.T) {
	post := strings.Replace(get, "GET", "POST", 1)
	change := func(old, changed string) string { return strings.Replace(get, old, changed, 1) }
	connect := ":method: CONNECT|:protocol: websocket|:scheme: https|:authority: a|:path: /chat"
	for _, c := range []struct {
		section, fields string
		want            http2.Reason
	}{
		{"8.2.1", get + "|X-Upper: 1", http2.BadFieldName},
		{"8.2.1", get + "|Content-length: 0", http2.BadFieldName},
		{"8.2.1", get + "|x:y: 1", http2.BadFieldName},
		{"8.2.1", get + "|: 1", http2.UnknownPseudo},
		{"8.2.1", get + "|", http2.BadFieldName},
		{"8.2.1", get + "|x y: 1", http2.BadFieldName},
		{"8.2.1", get + "|x\r\ny: 1", http2.BadFieldName},
		{"8.2.1", get + "|x\x00: 1", http2.BadFieldName},
		{"8.2.1", get + "|xé: 1", http2.BadFieldName},
		{"8.2.1", get + "|x: a\r\nb", http2.BadFieldValue},
		{"8.2.1", get + "|x: a\x00b", http2.BadFieldValue},
		{"8.2.1", get + "|x: a\x7fb", http2.BadFieldValue},
		{"8.2.1", get + "|x:  a", http2.BadFieldValue},
		{"8.2.1", get + "|x: a\t", http2.BadFieldValue},
		{"8.2.1", get + "|x: |y: a\tb é", http2.OK},
		{"8.2.2", get + "|connection: close", http2.ConnectionField},
		{"8.2.2", get + "|connection: ", http2.ConnectionField},
		{"8.2.2", get + "|proxy-connection: keep-alive", http2.ConnectionField},
		{"8.2.2", get + "|keep-alive: 5", http2.ConnectionField},
		{"8.2.2", get + "|transfer-encoding: chunked", http2.ConnectionField},
		{"8.2.2", get + "|upgrade: h2c", http2.ConnectionField},
		{"8.2.2", get + "|te: trailers, deflate", http2.ConnectionField},
		{"8.2.2", get + "|te: gzip", http2.ConnectionField},
		{"8.2.2", get + "|te: trailers|transfer_encoding: chunked", http2.OK},
		{"8.3", get + "|x: 1|:path: /", http2.LatePseudo},
		{"8.3", "x: 1|" + get, http2.LatePseudo},
		{"8.3", get + "|:path: /", http2.RepeatedPseudo},
		{"8.3", get + "|:method: GET", http2.RepeatedPseudo},
		{"8.3", get + "|:authority: a.example", http2.RepeatedPseudo},
		{"8.3", get + "|:status: 200", http2.UnknownPseudo},
		{"8.3", get + "|:foo: bar", http2.UnknownPseudo},
		{"8.3", get + "|:Path: bar", http2.UnknownPseudo},
		{"8.3.1", change("|:path: /p?q", ""), http2.MissingPseudo},
		{"8.3.1", change("|:scheme: https", ""), http2.MissingPseudo},
		{"8.3.1", change(":method: GET|", ""), http2.MissingPseudo},
		{"8.3.1", change("GET", "G T"), http2.BadMethod},
		{"8.3.1", change("GET", ""), http2.BadMethod},
		{"8.3.1", change("GET", strings.Repeat("G", 33)), http2.BadMethod},
		{"8.3.1", change("GET", "get / HTTP/1.1\r\n"), http2.BadMethod},
		{"8.3.1", change("https", "HTTP"), http2.OK},
		{"8.3.1", change("https", "ftp"), http2.BadScheme},
		{"8.3.1", change("https", "https://a/?"), http2.BadScheme},
		{"8.3.1", change("/p?q", ""), http2.BadPath},
		{"8.3.1", change("/p?q", "p"), http2.BadPath},
		{"8.3.1", change("/p?q", "http://b/"), http2.BadPath},
		{"8.3.1", change("/p?q", "/a b"), http2.BadPath},
		{"8.3.1", change("/p?q", "/a HTTP/1.1\r\nx: y"), http2.BadPath},
		{"8.3.1", change("/p?q", "/a\x00"), http2.BadPath},
		{"8.3.1", change("/p?q", "/a#b"), http2.BadPath},
		{"8.3.1", change("/p?q", "/é"), http2.BadPath},
		{"8.3.1", change("/p?q", "*"), http2.BadPath},
		{"8.3.1", strings.Replace(change("/p?q", "*"), "GET", "OPTIONS", 1), http2.OK},
		{"8.3.1", change("/p?q", "/"+strings.Repeat("a", 8<<10)), http2.PathTooLong},
		{"8.3.1", change("a.example", "u@a"), http2.BadHost},
		{"8.3.1", change("a.example", ""), http2.BadHost},
		{"8.3.1", change("a.example", "a/b"), http2.BadHost},
		{"8.3.1", change("a.example", "a\r\nx"), http2.BadHost},
		{"8.3.1", change("|:authority: a.example", ""), http2.BadHost},
		{"8.3.1", change("|:authority: a.example", "") + "|host: a", http2.OK},
		{"8.3.1", change("|:authority: a.example", "") + "|host: a|host: a", http2.BadHost},
		{"8.3.1", get + "|host: a.example|host: a.example", http2.BadHost},
		{"8.3.1", get + "|host: a.example", http2.OK},
		{"8.3.1", get + "|host: A.Example:443", http2.OK},
		{"8.3.1", get + "|host: a.example:80", http2.HostMismatch},
		{"8.3.1", get + "|host: b.example", http2.HostMismatch},
		{"8.3.1", get + "|host: u@a.example", http2.BadHost},
		{"8.1.1", post + "|content-length: 5", http2.OK},
		{"8.1.1", post + "|content-length: 5|content-length: 5", http2.BadContentLength},
		{"8.1.1", post + "|content-length: 5, 5", http2.BadContentLength},
		{"8.1.1", post + "|content-length: +5", http2.BadContentLength},
		{"8.1.1", post + "|content-length: ", http2.BadContentLength},
		{"8.5", ":method: CONNECT|:authority: a:443", http2.Connect},
		{"8.5", change("GET", "CONNECT"), http2.Connect},
		{"8.5", change("GET", "Connect"), http2.Connect},
		{"8441, 4", connect, http2.OK},
		{"8441, 4", strings.Replace(connect, "CONNECT", "connect", 1), http2.Connect},
		{"8441, 4", strings.Replace(connect, "CONNECT", "GET", 1), http2.UnknownPseudo},
		{"8441, 4", strings.Replace(connect, "|:path: /chat", "", 1), http2.MissingPseudo},
		{"8441, 4", strings.Replace(connect, "|:scheme: https", "", 1), http2.MissingPseudo},
		{"8441, 4", strings.Replace(connect, "websocket", "web socket", 1), http2.BadFieldValue},
		{"8441, 4", connect + "|content-length: 5", http2.BadContentLength},
		{"limits", get + strings.Repeat("|a: b", 96), http2.OK},
		{"limits", get + strings.Repeat("|a: b", 97), http2.TooManyFields},
		{"limits", get + "|a: " + strings.Repeat("x", 32<<10), http2.HeadTooLarge},
	} {
		if _, reason := readRequest(&usualLimits, cut(c.fields), false, true); reason != c.want {
			t.Errorf("%s: %.200q: %v, want %v", c.section, c.fields, reason, c.want)
		}
	}
	if _, reason := readRequest(&usualLimits, cut(connect), false, false); reason != http2.UnknownPseudo {
		t.Errorf("extended CONNECT that was not announced: %v", reason)
	}
}

func TestWhatARequestBecomes(t *testing.T) {
	r, reason := readRequest(&usualLimits, cut(":method: POST|:scheme: HTTPS|:path: /p?q?r|:authority: A.Example:443|"+
		"cookie: a=1|x_real_ip: 1|cookie: b=2|http2-settings: x|expect: 100-Continue|host: "+
		"a.example|cookie: c|content-length: 7|te: Trailers"), false, false)
	if reason != http2.OK {
		t.Fatal(reason)
	}
	want := "POST /p?q?r HTTP/1.1\r\ncookie: a=1; b=2; c\r\nexpect: 100-Continue\r\nhost: " +
		"a.example:443\r\ncontent-length: 7\r\nte: Trailers\r\n\r\n"
	if got := r.text(); got != want {
		t.Errorf("it is %q", got)
	}
	if string(r.Query) != "q?r" || string(r.Scheme) != "https" || string(r.Host) != "a.example:443" || r.Length != 7 || !r.Expect100 {
		t.Errorf("it is %+v", r)
	}
	if !r.Fields.Has(head.Alias) || r.Fields.Has(head.HTTP2Settings) {
		t.Error("an alias is not known as one, or the settings of an upgrade are there")
	}
}

func TestEmptyCookiesJoinWithoutWhiteSpaceAround(t *testing.T) {
	for fields, want := range map[string]string{
		"cookie: ": "", "cookie: |cookie: ": "", "cookie: a|cookie: ": "a", "cookie: |cookie: a|cookie: |cookie: b": "a; b",
	} {
		r, reason := readRequest(&usualLimits, cut(get+"|"+fields), true, false)
		if reason != http2.OK || r.Fields.Len() != 1 || string(r.Fields.Value(head.Cookie)) != want {
			t.Errorf("%q: %v, %d fields, %q", fields, reason, r.Fields.Len(), r.Fields.Value(head.Cookie))
		}
	}
}

func TestTheLengthOfARequest(t *testing.T) {
	for _, c := range []struct {
		fields    string
		endStream bool
		length    int64
		expect    bool
		reason    http2.Reason
	}{
		{get, true, 0, false, http2.OK},
		{get, false, head.Unknown, false, http2.OK},
		{get + "|content-length: 0", true, 0, false, http2.OK},
		{get + "|content-length: 0|expect: 100-continue", false, 0, false, http2.OK},
		{get + "|content-length: 9|expect: 100-continue", false, 9, true, http2.OK},
		{get + "|expect: 100-continue", false, head.Unknown, true, http2.OK},
		{get + "|expect: 100-continue", true, 0, false, http2.OK},
		{get + "|content-length: 9", true, 0, false, http2.LengthMismatch},
		{":method: CONNECT|:protocol: websocket|:scheme: http|:authority: a|:path: /", false, head.Unknown, false, http2.OK},
	} {
		r, reason := readRequest(&usualLimits, cut(c.fields), c.endStream, true)
		if reason != c.reason || reason == http2.OK && (r.Length != c.length || r.Expect100 != c.expect) {
			t.Errorf("%q, end %v: %v, length %d, expects %v", c.fields, c.endStream, reason, r.Length, r.Expect100)
		}
	}
}

func TestResponseHeads(t *testing.T) {
	for _, c := range []struct {
		fields         string
		toHEAD, ending bool
		status         int
		length         int64
		reason         http2.Reason
	}{
		{":status: 200", false, false, 200, head.Unknown, http2.OK},
		{":status: 200", false, true, 200, 0, http2.OK},
		{":status: 200|content-length: 5", false, false, 200, 5, http2.OK},
		{":status: 200|content-length: 5", false, true, 0, 0, http2.LengthMismatch},
		{":status: 200|content-length: 5", true, true, 200, 0, http2.OK},
		{":status: 304|content-length: 5", false, true, 304, 0, http2.OK},
		{":status: 204|content-length: 5", false, false, 204, 0, http2.OK},
		{":status: 103|link: x", false, false, 103, 0, http2.OK},
		{":status: 100|content-length: 5", false, false, 0, 0, http2.BadContentLength},
		{":status: 100", false, true, 0, 0, http2.EarlyEnd},
		{":status: 101", false, false, 0, 0, http2.BadStatus},
		{":status: 099", false, false, 0, 0, http2.BadStatus},
		{":status: 600", false, false, 0, 0, http2.BadStatus},
		{":status: 20", false, false, 0, 0, http2.BadStatus},
		{":status: 2000", false, false, 0, 0, http2.BadStatus},
		{":status: +20", false, false, 0, 0, http2.BadStatus},
		{"x: y", false, false, 0, 0, http2.MissingPseudo},
		{"x: y|:status: 200", false, false, 0, 0, http2.LatePseudo},
		{":status: 200|:status: 200", false, false, 0, 0, http2.RepeatedPseudo},
		{":status: 200|:path: /", false, false, 0, 0, http2.UnknownPseudo},
		{":status: 200|Server: x", false, false, 0, 0, http2.BadFieldName},
		{":status: 200|connection: close", false, false, 0, 0, http2.ConnectionField},
		{":status: 200|transfer-encoding: chunked", false, false, 0, 0, http2.ConnectionField},
		{":status: 200|content-length: 1|content-length: 1", false, false, 0, 0, http2.BadContentLength},
		{":status: 200|x: a\nb", false, false, 0, 0, http2.BadFieldValue},
	} {
		var r http2.ResponseHead
		var resp head.Response
		r.Reset(&usualLimits)
		for _, f := range cut(c.fields) {
			r.Field(&resp, f[0], f[1])
		}
		reason := r.End(&resp, c.toHEAD, c.ending)
		if reason != c.reason || reason == http2.OK && (resp.Status != c.status || resp.Length != c.length) {
			t.Errorf("%q, to HEAD %v, ending %v: %v, status %d, length %d", c.fields, c.toHEAD, c.ending, reason, resp.Status, resp.Length)
		}
	}
}

func TestTrailers(t *testing.T) {
	for _, c := range []struct {
		fields, kept string
		ending       bool
		reason       http2.Reason
	}{
		{"grpc-status: 0|x_real_ip: 1|content-length: 5|x-sum: a|x-forwarded-for: 1", "grpc-status x-sum ", true, http2.OK},
		{"grpc-status: 0", "", false, http2.UnendedMessage},
		{":status: 200", "", true, http2.LatePseudo},
		{"x: 1|:path: /", "", true, http2.LatePseudo},
		{"X: 1", "", true, http2.BadFieldName},
		{"x: 1\r", "", true, http2.BadFieldValue},
		{"connection: x", "", true, http2.ConnectionField},
		{"x: 1" + strings.Repeat("|x: 1", 100), "", true, http2.TooManyFields},
		{"x: " + strings.Repeat("x", 32<<10), "", true, http2.TrailersTooLarge},
	} {
		var h http2.TrailerHead
		var l head.List
		h.Reset(&usualLimits)
		for _, f := range cut(c.fields) {
			h.Field(&l, f[0], f[1])
		}
		reason, kept := h.End(c.ending), ""
		for i := range l.Len() {
			kept += string(l.At(i).Name) + " "
		}
		if reason != c.reason || reason == http2.OK && kept != c.kept {
			t.Errorf("%q: %v, kept %q", c.fields, reason, kept)
		}
	}
}

func TestBodiesAreAsLongAsAnnounced(t *testing.T) {
	for _, c := range []struct {
		length int64
		parts  []int
		add    http2.Reason
		end    http2.Reason
	}{
		{0, nil, http2.OK, http2.OK},
		{0, []int{0, 1}, http2.LengthMismatch, http2.OK},
		{5, []int{2, 0, 3}, http2.OK, http2.OK},
		{5, []int{2, 2}, http2.OK, http2.LengthMismatch},
		{5, []int{2, 4}, http2.LengthMismatch, http2.LengthMismatch},
		{head.Unknown, []int{2, 4}, http2.OK, http2.OK},
	} {
		b := http2.ExpectLength(c.length)
		reason := http2.OK
		for _, n := range c.parts {
			reason = max(reason, b.Add(n))
		}
		if end := b.End(); reason != c.add || end != c.end {
			t.Errorf("%d bytes announced, %v came: %v, %v", c.length, c.parts, reason, end)
		}
	}
}

func TestFieldsThatMayBeSent(t *testing.T) {
	for name, want := range map[string]bool{
		"Content-Type": true, "Content-Length": true, "Cookie": true, "X-Custom": true, "Trailer": true,
		"Connection": false, "Keep-Alive": false, "Proxy-Connection": false, "Transfer-Encoding": false, "Upgrade": false,
		"TE": false, "HTTP2-Settings": false, "Host": false, "Proxy-Authenticate": false, "Proxy-Authorization": false, "X_Real_Ip": false,
	} {
		f := head.Field{ID: head.Lookup([]byte(name))}
		if got := http2.MaySend(&f, 200); got != want {
			t.Errorf("%s may be sent: %v", name, got)
		}
		if got := http2.MaySend(&f, 407); got != (want || name == "Proxy-Authenticate") {
			t.Errorf("%s may be sent in a 407: %v", name, got)
		}
	}
}

func TestEveryReasonHasALabelAndACode(t *testing.T) {
	labels := map[string]bool{}
	for r := range http2.Reason(http2.Reasons) {
		label := r.Error()
		if label == "" || labels[label] {
			t.Errorf("the label of %d is %q, as another's", r, label)
		}
		labels[label] = true
		if (r.Code() == http2.NoError) != (r == http2.OK || r == http2.Silent) { // who went did nothing wrong
			t.Errorf("%v has code %d", r, r.Code())
		}
	}
	for r, want := range map[http2.Reason]int{http2.PathTooLong: 414, http2.HeadTooLarge: 431,
		http2.TooManyFields: 431, http2.Connect: 405, http2.BadHost: 400} {
		if got := r.Status(); got != want {
			t.Errorf("%v is answered with %d", r, got)
		}
	}
	if e := http2.BadPath.Of(7); !e.Failed() || e.Error() != "bad_path" || e.Code() != http2.ProtocolError || e.Stream != 7 {
		t.Errorf("%+v", e)
	}
}
