package scenario_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/internal/head"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/lab/scenario"
)

var target = load.Target{URL: "http://shop.example", Authority: "shop.example", Path: "/"}

// write makes a scenario of the text, with other files beside it by name, and returns its path.
func write(t testing.TB, text string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{"scenario.yaml": text}
	maps.Copy(all, files)
	for name, content := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "scenario.yaml")
}

func read(t testing.TB, text string, files map[string]string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(write(t, text, files), target)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answer is what a generator would show a session of a response.
func answer(status int, body string, fields ...string) *load.Answer {
	a := &load.Answer{Status: status, Fields: new(head.List), Body: []byte(body)}
	for i := 0; i < len(fields); i += 2 {
		a.Fields.Add([]byte(fields[i]), []byte(fields[i+1]))
	}
	return a
}

// parsed reads a request as net/http does, and fails when anything is left over.
func parsed(t testing.TB, raw []byte) (*http.Request, string) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(raw))
	req, err := http.ReadRequest(r)
	if err != nil {
		t.Fatalf("%v in\n%q", err, raw)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatalf("%v in\n%q", err, raw)
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		t.Fatalf("%q follows the request\n%q", rest, raw)
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return req, string(body)
}

// visit plays one session against a handler and returns its requests' names, its last verdict and
// its think times.
func visit(
	t testing.TB, s load.Script, p load.Player, h http.HandlerFunc,
) (names []string, last load.AnswerVerdict, thought []time.Duration) {
	t.Helper()
	session := p.Begin()
	defer session.End()
	for {
		raw, about := session.Request(nil)
		names = append(names, s.Names()[about.Name])
		req, _ := parsed(t, raw)
		if about.Head != (req.Method == "HEAD") {
			t.Fatalf("Head is %v of\n%s", about.Head, raw)
		}
		w := httptest.NewRecorder()
		h(w, req)
		a := answer(w.Code, "")
		if about.Body {
			a.Body = w.Body.Bytes()
		}
		for name, values := range w.Header() {
			for _, v := range values {
				a.Fields.Add([]byte(name), []byte(v))
			}
		}
		last = session.Answer(a)
		if !last.More {
			return names, last, thought
		}
		thought = append(thought, last.Think)
	}
}

func TestARequestWithoutValuesIsSentAsItIsWritten(t *testing.T) {
	s, err := scenario.Load(write(t, `
headers: {Accept: text/html, X-Trace: "1"}
mix:
  - name: order
    request:
      method: POST
      path: /orders?fast=1
      headers: {x-trace: "2", Content-Type: text/plain}
      body: "two $${coats}"
`, nil), load.Target{Authority: "shop.example:81", Path: "/base/?q=1"})
	if err != nil {
		t.Fatal(err)
	}
	raw, about := s.Script().Player(0, 1, 1).Begin().Request([]byte("before "))
	want := "before POST /base/orders?fast=1 HTTP/1.1\r\nHost: shop.example:81\r\n" +
		"Accept: text/html\r\nx-trace: 2\r\n" +
		"Content-Type: text/plain\r\nContent-Length: 12\r\n\r\ntwo ${coats}"
	if string(raw) != want || about != (load.Request{}) {
		t.Errorf("%q %+v, want\n%q", raw, about, want)
	}
}

const login = `
data:
  users: {csv: users.csv}
  item: {random: {from: 1, to: 8}}
mix:
  - name: list
    weight: 80
    request: {method: GET, path: /api/v1/items}
    check: {status: 200, body_contains: '"items"'}
  - name: buy
    weight: 20
    steps:
      - name: login
        request:
          method: POST
          path: /login
          headers: {Content-Type: application/json}
          body: '{"user":"${users.name}","secret":"${users.secret}"}'
        check: {status: 200}
        take: {token: {json: data.token}}
        think: 500ms
      - name: buy
        request:
          method: POST
          path: "/api/v1/items/${item}/buy"
          headers: {Authorization: "Bearer ${token}"}
          body_file: order.json
        check: {status: [200, 409], json: {ok: true}}
`

var loginFiles = map[string]string{
	"users.csv":  "name,secret\nann,a1\n\"bob \"\"the\"\" hat\",\"b\\2\"\n",
	"order.json": `{"by": "${users.name}", "item": ${item}}`,
}

func TestAValueOfAnAnswerIsCarriedIntoTheNextRequest(t *testing.T) {
	s := read(t, login, loginFiles).Script()
	p := s.Player(0, 1, 3)
	users := map[string]string{}
	served := map[string]int{}
	h := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/login":
			name := jsonField(t, body, "user")
			users["t\"-"+name] = name
			fmt.Fprintf(w, `{"data": {"token": "t\"-%s"}}`, strings.ReplaceAll(name, `"`, `\u0022`))
		case strings.HasSuffix(r.URL.Path, "/buy"):
			name := users[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
			item := jsonField(t, body, "item")
			if name == "" || jsonField(t, body, "by") != name ||
				r.URL.Path != "/api/v1/items/"+item+"/buy" || item < "1" || item > "8" {
				t.Errorf("%s %v %s", r.URL, r.Header, body)
			}
			served[name]++
			w.WriteHeader(409)
			fmt.Fprint(w, `{"ok": true}`)
		default:
			fmt.Fprint(w, `{"items": []}`)
		}
	}
	for range 400 {
		names, last, thought := visit(t, s, p, h)
		if last.Kind != measure.OK || last.Why != "" {
			t.Fatalf("%v ended as %+v", names, last)
		}
		if names[0] == "buy/login" &&
			(!slices.Equal(names, []string{"buy/login", "buy/buy"}) ||
				!slices.Equal(thought, []time.Duration{500 * time.Millisecond})) {
			t.Fatalf("%v with pauses %v", names, thought)
		}
	}
	if n := served["ann"] - served[`bob "the" hat`]; len(served) != 2 || n < 0 || n > 1 {
		t.Errorf("the rows were not taken in turn: %v", served)
	}
}

func TestTheMixIsAsItWasWeighted(t *testing.T) {
	s := read(t, login, loginFiles)
	if got := s.Mix(); got != "80 % list, 20 % buy (login, then buy)" {
		t.Errorf("the mix is called %q", got)
	}
	script := s.Script()
	if got := script.Names(); !slices.Equal(got, []string{"list", "buy/login", "buy/buy"}) {
		t.Errorf("the requests are called %q", got)
	}
	if got := script.Requests(); got < 1.2-1e-12 || got > 1.2+1e-12 {
		t.Errorf("an arrival leads to %v requests", got)
	}
	p := script.Player(0, 1, 1)
	lists := 0
	for range 10000 {
		session := p.Begin()
		if _, about := session.Request(nil); about.Name == 0 {
			lists++
		}
		session.End()
	}
	// Five standard deviations of 40.
	if lists < 7800 || lists > 8200 {
		t.Errorf("%d of 10000 arrivals were lists, want about 8000", lists)
	}
}

func TestTheSameSeedGivesTheSameRequestsAndAnotherLoopOthers(t *testing.T) {
	s := read(t, login, loginFiles).Script()
	sent := func(loop int, seed uint64) (all string) {
		p := s.Player(loop, 2, seed)
		for range 50 {
			session := p.Begin()
			raw, _ := session.Request(nil)
			session.End()
			all += string(raw)
		}
		return all
	}
	if first, again := sent(0, 1), sent(0, 1); first != again {
		t.Error("the same seed gave other requests")
	}
	if sent(0, 1) == sent(1, 1) || sent(0, 1) == sent(0, 2) {
		t.Error("another loop or seed gave the same requests")
	}
}

func TestLoopsShareSequencesAndRows(t *testing.T) {
	s := read(t, `
data:
  order: {sequence: {from: 10, step: 5}}
  turn: {sequence: {from: 1, to: 3}}
  rows: {jsonl: rows.jsonl}
  lot: {jsonl: rows.jsonl, order: random}
mix: [{name: a, request: {path: "/${order}/${turn}/${rows.n}/${rows.name}/${lot.n}"}}]
`, map[string]string{"rows.jsonl": "{\"name\": \"a\\u00e9\", \"n\": 1}\n\n{\"n\": 2, \"name\": \"b\", \"more\": 3}\n{\"n\":3,\"name\":\"\"}\n{\"n\":4,\"name\":\"d\"}\n{\"n\":5,\"name\":\"e\"}\n"}).Script()
	orders, rows, lots := map[string]int{}, map[string]int{}, map[string]int{}
	for loop := range 2 {
		p := s.Player(loop, 2, 1)
		for k := range 20 {
			session := p.Begin()
			raw, _ := session.Request(nil)
			session.End()
			req, _ := parsed(t, raw)
			part := strings.Split(req.URL.Path, "/")[1:]
			n := loop + 2*k
			if part[0] != fmt.Sprint(10+5*n) || part[1] != fmt.Sprint(1+n%3) ||
				part[2] != fmt.Sprint(1+n%5) {
				t.Fatalf("arrival %d of loop %d is %v", k, loop, part)
			}
			orders[part[0]]++
			rows[part[3]]++
			lots[part[4]]++
		}
	}
	if len(orders) != 40 ||
		!maps.Equal(rows, map[string]int{"aé": 8, "b": 8, "": 8, "d": 8, "e": 8}) ||
		len(lots) != 5 {
		t.Errorf("%d different orders, rows %v, lots %v", len(orders), rows, lots)
	}
}

func TestThinkTimesMayBeExponential(t *testing.T) {
	s := read(t, `
mix:
  - name: a
    steps:
      - {name: one, request: {path: /}, think: {exponential: 1s}}
      - {name: two, request: {path: /}}
`, nil).Script()
	p := s.Player(0, 1, 1)
	sum, short := time.Duration(0), 0
	for range 4000 {
		_, _, thought := visit(t, s, p, func(http.ResponseWriter, *http.Request) {})
		sum += thought[0]
		if thought[0] < time.Second {
			short++
		}
	}
	if mean := sum / 4000; mean < 920*time.Millisecond || mean > 1080*time.Millisecond ||
		short < 2400 || short > 2660 {
		t.Errorf("mean %v, %d of 4000 below it; an exponential time has 63 %% below", mean, short)
	}
}

func TestAScenarioMaySayItsLoad(t *testing.T) {
	for text, want := range map[string]string{
		`{rate: 1000, arrivals: poisson, duration: 60s, bursts: [{rate: 3200, at: 20s, for: 8s}, "100:1s@2s"]}`: "1000:1m0s + 3200:8s@20s + 100:1s@2s poisson",
		`{rate: "1000:30s,1000-5000:60s"}`:                 "1000:30s,1000-5000:1m0s ",
		`{rate: 0.5-2, duration: 10s, arrivals: constant}`: "0.5-2:10s constant",
	} {
		s := read(t, "load: "+text+"\nmix: [{name: a, request: {path: /}}]", nil)
		if got := s.Profile.String() + " " + string(s.Arrivals); got != want {
			t.Errorf("%s is read as %q, want %q", text, got, want)
		}
		s.Profile.Schedule(pace.Constant, 0, 1, 0)
	}
	if s := read(t, "mix: [{name: a, request: {path: /}}]", nil); s.Profile != nil ||
		s.Arrivals != "" || s.Mix() != "a" {
		t.Errorf("without a load section: %+v", s)
	}
}

func TestLoopsPlayAtTheSameTime(t *testing.T) {
	s := read(t, login, loginFiles).Script()
	var loops sync.WaitGroup
	for loop := range 4 {
		loops.Go(func() {
			p := s.Player(loop, 4, 1)
			for range 500 {
				session := p.Begin()
				_, about := session.Request(nil)
				if v := session.Answer(answer(200,
					`{"items": 1, "data": {"token": "x"}}`)); v.Kind != measure.OK ||
					v.More != (about.Name == 1) {
					t.Errorf("%+v", v)
				}
				session.End()
			}
		})
	}
	loops.Wait()
}

func TestTheEnvironmentGivesSecrets(t *testing.T) {
	t.Setenv("SHOP_TOKEN", "s3cret ${x}")
	s := read(
		t,
		`mix: [{name: a, request: {path: "/${SHOP_ZONE:-north}", headers: {Authorization: "Bearer ${SHOP_TOKEN}"}}}]`,
		nil,
	)
	raw, _ := s.Script().Player(0, 1, 1).Begin().Request(nil)
	if req, _ := parsed(t, raw); req.URL.Path != "/north" ||
		req.Header.Get("Authorization") != "Bearer s3cret ${x}" {
		t.Errorf("%q", raw)
	}
}

func TestASessionDoesNotAlloc(t *testing.T) {
	s := read(t, login, loginFiles).Script()
	p := s.Player(0, 1, 1)
	list := answer(200, `{"items": []}`)
	token := answer(
		200,
		`{"id": 1.25e3, "data": {"tok\u0065n": "abc\"def\u00e9", "x": [1, 2, {}]}}`,
		"Content-Type",
		"application/json",
	)
	ok, busy := answer(409, `{"ok": true}`), answer(503, "")
	buffer := make([]byte, 0, 4096)
	turn := 0
	one := func() {
		session := p.Begin()
		var about load.Request
		buffer, about = session.Request(buffer[:0])
		if about.Name == 0 {
			if turn++; turn%2 == 0 {
				session.Answer(busy)
			} else {
				session.Answer(list)
			}
		} else {
			session.Answer(token)
			buffer, _ = session.Request(buffer[:0])
			if v := session.Answer(ok); v.Kind != measure.OK {
				t.Fatal(v)
			}
		}
		session.End()
	}
	for range 200 {
		one()
	}
	if n := testing.AllocsPerRun(2000, one); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSession(b *testing.B) {
	p := read(b, login, loginFiles).Script().Player(0, 1, 1)
	list := answer(200, `{"items": []}`)
	token := answer(200, `{"data": {"token": "abc"}}`)
	ok := answer(200, `{"ok": true}`)
	buffer := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		session := p.Begin()
		var about load.Request
		buffer, about = session.Request(buffer[:0])
		if about.Name == 0 {
			session.Answer(list)
		} else {
			session.Answer(token)
			buffer, _ = session.Request(buffer[:0])
			session.Answer(ok)
		}
		session.End()
	}
}
