package scenario_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"plimsoll/internal/config"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/scenario"
)

// errorsOf are the lines of what is wrong with a scenario, without its folder.
func errorsOf(t *testing.T, text string, files map[string]string) []string {
	t.Helper()
	path := write(t, text, files)
	_, err := scenario.Load(path, target)
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[config.Errors](err); !ok {
		t.Errorf("the error is a %T", err)
	}
	return strings.Split(strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""), "\n")
}

func TestEverythingThatIsWrongIsSaidAtOnceWithItsPlace(t *testing.T) {
	got := errorsOf(t, `lod: {rate: 5}
data:
  users: {csv: users.csv}
  Item: {random: {from: 1, to: 8}}
  gone: {csv: gone.csv}
mix:
  - name: list
    wieght: 80
    request: {metod: GET, path: "/items/${user.name}/${users.nam}/${users}"}
  - request: {path: items}
  - name: buy
    steps:
      - name: login
        request: {path: "/${token}"}
        chekc: {status: 200}
        take: {token: {jsno: data.token}}
        think: 5
      - name: pay
        request: {path: "/pay", headers: {Content-Length: 5, "X:": a, X-A: "${token"}}
        check: {status: 20x, json: {a..b: 1}}
        think: 1s
`, map[string]string{"users.csv": "name,secret\na,b\n"})
	want := []string{
		`scenario.yaml:1:1: lod: unknown key; did you mean load?`,
		`scenario.yaml:4:3: data.Item: a value's name begins with a lower-case letter and has letters, digits, "_" and "-"; rename it`,
		`scenario.yaml:5:15: data.gone.csv: gone.csv cannot be read: no such file or directory; data files may have 64MB in all`,
		`scenario.yaml:8:5: mix[0].wieght: unknown key; did you mean weight?`,
		`scenario.yaml:9:15: mix[0].request.metod: unknown key; did you mean method?`,
		`scenario.yaml:9:33: mix[0].request.path: ${user.name} is not a value; did you mean users.name? ("$${" is a literal "${")`,
		`scenario.yaml:10:5: mix[1].name: missing; add it`,
		`scenario.yaml:10:21: mix[1].request.path: a path begins with "/"; the host is that of the target`,
		`scenario.yaml:14:25: mix[2].steps[0].request.path: ${token} is only known after the step that takes it; use it in a step after that`,
		`scenario.yaml:15:9: mix[2].steps[0].chekc: unknown key; did you mean check?`,
		`scenario.yaml:16:23: mix[2].steps[0].take.token: one of json, header, body is needed, and none of them is here; keep exactly one`,
		`scenario.yaml:16:24: mix[2].steps[0].take.token.jsno: unknown key; did you mean json?`,
		`scenario.yaml:17:16: mix[2].steps[0].think: "5" has no unit; write "5s" for seconds or "5ms" for milliseconds`,
		`scenario.yaml:19:43: mix[2].steps[1].request.headers.Content-Length: Content-Length says how the message is framed, which is the generator's business; remove it`,
		`scenario.yaml:19:62: mix[2].steps[1].request.headers.X:: "X:" is not a name of a header; it has letters, digits and "-"`,
		`scenario.yaml:19:76: mix[2].steps[1].request.headers.X-A: "${token" is not closed; add the "}", or write "$${" for a literal "${"`,
		`scenario.yaml:20:25: mix[2].steps[1].check.status: "20x" is not a status; write 200, "2xx", or a list of them`,
		`scenario.yaml:20:37: mix[2].steps[1].check.json.a..b: a JSON path is keys and indexes with dots between, as data.items.0.id`,
		`scenario.yaml:21:16: mix[2].steps[1].think: nothing comes after the last step, so there is no time to think; remove it`,
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing: %s", want[i])
		case i >= len(want):
			t.Errorf("unexpected: %s", got[i])
		case got[i] != want[i]:
			t.Errorf("line %d\n got %s\nwant %s", i, got[i], want[i])
		}
	}
}

const anyMix = "mix: [{name: a, request: {path: /}}]"

// senseless are scenarios and what is said of each.
var senseless = map[string]string{
	"":          "the file is empty",
	"# nothing": "the file is empty",
	"a: [":      "this is not YAML",
	"mix: [{name: a, request: {path: /${x}}}]": "put a text with ${...} in quotes",
	"mix:\n\t- a":               "not YAML",
	"mix: []":                   "1:6: mix: empty; give it at least one request",
	"mix: {}":                   "1:6: mix: expected a list",
	"mix: 5":                    "1:6: mix: expected a list, found \"5\"",
	"[]":                        "1:1: expected a mapping",
	anyMix + "\n---\n" + anyMix: "a second document begins here",
	anyMix + "\n" + anyMix:      "2:1: mix: this key is given twice, first on line 1",
	"load: {}\n" + anyMix:       "1:7: load.rate: missing; add it",
	"x: &a 1\n" + anyMix:        "anchors and aliases are not supported",
	"x: !!int 1\n" + anyMix:     "tags and directives are not supported",
	strings.Repeat("[", 100):    "more than 20 deep",
	"mix: \xff":                 "save the file in UTF-8",

	"load: {rate: 5}\n" + anyMix:                                                              "add duration: 30s, or write \"5:30s\"",
	"load: {rate: '5:3s', duration: 3s}\n" + anyMix:                                           "remove duration",
	"load: {rate: 5, duration: 0s}\n" + anyMix:                                                "load.duration: a load of no length",
	"load: {rate: 5, duration: 5}\n" + anyMix:                                                 "load.duration: \"5\" has no unit",
	"load: {rate: -5, duration: 5s}\n" + anyMix:                                               "load.rate: rate \"-5\"",
	"load: {rate: 5, duration: 5s, arrivals: poison}\n" + anyMix:                              "did you mean poisson?",
	"load: {rate: 5, duration: 5s, bursts: [{rate: 1, at: 5s, for: 1s}]}\n" + anyMix:          "load.bursts: burst 1 begins at 5s",
	"load: {rate: 5, duration: 5s, bursts: [{rate: 1, at: 1s, for: 1s, len: 1s}]}\n" + anyMix: "load.bursts[0].len: unknown key",
	"load: {rate: 5, duration: 5s, bursts: ['5:1s']}\n" + anyMix:                              "load.bursts[0]: burst \"5:1s\"",
	"load: {rate: 5, duration: 5s, bursts: [{rate: .nan, at: 1s, for: 1s}]}\n" + anyMix:       "load.bursts[0].rate: expected a number",

	"data: {a: {}}\n" + anyMix:                                       "none of them is here",
	"data: {a: {csv: users.csv, jsonl: b}}\n" + anyMix:               "here are csv and jsonl",
	"data: {a: {csv: users.csv}}\n" + anyMix:                         "data.a: no request uses ${a}",
	"data: {a: {csv: bad.csv}}\n" + anyMix:                           "bad.csv: record on line 3: wrong number of fields",
	"data: {a: {csv: twice.csv}}\n" + anyMix:                         "column 2 has the name \"a\", which is empty or duplicate",
	"data: {a: {csv: empty.csv}}\n" + anyMix:                         "empty.csv: it is empty",
	"data: {a: {csv: none.csv}}\n" + anyMix:                          "none.csv: it has no rows",
	"data: {a: {jsonl: lines.jsonl}}\n" + anyMix:                     "lines.jsonl: line 2 has no \"a\"",
	"data: {a: {jsonl: broken.jsonl}}\n" + anyMix:                    "broken.jsonl: line 2 is not a JSON object",
	"data: {a: {csv: .}}\n" + anyMix:                                 "it is not a regular file",
	"data: {a: {csv: users.csv, order: rnadom}}\n" + anyMix:          "did you mean random?",
	"data: {a: {random: {from: 1, to: 2}, order: file}}\n" + anyMix:  "order is for the rows of a file",
	"data: {a: {random: {from: 1}}}\n" + anyMix:                      "data.a.random.to: missing",
	"data: {a: {random: {from: 3, to: 2}}}\n" + anyMix:               "from is 3 and to is 2; let to be at least from",
	"data: {a: {random: {from: 1, to: 2, step: 1}}}\n" + anyMix:      "data.a.random.step: unknown key",
	"data: {a: {sequence: {step: 0}}}\n" + anyMix:                    "step is 0",
	"data: {a: {sequence: {from: 1.5}}}\n" + anyMix:                  "expected a whole number",
	"data: {a: {sequence: {from: 99999999999999999999}}}\n" + anyMix: "expected a whole number of at most 18 digits",

	"mix: [{name: a/b, request: {path: /}}]":                              "a name has 1 to 100 characters and no \"/\"",
	"mix: [{name: a, request: {path: /}}, {name: a, request: {path: /}}]": "\"a\" is the name of another entry",
	"mix: [{name: a, weight: 0, request: {path: /}}]":                     "the weight must be above 0",
	"mix: [{name: a, weight: x, request: {path: /}}]":                     "expected a number",
	"mix: [{name: a}]": "one of request, steps is needed, and none of them is here",
	"mix: [{name: a, request: {path: /}, steps: []}]":                                       "here are request and steps",
	"mix: [{name: a, steps: []}]":                                                           "mix[0].steps: empty",
	"mix: [{name: a, steps: [{name: b, request: {path: /}}], check: {}}]":                   "each of the steps has its own check",
	"mix: [{name: a, request: {path: /, method: get}}]":                                     "\"get\" is not a method",
	"mix: [{name: a, request: {path: /, method: CONNECT}}]":                                 "\"CONNECT\" is not a method",
	"mix: [{name: a, request: {path: '/a b'}}]":                                             "percent-encode the rest, as %20 for a blank",
	"mix: [{name: a, request: {path: /ü}}]":                                                 "percent-encode",
	"mix: [{name: a, request: {path: \"/${NO_SUCH_VARIABLE}\"}}]":                           "the environment variable NO_SUCH_VARIABLE is not set",
	"mix: [{name: a, request: {path: /, headers: {X: \"a\\nb\"}}}]":                         "a header cannot hold a line break",
	"mix: [{name: a, request: {path: /, headers: {Transfer-Encoding: a}}}]":                 "how the message is framed",
	"mix: [{name: a, request: {path: /, body: a, body_file: b}}]":                           "body and body_file are both given",
	"mix: [{name: a, request: {path: /, body_file: nope.json}}]":                            "nope.json cannot be read",
	"mix: [{name: a, request: {path: /, method: HEAD}, check: {json: {a: 1}}}]":             "a HEAD request has no body",
	"mix: [{name: a, request: {path: /}, check: {status: []}}]":                             "check.status: empty",
	"mix: [{name: a, request: {path: /}, check: {status: 99}}]":                             "\"99\" is not a status",
	"mix: [{name: a, request: {path: /}, check: {header: {X: {contains: 1, contain: 1}}}}]": "did you mean contains?",
	"mix: [{name: a, request: {path: /}, check: {json: {a: 0x10}}}]":                        "is not a number that JSON has",
	"mix: [{name: a, request: {path: /}, take: {a: {json: b}}}]":                            "mix[0].take: unknown key",
	"mix: [{name: a, steps: [{name: b, request: {path: /}, think: 2h}, {name: c, request: {path: " +
		"/}}]}]": "longer than the 1h0m0s",
	"mix: [{name: a, steps: [{name: b, request: {path: /}}, {name: b, request: {path: /}}]}]": "\"b\" is the name of another step",
	"mix: [{name: a, steps: [{name: b, request: {path: /}, take: {V: {json: b}}}]}]":          "a value's name begins with a lower-case letter",
	"mix: [{name: a, steps: [{name: b, request: {path: /}, take: {v: {json: b}}}, {name: c, " +
		"request: {path: /}, take: {v: {json: b}}}]}]": "taken by a step before",
	"data: {v: {sequence: {}}}\nmix: [{name: a, steps: [{name: b, request: {path: '/${v}'}, " +
		"take: {v: {json: b}}}]}]": "v is a source of the data section already",
	"data: {v: {sequence: {}}}\nmix: [{name: a, request: {path: '/${v.x}'}}]":      "numbers, which have no columns",
	"data: {u: {csv: users.csv}}\nmix: [{name: a, request: {path: '/${u}'}}]":      "name a column, as ${u.name}",
	"data: {u: {csv: users.csv}}\nmix: [{name: a, request: {path: '/${u.nmae}'}}]": "did you mean name?",
	"data: {u: {csv: users.csv}}\nmix: [{name: a, request: {path: /, headers: {X: " +
		"'${u.name}'}}}]": "${u.name}: the value of row 2 " +
		"has a byte that cannot go here",
	"data: {u: {csv: users.csv}}\nmix: [{name: a, request: {path: '/${raw:u.name}'}}]": "the value of row 2 has a byte",
}

func TestAScenarioThatMakesNoSenseIsRefused(t *testing.T) {
	rows := map[string]string{
		"users.csv": "name,secret\nann,b\n\"bob\nc\",d\n", "bad.csv": "a,b\n1,2\n3\n",
		"twice.csv": "a,a\n1,2\n", "empty.csv": "", "none.csv": "a,b\n",
		"lines.jsonl": "{\"a\": 1}\n{\"b\": 2}\n", "broken.jsonl": "{\"a\": 1}\n{\"a\"\n",
	}
	for text, says := range senseless {
		lines := errorsOf(t, text, rows)
		if len(lines) != 1 || !strings.HasPrefix(lines[0], "scenario.yaml:") ||
			!strings.Contains(lines[0], says) {
			t.Errorf("%q:\n got %q\nwant one line with %q", text, lines, says)
		}
	}
}

func TestAFileThatIsNotThereOrTooLargeIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent.yaml")
	if _, err := scenario.Load(path, target); err == nil ||
		!strings.HasPrefix(err.Error(), path+": the scenario cannot be read: no such file") {
		t.Error(err)
	}
	got := errorsOf(t, strings.Repeat("# much\n", 200_000), nil)
	if len(got) != 1 || !strings.Contains(got[0], "larger than the 1MB") {
		t.Error(got)
	}
}

func TestManyErrorsAreCounted(t *testing.T) {
	got := errorsOf(t, strings.Repeat("a: 1\n", 500), nil)
	if len(got) != 201 || !strings.Contains(got[200], "more errors are not listed") {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
}

// The example and the page that explains the format are read as a user would read them.

func TestTheExampleFitsTheDemoShop(t *testing.T) {
	s, err := scenario.Load(filepath.FromSlash("../../../examples/scenarios/sale.yaml"), target)
	if err != nil {
		t.Fatal(err)
	}
	playShop(t, s)
}

func TestEveryScenarioOfThePageIsRight(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../../docs/scenario.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	whole := 0
	for _, b := range blocks {
		text := string(b[1])
		if !strings.Contains(text, "mix:") {
			text += "mix: [{name: a, request: {path: /}}]\n"
		} else {
			whole++
		}
		lines := errorsOf(t, text, map[string]string{
			"users.csv": "name,secret\nann,x\n", "order.json": `{"item": ${item}}`, "orders.jsonl": `{"items": [1], "note": "a"}`,
		})
		for _, line := range lines {
			if !strings.Contains(line, "no request uses") {
				t.Errorf("%s in\n%s", line, text)
			}
		}
	}
	if whole == 0 {
		t.Error("the page shows no whole scenario")
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		login,
		"mix: [{name: a, request: {path: /}}]",
		"load: {rate: '1:1s', bursts: ['1:1s@0s']}\ndata: {a: {random: {from: 1, to: 3}}}\n" +
			"mix:\n- name: x\n  steps:\n  - {name: y, request: {method: PUT, path: " +
			"'/${a}?b=${raw:a}', headers: {X: '${a}'}, body: '{\"a\": ${a}}'}, take: {v: " +
			"{header: {name: A, after: b}}, w: {body: {after: c}}}, think: 1s}\n" +
			"  - {name: z, request: {path: '/${v}'}, check: {status: [2xx], header: {A: " +
			"{contains: b}}, body_contains: x, json: {a.0: null}}}\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// Other files would be those of the machine.
		if strings.Contains(text, "csv") || strings.Contains(text, "jsonl") ||
			strings.Contains(text, "body_file") {
			return
		}
		path := write(t, text, nil)
		s, err := scenario.Load(path, target)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, path+":") {
					t.Fatalf("%q in %q", line, err)
				}
			}
			return
		}
		if s.Script().Requests() < 1 || len(s.Mix()) == 0 {
			t.Fatalf("%v requests, %q", s.Script().Requests(), s.Mix())
		}
		p := s.Script().Player(1, 3, 5)
		for range 20 {
			session := p.Begin()
			for {
				raw, about := session.Request(nil)
				if !strings.Contains(strings.ToLower(string(raw)), "\r\nhost:") ||
					about.Name >= len(s.Script().Names()) {
					t.Fatalf("%q %+v", raw, about)
				}
				if !session.Answer(answer(200, `{"a": [null], "v": "x"}`, "A", "b")).More {
					break
				}
			}
			session.End()
		}
	})
}

// playShop plays a scenario against the demo's shop until every request was made, and checks that
// each answer is good.
func playShop(t *testing.T, s *scenario.Scenario) {
	t.Helper()
	script := s.Script()
	p := script.Player(0, 1, 1)
	seen := map[string]int{}
	for range 300 {
		names, last, _ := visit(t, script, p, shop(t))
		for _, n := range names {
			seen[n]++
		}
		if last.Kind != measure.OK {
			t.Fatalf("%v: %+v", names, last)
		}
	}
	for _, n := range script.Names() {
		if seen[n] == 0 {
			t.Errorf("%s was never sent: %v", n, seen)
		}
	}
}
