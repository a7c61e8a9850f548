package compress_test

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/compress"
)

func TestTheClientsWeightsChooseAndTheServersOrderBreaksTies(t *testing.T) {
	p, e := policy(t, compress.Options{}), &engine{}
	for accept, want := range map[string]string{
		"gzip":                          "gzip",
		"GZIP":                          "gzip",
		"x-gzip":                        "gzip",
		"gzip, deflate, br, zstd":       "zstd",
		"gzip, br":                      "br",
		"br;q=0.5, gzip":                "gzip",
		"br;q=0.999, gzip;q=0.998":      "br",
		"br ; q=0.2 , gzip;Q=0.3":       "gzip",
		"zstd;q=0, *":                   "br",
		"*":                             "zstd",
		"*;q=0.1":                       "zstd",
		"*;q=0":                         "",
		"gzip, *;q=0":                   "gzip",
		"identity;q=0":                  "",
		"identity;q=0, gzip;q=0.1":      "gzip",
		"identity, gzip;q=0.5":          "",
		"identity;q=0.5, gzip;q=0.5":    "gzip",
		"gzip;q=0":                      "",
		"gzip;q=0.000":                  "",
		"gzip;q=1.000":                  "gzip",
		"gzip;q=1.001, br;q=0.1":        "br",
		"gzip;q=2":                      "",
		"gzip;q=0.1234":                 "",
		"gzip;q=abc":                    "",
		"gzip;q=":                       "",
		"gzip;level=9":                  "",
		"gzip;q=.5":                     "",
		"gzip;q=1, gzip;q=0":            "",
		"deflate, compress":             "",
		"gzipped, brotli":               "",
		"":                              "",
		",,,gzip,,":                     "gzip",
		"identity;q=0.2, *;q=0.1, br;q": "",
	} {
		x := ask(e, accept)
		p.OnResponse(x)
		if got := encoding(x); got != want {
			t.Errorf("Accept-Encoding: %q got %q, want %q", accept, got, want)
		}
		x.CloseEncoder()
	}
	x := begin(e, "GET", nil, 200, []string{"Content-Type: text/html"})
	if p.OnResponse(x); encoding(x) != "" {
		t.Error("a client that does not say what it takes got an encoding")
	}
	x = begin(e, "GET", []string{"Accept-Encoding: gzip;q=0.1", "Accept-Encoding: br"}, 200,
		[]string{"Content-Type: text/html"})
	if p.OnResponse(x); encoding(x) != "br" {
		t.Errorf("two fields got %q", encoding(x))
	}
	x = ask(e, "zstd, br, gzip")
	if policy(t, compress.Options{Encodings: []string{"gzip", "br"}}).OnResponse(x); encoding(x) != "gzip" {
		t.Errorf("another order got %q", encoding(x))
	}
}

func TestTheHeadIsThatOfTheEncodedContent(t *testing.T) {
	p, e := policy(t, compress.Options{}), &engine{}
	x := begin(e, "GET", []string{"Accept-Encoding: gzip"}, 200, []string{
		"Content-Type: application/json", "Content-Length: 5000", `ETag: "a"`, "Accept-Ranges: bytes",
		"Content-MD5: x", "Digest: x",
		"Content-Digest: x", "Repr-Digest: x", "Vary: Origin", "Set-Cookie: a", "Last-Modified: x",
		"Cache-Control: max-age=5"})
	x.Response.Length = 5000
	p.OnResponse(x)
	const want = "Content-Type: application/json\nETag: W/\"a\"\nVary: Origin\nSet-Cookie: " +
		"a\nLast-Modified: x\n" +
		"Cache-Control: max-age=5\nVary: Accept-Encoding\nContent-Encoding: gzip\n"
	if got := lines(x); got != want || x.Encoder == nil || x.Response.Length != head.Unknown {
		t.Errorf("got, with a length of %d,\n%s\nwant\n%s", x.Response.Length, got, want)
	}
}

func TestTags(t *testing.T) {
	p, e := policy(t, compress.Options{}), &engine{}
	for tag, want := range map[string]string{
		`"a"`: `W/"a"`, `W/"a"`: `W/"a"`, `""`: `W/""`, "a": "", `w/"a"`: "", `"`: "", "W/a": "",
	} {
		x := begin(e, "GET", []string{"Accept-Encoding: gzip"}, 200,
			[]string{"Content-Type: text/css", "ETag: " + tag})
		p.OnResponse(x)
		got := ""
		if f := x.Response.Fields.Find([]byte("etag")); f != nil {
			got = string(f.Value)
		}
		if got != want {
			t.Errorf("ETag %s became %s, want %s", tag, got, want)
		}
	}
}

func TestA304SpeaksOfWhatTheClientHas(t *testing.T) {
	p, e := policy(t, compress.Options{}), &engine{}
	for asked, want := range map[string]string{
		`W/"a"`: "ETag: W/\"a\"\nVary: Accept-Encoding\n", `"a"`: "ETag: \"a\"\nVary: Accept-Encoding\n",
	} {
		x := begin(e, "GET", []string{"Accept-Encoding: gzip", "If-None-Match: " + asked}, 304,
			[]string{`ETag: "a"`})
		p.OnResponse(x)
		if got := lines(x); got != want || x.Encoder != nil {
			t.Errorf("asked with %s:\n%swant\n%s", asked, got, want)
		}
	}
}

// passed is a response that is passed on as it is, and whether it depends on Accept-Encoding.
type passed struct {
	name     string
	method   string // "" for GET
	request  []string
	status   int // 0 for 200
	response []string
	length   int64
	vary     bool
}

func TestWhatDoesNotGainIsPassedOnUntouched(t *testing.T) {
	const json = "Content-Type: application/json"
	gzip := []string{"Accept-Encoding: gzip"}
	for _, c := range []passed{
		{name: "encoded", response: []string{json, "Content-Encoding: br", `ETag: "a"`}},
		{name: "encoded as identity", response: []string{json, "content-encoding: identity"}},
		{name: "no type", response: []string{`ETag: "a"`}},
		{name: "an image", response: []string{"Content-Type: image/png"}},
		{name: "a part of several", response: []string{"Content-Type: multipart/byteranges; boundary=x"}},
		{name: "gRPC", response: []string{"Content-Type: application/grpc+json"}},
		{name: "gRPC-Web", response: []string{"Content-Type: application/grpc-web+json"}},
		{name: "an answer to a call", request: []string{"Accept-Encoding: gzip",
			"Content-Type: application/grpc"}, response: []string{"Content-Type: text/plain"}},
		{name: "a long type", response: []string{"Content-Type: text/" + strings.Repeat("x", 200)}},
		{name: "half a type", response: []string{"Content-Type: text"}},
		{name: "206", status: 206, response: []string{json, "Content-Range: bytes 0-1/5"}},
		{name: "200 with a part", response: []string{json, "Content-Range: bytes 0-1/5"}},
		{name: "204", status: 204, response: []string{json}},
		{name: "205", status: 205, response: []string{json}},
		{name: "101", status: 101, response: []string{json}},
		{name: "CONNECT", method: "CONNECT", response: []string{json}},
		{name: "short", response: []string{json, "Content-Length: 1023"}, length: 1023},
		{name: "nothing", response: []string{json, "Content-Length: 0"}},
		{name: "no-transform", response: []string{json, "Cache-Control: max-age=5",
			"Cache-Control: public, No-Transform"}},
		{name: "a client's no-transform", request: []string{"Accept-Encoding: gzip",
			"Cache-Control: no-transform"}, response: []string{json}},
		{name: "HEAD of something short", method: "HEAD", response: []string{json, "Content-Length: 1023"}},
		{name: "a client that takes nothing", request: []string{"Accept: */*"},
			response: []string{json, `ETag: "a"`, "Accept-Ranges: bytes"}, vary: true},
		{name: "a client that refuses", request: []string{"Accept-Encoding: identity"},
			response: []string{json, "Repr-Digest: x"}, vary: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.request == nil {
				c.request = gzip
			}
			if c.method == "" {
				c.method = "GET"
			}
			if c.status == 0 {
				c.status = 200
			}
			x := begin(&engine{}, c.method, c.request, c.status, c.response)
			if c.length > 0 || c.name == "nothing" || c.method == "HEAD" {
				x.Response.Length = c.length
			}
			want := lines(x)
			if c.vary {
				want += "Vary: Accept-Encoding\n"
			}
			before := x.Response.Length
			p := policy(t, compress.Options{MinSize: 1024})
			if v := p.OnResponse(x); v != exchange.Continue || lines(x) != want || x.Encoder != nil ||
				x.Response.Length != before {
				t.Errorf("%v, an encoder: %v, fields\n%swant\n%s", v, x.Encoder != nil, lines(x), want)
			}
			if s := p.Status().(compress.Status); len(s.Passed) != 1 || s.Responses["gzip"] != 0 {
				t.Errorf("counted %+v", s)
			}
		})
	}
}

func TestVaryIsSaidOnce(t *testing.T) {
	p := policy(t, compress.Options{})
	for given, more := range map[string]bool{
		"accept-encoding": false, "Origin, Accept-Encoding": false, "*": false, "Origin": true,
		"X-Accept-Encoding": true, "": true,
	} {
		x := begin(&engine{}, "GET", nil, 200, []string{"Content-Type: text/html", "Vary: " + given})
		before := x.Response.Fields.Len()
		p.OnResponse(x)
		if got := x.Response.Fields.Len() > before; got != more {
			t.Errorf("Vary: %q got another field: %v, want %v", given, got, more)
		}
	}
}

func TestHeadGetsTheHeadOfGet(t *testing.T) {
	encoders := compress.NewEncoders(1)
	p := policy(t, compress.Options{Encoders: encoders, MinSize: 1024})
	x := begin(&engine{}, "HEAD", []string{"Accept-Encoding: br"}, 200,
		[]string{"Content-Type: text/html", "Content-Length: 5000", `ETag: "a"`})
	x.Response.Length = 0
	p.OnResponse(x)
	const want = "Content-Type: text/html\nETag: W/\"a\"\nVary: Accept-Encoding\nContent-Encoding: br\n"
	if used, _ := encoders.Memory(); lines(x) != want || x.Encoder != nil || used != 0 {
		t.Errorf("an encoder of %d bytes: %v; fields\n%swant\n%s", used, x.Encoder != nil, lines(x), want)
	}
}

func TestTypesThatGain(t *testing.T) {
	byDefault := policy(t, compress.Options{})
	chosen := policy(t, compress.Options{Types: []string{"Application/X-Own", "model/*", "+cbor"}})
	for text, gains := range map[string][2]bool{
		"text/html; charset=utf-8": {true, false}, "TEXT/HTML": {true, false},
		"text/event-stream":        {true, false},
		"application/problem+json": {true, false}, "image/svg+xml": {true, false},
		"application/wasm":     {true, false},
		"application/json;x=y": {true, false}, "application/x-own": {false, true},
		"model/gltf":             {false, true},
		"application/senml+cbor": {false, true}, "application/octet-stream": {}, "image/jpeg": {},
		"application/zip": {},
		"font/woff2":      {}, "application/pdf": {}, "video/mp4": {}, "application+json": {}, "": {},
	} {
		for i, p := range []*compress.Policy{byDefault, chosen} {
			x := begin(&engine{}, "GET", []string{"Accept-Encoding: gzip"}, 200,
				[]string{"Content-Type: " + text})
			if p.OnResponse(x); (encoding(x) != "") != gains[i] {
				t.Errorf("policy %d encodes %q: %v, want %v", i, text, encoding(x) != "", gains[i])
			}
			x.CloseEncoder()
		}
	}
}

func TestOptionsThatMeanNothingAreRefused(t *testing.T) {
	for _, o := range []compress.Options{
		{Encodings: []string{"deflate"}}, {Encodings: []string{"gzip", "gzip"}},
		{Types: []string{"json"}}, {Types: []string{"*/*"}},
		{Types: []string{"text/"}}, {Types: []string{"+"}}, {Types: []string{"a b/c"}}, {MinSize: -1},
		{Level: 9},
	} {
		o.Encoders = compress.NewEncoders(1)
		if _, err := compress.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestAReloadGoesOnCounting(t *testing.T) {
	encoders := compress.NewEncoders(1)
	old, fresh := policy(t, compress.Options{Encoders: encoders}),
		policy(t, compress.Options{Encoders: encoders})
	x := ask(&engine{}, "gzip")
	old.OnResponse(x)
	fresh.Inherit(old)
	if _, err := x.Encoder.Encode(nil, []byte("abc"), exchange.Last); err != nil {
		t.Fatal(err)
	}
	x.CloseEncoder()
	if s := fresh.Status().(compress.Status); s.Responses["gzip"] != 1 || s.BytesIn != 3 || s.BytesOut == 0 {
		t.Errorf("%+v", s)
	}
	var said []string
	fresh.Metrics(func(series int, value float64, labels ...string) {
		if value > 0 {
			said = append(said, fmt.Sprint(compress.Series[series].Name, labels))
		}
	})
	if got := strings.Join(said, " "); got != "compress_responses_total[gzip] "+
		"compress_bytes_in_total[] compress_bytes_out_total[]" {
		t.Error(got)
	}
}
