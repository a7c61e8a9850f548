package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

// judged is the verdict of a check section on an answer; empty is not a section.
func judged(t *testing.T, check string, a *load.Answer) load.AnswerVerdict {
	t.Helper()
	if check != "" {
		check = ", check: " + check
	}
	session := read(t, "mix: [{name: get, request: {path: /}"+check+"}]", nil).Script().Player(0, 1,
		1).Begin()
	defer session.End()
	session.Request(nil)
	return session.Answer(a)
}

func TestChecksSayWhichAnswersAreGood(t *testing.T) {
	shop := `{"ok": true, "n": 1.50, "name": "caf\u00e9", "none": null, "list": [{"id": "7"}, 8], "a.b": "dot", "neg": -0.0}`
	for _, c := range []struct {
		check  string
		answer *load.Answer
		kind   measure.Kind
		why    string
	}{
		{"", answer(204, ""), measure.OK, ""},
		{"", answer(302, ""), measure.OK, ""},
		{"", answer(404, ""), measure.BadStatus, "get: status 404, wanted below 400"},
		{"{status: 404}", answer(404, ""), measure.OK, ""},
		{"{status: 404}", answer(200, ""), measure.BadStatus, "get: status 200, wanted 404"},
		{"{status: [2xx, 409]}", answer(299, ""), measure.OK, ""},
		{"{status: [2xx, 409]}", answer(409, ""), measure.OK, ""},
		{"{status: [2xx, 409]}", answer(300, ""), measure.BadStatus, "get: status 300, wanted 2xx or 409"},
		{"{status: 5xx}", answer(599, ""), measure.OK, ""},
		{"{header: {content-type: text/html}}", answer(200, "", "Content-Type", "text/html"), measure.OK, ""},
		{
			"{header: {Content-Type: text/html}}",
			answer(200, "", "Content-Type", "text/html; charset=utf-8"), measure.BadAnswer,
			`get: the header Content-Type is not "text/html"`,
		},
		{"{header: {Content-Type: {contains: html}}}", answer(200, "", "Content-Type", "text/html; charset=utf-8"), measure.OK, ""},
		{"{header: {X-A: {contains: html}}}", answer(200, "html"), measure.BadAnswer, `get: the header X-A does not contain "html"`},
		{"{header: {X-A: 2}}", answer(200, "", "x-a", "1", "X-A", "2"), measure.OK, ""},
		{"{header: {X-A: 2}}", answer(500, "", "X-A", "2"), measure.BadStatus, "get: status 500, wanted below 400"},
		{"{body_contains: coat}", answer(200, "oilskin coat, 1"), measure.OK, ""},
		{"{body_contains: [coat, lamp]}", answer(200, "oilskin coat, 1"), measure.BadAnswer, `get: the body does not contain "lamp"`},
		{
			"{json: {ok: true, n: 1.5, name: café, none: null, list.0.id: \"7\", list.1: " +
				"8, 'a\\.b': dot, neg: 0}}",
			answer(200, shop),
			measure.OK,
			"",
		},
		{"{json: {ok: false}}", answer(200, shop), measure.BadAnswer, "get: the JSON value ok is not false"},
		{"{json: {ok: \"true\"}}", answer(200, shop), measure.BadAnswer, "get: the JSON value ok is not true"},
		{"{json: {n: 1.51}}", answer(200, shop), measure.BadAnswer, "get: the JSON value n is not 1.51"},
		{"{json: {list.0.id: 7}}", answer(200, shop), measure.BadAnswer, "get: the JSON value list.0.id is not 7"},
		{"{json: {list.2: 8}}", answer(200, shop), measure.BadAnswer, "get: the JSON value list.2 is not 8"},
		{"{json: {absent: null}}", answer(200, shop), measure.BadAnswer, "get: the JSON value absent is not null"},
		{"{json: {n: 1}}", answer(200, `{"n": 1`), measure.BadAnswer, "get: the JSON value n is not 1"},
		{"{json: {n: 1}}", answer(200, `{"n": 1} x`), measure.BadAnswer, "get: the JSON value n is not 1"},
		{"{json: {n: 1}}", answer(200, `{"n": 1.`+strings.Repeat("0", 50)+`}`), measure.BadAnswer, "get: the JSON value n is not 1"},
		{
			"{json: {n: 1}}", &load.Answer{Status: 200, Body: []byte(`{"n": 1}`), Cut: true},
			measure.BadAnswer, "get: the body is longer than is held",
		},
	} {
		v := judged(t, c.check, c.answer)
		if v.Kind != c.kind || !strings.HasPrefix(v.Why, c.why) ||
			(v.Why == "") != (v.Kind == measure.OK) || v.More {
			t.Errorf("%s of %d %q: %+v, want %v %q",
				c.check, c.answer.Status, c.answer.Body, v, c.kind, c.why)
		}
	}
}

func TestABodyIsAskedForOnlyWhereItIsLookedAt(t *testing.T) {
	s := read(t, `
mix:
  - name: a
    steps:
      - {name: one, request: {path: /}, check: {status: 200, header: {X: y}}}
      - {name: two, request: {path: /}, check: {body_contains: x}}
      - {name: three, request: {path: /}, check: {json: {x: 1}}}
      - {name: four, request: {path: /}, take: {a: {json: x}}}
      - {name: five, request: {path: /}, take: {b: {body: {after: x}}}}
      - {name: six, request: {path: /}, take: {c: {header: X}}}
      - {name: seven, request: {path: "/${a}${b}${c}", method: HEAD}}
`, nil).Script()
	session := s.Player(0, 1, 1).Begin()
	var bodies []bool
	for {
		_, about := session.Request(nil)
		bodies = append(bodies, about.Body)
		if !session.Answer(answer(200, `{"x": 1}`, "X", "y")).More {
			break
		}
	}
	if !slices.Equal(bodies, []bool{false, true, true, true, true, false, false}) {
		t.Errorf("%v", bodies)
	}
}

func TestValuesAreTakenFromAnswers(t *testing.T) {
	for _, c := range []struct {
		take   string
		answer *load.Answer
		want   string // the value, or why there is none
	}{
		{"{json: data.token}", answer(200, `{"data": {"token": "a\u002Fb"}}`), "a/b"},
		{"{json: 1.n}", answer(200, `[{"n": 1}, {"n": -2.5e3}]`), "-2.5e3"},
		{"{json: data}", answer(200, `{"data": {"k" : [1]}}`), `{"k" : [1]}`},
		{"{json: data.token}", answer(200, `{"data": {}}`), "a/one: no value for v at data.token"},
		{"{json: data}", answer(200, `{"data": null}`), "a/one: no value for v at data"},
		{"{json: data}", answer(200, `{"data": 1`), "a/one: no value for v at data"},
		{
			"{json: data}", &load.Answer{Status: 200, Body: []byte(`{"data": 1}`), Cut: true},
			"a/one: the body is longer than is held, so v cannot be read from it",
		},
		{"{header: x-token}", answer(200, "", "X-Token", "abc"), "abc"},
		{"{header: X-Token}", answer(200, ""), "a/one: no value for v at the header X-Token"},
		{
			"{header: {name: Set-Cookie, after: 'sid=', before: ';'}}",
			answer(200, "", "Set-Cookie", "a=1; Path=/", "Set-Cookie", "sid=42; Path=/"), "42",
		},
		{
			"{header: {name: Set-Cookie, after: 'sid='}}", answer(200, "", "Set-Cookie", "a=1"),
			`a/one: no value for v at the header Set-Cookie after "sid="`,
		},
		{"{body: {after: 'csrf=\"', before: '\"'}}", answer(200, `<input csrf="x y" csrf="z">`), "x y"},
		{"{body: {after: 'csrf='}}", answer(200, `csrf=1`), "1"},
		{"{body: {after: 'csrf='}}", answer(200, `csrf=`), `a/one: no value for v at the body after "csrf="`},
	} {
		s := read(
			t,
			"mix: [{name: a, steps: [{name: one, request: {path: /}, take: {v: "+c.take+
				"}}, {name: two, request: {method: PUT, path: /, body: '<${v}>'}}]}]",
			nil,
		)
		session := s.Script().Player(0, 1, 1).Begin()
		session.Request(nil)
		v := session.Answer(c.answer)
		if !v.More {
			if v.Kind != measure.BadAnswer || v.Why != c.want {
				t.Errorf("%s of %q: %+v, want %q", c.take, c.answer.Body, v, c.want)
			}
			continue
		}
		raw, _ := session.Request(nil)
		if _, body := parsed(t, raw); body != "<"+c.want+">" {
			t.Errorf("%s of %q gave %s, want %s", c.take, c.answer.Body, body, c.want)
		}
	}
}
