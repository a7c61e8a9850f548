package cors_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/cors"
)

func policy(t testing.TB, o cors.Options) *cors.Policy {
	t.Helper()
	p, err := cors.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// request has header fields given as name, value, name, value …
func request(method string, fields ...string) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{Method: []byte(method)}, Response: &head.Response{}}
	x.Begin(nil)
	for i := 0; i < len(fields); i += 2 {
		x.Request.Fields.Add([]byte(fields[i]), []byte(fields[i+1]))
	}
	return x
}

func lines(l *head.List) (out []string) {
	for i := range l.Len() {
		out = append(out, string(l.At(i).Name)+": "+string(l.At(i).Value))
	}
	return
}

// allowed asks a policy about an origin by an ordinary response, and returns
// Access-Control-Allow-Origin.
func allowed(t testing.TB, p *cors.Policy, origin string) string {
	t.Helper()
	x := request("GET", "Origin", origin)
	if v := p.OnRequest(x); v != exchange.Continue {
		t.Fatalf("verdict %d", v)
	}
	p.OnResponse(x)
	if !slices.Contains(lines(&x.Response.Fields), "Vary: Origin") {
		t.Errorf("%s: no Vary: Origin in %q", origin, lines(&x.Response.Fields))
	}
	if f := x.Response.Fields.Find([]byte("Access-Control-Allow-Origin")); f != nil {
		return string(f.Value)
	}
	return ""
}

func TestOnlyListedOriginsAreAllowed(t *testing.T) {
	listed := policy(t, cors.Options{Origins: []string{"https://A.example", "http://localhost:3000",
		"https://*.b.example", "https://*.c.example:8443", "app://x"}})
	for origin, ok := range map[string]bool{
		"https://a.example":               true,
		"http://localhost:3000":           true,
		"https://www.b.example":           true,
		"https://a-1_2.b.example":         true,
		"https://www.c.example:8443":      true,
		"app://x":                         true,
		"http://a.example":                false,
		"https://a.example:444":           false,
		"https://a.example.evil.example":  false,
		"https://evil-a.example":          false,
		"https://b.example":               false,
		"https://.b.example":              false,
		"https://a.a.b.example":           false,
		"https://evilb.example":           false,
		"https://evil.example/.b.example": false,
		"https://evil.example#.b.example": false,
		"https://x@y.b.example":           false,
		"http://www.b.example":            false,
		"https://www.c.example":           false,
		"null":                            false,
		"":                                false,
		"*":                               false,
		"https://*.b.example":             false,
	} {
		want := ""
		if ok {
			want = origin
		}
		if got := allowed(t, listed, origin); got != want {
			t.Errorf("%s: got %q, want %q", origin, got, want)
		}
	}
	anyone := policy(t, cors.Options{Origins: []string{"*"}})
	for origin, want := range map[string]string{"https://a.example": "*", "null": "", "": ""} {
		if got := allowed(t, anyone, origin); got != want {
			t.Errorf("with *, %q: got %q, want %q", origin, got, want)
		}
	}
}

func TestAPreflightIsAnsweredHere(t *testing.T) {
	p := policy(t, cors.Options{Origins: []string{"https://a.example"}, Methods: []string{"GET",
		"PUT"}, Headers: []string{"X-A", "Content-Type"},
		Expose: []string{"X-B"}, Credentials: true, MaxAge: 10 * time.Minute})
	const vary = "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
	for origin, want := range map[string][]string{
		"https://a.example": {"Access-Control-Allow-Origin: https://a.example", "Access-Control-Allow-Credentials: true",
			"Access-Control-Allow-Methods: GET, PUT", "Access-Control-Allow-Headers: X-A, " +
				"Content-Type", "Access-Control-Max-Age: 600", vary},
		"https://evil.example": {vary},
	} {
		x := request("OPTIONS", "Origin", origin, "access-control-request-method", "PUT")
		x.Response.Fields.Add([]byte("X-Old"), []byte("gone"))
		if v := p.OnRequest(x); v != exchange.Answered || x.Response.Status != 204 || x.Reason != exchange.Preflight || x.Body != nil {
			t.Fatalf("%s: verdict %d, status %d, reason %v, body %q", origin, v, x.Response.Status, x.Reason, x.Body)
		}
		p.OnResponse(x)
		if got := lines(&x.Response.Fields); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", origin, got, want)
		}
	}
}

func TestWhatIsNotAPreflightGoesOn(t *testing.T) {
	p := policy(t, cors.Options{Origins: []string{"*"}})
	for name, x := range map[string]*exchange.Exchange{
		"OPTIONS without a method": request("OPTIONS", "Origin", "https://a.example"),
		"OPTIONS without Origin":   request("OPTIONS", "Access-Control-Request-Method", "PUT"),
		"another method":           request("GET", "Origin", "https://a.example", "Access-Control-Request-Method", "PUT"),
	} {
		if v := p.OnRequest(x); v != exchange.Continue || x.Response.Status != 0 {
			t.Errorf("%s: verdict %d, status %d", name, v, x.Response.Status)
		}
	}
}

func TestWhatTheServiceSaidIsReplaced(t *testing.T) {
	p := policy(t, cors.Options{Origins: []string{"https://a.example"}, Expose: []string{"X-B", "X-C"}})
	for _, c := range []struct {
		origin []string
		want   []string
	}{
		{[]string{"Origin", "https://a.example"}, []string{"X-B: 1",
			"Access-Control-Allow-Origin: https://a.example",
			"Access-Control-Expose-Headers: X-B, X-C", "Vary: Origin"}},
		{[]string{"Origin", "https://evil.example"}, []string{"X-B: 1", "Vary: Origin"}},
		{[]string{"Origin", "https://a.example", "Origin", "https://a.example"}, []string{"X-B: 1", "Vary: Origin"}},
		{nil, []string{"X-B: 1", "Vary: Origin"}},
	} {
		x := request("GET", c.origin...)
		for _, name := range []string{"Access-Control-Allow-Origin", "access-control-allow-origin",
			"ACCESS-CONTROL-ALLOW-CREDENTIALS", "Access-Control-Expose-Headers"} {
			x.Response.Fields.Add([]byte(name), []byte("*"))
		}
		x.Response.Fields.Add([]byte("X-B"), []byte("1"))
		p.OnResponse(x)
		if got := lines(&x.Response.Fields); !slices.Equal(got, c.want) {
			t.Errorf("%q:\n got %q\nwant %q", c.origin, got, c.want)
		}
	}
}

func TestVaryIsNotSaidTwice(t *testing.T) {
	p := policy(t, cors.Options{Origins: []string{"*"}})
	for vary, want := range map[string]int{"Origin": 1, "Accept, origin": 1, "*": 1, "Accept-Encoding": 2, "X-Origin": 2, "": 2} {
		x := request("GET")
		x.Response.Fields.Add([]byte("Vary"), []byte(vary))
		p.OnResponse(x)
		if got := x.Response.Fields.Len(); got != want {
			t.Errorf("%q: %q", vary, lines(&x.Response.Fields))
		}
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	some := []string{"https://a.example"}
	for hint, o := range map[string]cors.Options{
		"allows no origin":         {},
		"list the origins":         {Origins: []string{"*"}, Credentials: true},
		"sandboxed":                {Origins: []string{"null"}},
		"is not an origin":         {Origins: []string{"a.example"}},
		"more than an origin":      {Origins: []string{"https://a.example/"}},
		"default port":             {Origins: []string{"https://a.example:443"}},
		"whole first label":        {Origins: []string{"https://w*.a.example"}},
		"xn--":                     {Origins: []string{"https://ä.example"}},
		"0s or more":               {Origins: some, MaxAge: -time.Second},
		"Allow-Methods: it is no":  {Origins: some, Methods: []string{"GET, PUT"}},
		"Allow-Headers: it is no":  {Origins: some, Headers: []string{"a\r\nb"}},
		"Expose-Headers: it is no": {Origins: some, Expose: []string{""}},
		`do not take "*"`:          {Origins: some, Headers: []string{"*"}, Credentials: true},
	} {
		if _, err := cors.New(o); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%+v: %v, want an error with %q", o, err, hint)
		}
	}
	if _, err := cors.New(cors.Options{Origins: []string{"http://*.a.example", "https://*"}}); err == nil {
		t.Error("https://* is accepted")
	}
}

func TestCORSDoesNotAllocate(t *testing.T) {
	p := policy(t, cors.Options{Origins: []string{"https://a.example", "https://*.b.example"}, Expose: []string{"X-B"}, Credentials: true})
	preflight := request("OPTIONS", "Origin", "https://www.b.example", "Access-Control-Request-Method", "PUT")
	get := request("GET", "Origin", "https://a.example")
	name, value, accept := []byte("Access-Control-Allow-Origin"), []byte("*"),
		[]byte("Accept, X-A-Field-Whose-Name-Is-Longer-Than-32-Bytes")
	varyName := []byte("Vary")
	run := func() {
		p.OnRequest(preflight)
		get.Response.Fields.Reset()
		get.Response.Fields.Add(name, value)
		get.Response.Fields.Add(varyName, accept)
		p.OnRequest(get)
		p.OnResponse(get)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCORS(b *testing.B) {
	p := policy(b, cors.Options{Origins: []string{"https://a.example"}})
	x := request("GET", "Origin", "https://a.example")
	b.ReportAllocs()
	for b.Loop() {
		x.Response.Fields.Reset()
		p.OnRequest(x)
		p.OnResponse(x)
	}
}
