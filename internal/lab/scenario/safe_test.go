package scenario_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/lab/measure"
)

func TestAValueNeverLeavesItsPlace(t *testing.T) {
	s := read(t, `
mix:
  - name: a
    steps:
      - {name: ask, request: {path: /}, take: {v: {json: v}}}
      - name: json
        request: {method: POST, path: "/p/${v}/e?q=${v}&z=1", body: '{"v": "${v}", "w": [ "x${v}y" ]}'}
      - name: form
        request: {method: POST, path: "/", headers: {Content-Type: application/x-www-form-urlencoded}, body: "a=${v}&b=2"}
      - name: plain
        request: {method: POST, path: "/", headers: {Content-Type: text/plain}, body: "<${v}>"}
`, nil).Script()
	p := s.Player(0, 1, 1)
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z/?#%&=+"\\ \r\n{}]{1,20}`)).Draw(
			rt, "v",
		)
		names, last, _ := visit(t, s, p, func(w http.ResponseWriter, r *http.Request) {
			body := make([]byte, 4096)
			n, _ := r.Body.Read(body)
			body = body[:n]
			switch {
			case r.Method == "GET":
				if err := json.NewEncoder(w).Encode(map[string]string{"v": v}); err != nil {
					rt.Fatal(err)
				}
			case r.Header.Get("Content-Type") == "text/plain":
				if string(body) != "<"+v+">" {
					rt.Fatalf("plain body %q", body)
				}
			case r.Header.Get("Content-Type") != "":
				form, err := url.ParseQuery(string(body))
				if err != nil || form.Get("a") != v || form.Get("b") != "2" || len(form) != 2 {
					rt.Fatalf("form %q %v", body, err)
				}
			default:
				var got struct {
					V string
					W []string
				}
				err := json.Unmarshal(body, &got)
				if err != nil || got.V != v || len(got.W) != 1 || got.W[0] != "x"+v+"y" {
					rt.Fatalf("JSON %q %v", body, err)
				}
				if r.URL.Path != "/p/"+v+"/e" || r.URL.Query().Get("q") != v ||
					r.URL.Query().Get("z") != "1" {
					rt.Fatalf("path %q", r.URL)
				}
			}
		})
		if last.Kind != measure.OK || len(names) != 4 {
			rt.Fatalf("%v %+v", names, last)
		}
	})
}

func TestAValueThatCannotGoIntoAHeaderOrAnAddressEndsItsSession(t *testing.T) {
	s := read(t, `
mix:
  - name: a
    steps:
      - {name: ask, request: {path: /}, take: {v: {json: v}, next: {json: next}}}
      - {name: use, request: {path: "/${raw:next}?x", headers: {X-V: "<${v}>"}}}
`, nil).Script()
	p := s.Player(0, 1, 1)
	for _, c := range []struct {
		v, next string
		kind    measure.Kind
		why     string
	}{
		{"plain ü\t\"", "a/b?c=%20&d", measure.OK, ""},
		{"a\r\nX-Admin: 1", "a", measure.BadAnswer, "a/ask: the value of v has a byte that cannot go where a later request puts it"},
		{"a\x00", "a", measure.BadAnswer, "a/ask: the value of v has"},
		{"a", "b HTTP/1.1\r\n", measure.BadAnswer, "a/ask: the value of next has"},
		{"a", "b#c", measure.BadAnswer, "a/ask: the value of next has"},
		{strings.Repeat("a", 20000), "b", measure.BadAnswer, "a/ask: the value of v is longer than 16384 bytes"},
	} {
		_, last, _ := visit(t, s, p, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "" {
				if err := json.NewEncoder(w).Encode(map[string]string{
					"v":    c.v,
					"next": c.next,
				}); err != nil {
					t.Error(err)
				}
				return
			}
			if r.Header.Get("X-V") != "<"+c.v+">" || r.RequestURI != "/"+c.next+"?x" {
				t.Errorf("%q with %q", r.RequestURI, r.Header)
			}
		})
		if last.Kind != c.kind || !strings.HasPrefix(last.Why, c.why) || last.More {
			t.Errorf("%.40q %.40q: %+v", c.v, c.next, last)
		}
	}
}

func TestARawValueOfABodyIsPutInAsItIs(t *testing.T) {
	s := read(t, `
data: {orders: {jsonl: orders.jsonl}}
mix: [{name: a, request: {method: PUT, path: /, body: '{"items": ${raw:orders.items}, "count": ${orders.count}, "who": "${orders.who}"}'}}]
`, map[string]string{"orders.jsonl": `{"items": [{"id": "a\"b"}], "count": 2, "who": "x\ny"}`}).Script()
	raw, _ := s.Player(0, 1, 1).Begin().Request(nil)
	if _, body := parsed(t,
		raw); body != `{"items": [{"id": "a\"b"}], "count": 2, "who": "x\u000Ay"}` {
		t.Errorf("%q", body)
	}
}
