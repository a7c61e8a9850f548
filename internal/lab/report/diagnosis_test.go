package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/report"
	"plimsoll/web"
)

// diagnosed is the report of the plain run with a diagnosis.
func diagnosed(t *testing.T, d *diagnose.Diagnosis) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := report.Write(&out, plain().survey(), d); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAFindingIsToldWithItsEvidenceAndWhatToDo(t *testing.T) {
	page := text(diagnosed(t, sick()))
	at := 0
	for _, want := range []string{
		"Peak goodput",
		"Diagnosis",
		"Bottleneck: the target's processor time, 97.0 % in use at the line .",
		"3.9 of 4 cores were busy at the line.",
		"Sets the load line very likely (93 %)",
		"Encoding JSON takes 41 %",
		"Evidence",
		"processor time in encoding/json at the line 41 % 15 % below that,",
		"Possible counter-evidence",
		"waits for a lock 0.2 % 5 %",
		"main.(*Shop).products shop/products.go:84 38.0 % of the processor time",
		"What to do Write the product list",
		"go tool pprof -list 'main.\\(\\*Shop\\).products' steps/0009/cpu.pb.gz",
		"The line is expected to become 1.6 times what it is, 3,048 requests a second (1.4 to " +
			"1.8 times, 2,667–3,429).",
		"The processor sets the line, and 38 of its 41 % would be saved.",
		"How to verify it Survey again",
		"plimsoll compare plimsoll-runs/before",
		"Raises the cost per request very likely (81 %)",
		"GOGC=400 GOMEMLIMIT=360MiB ./shop",
		"A risk; it does not set the line likely (60 %)",
		"The line is not expected to move.",
		"What was not claimed, and what could not be judged",
		"A lock holds requests up its waits do not grow",
		"database-pool-small no figures of a pool",
		"Latency against rate",
		"Flame graphs",
	} {
		i := strings.Index(page[at:], want)
		if i < 0 {
			t.Fatalf("the page does not say %q after %.80q: %.1500s",
				want, page[max(0, at-80):at], page[at:])
		}
		at += i
	}
}

func TestAHealthyServiceHasNoFinding(t *testing.T) {
	page := text(diagnosed(t, healthy()))
	for _, want := range []string{
		"Bottleneck: the target's processor time",
		"No finding Nothing that was measured shows a problem.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "Flame graphs") || strings.Contains(page, "not claimed") {
		t.Error("the page has sections without content")
	}
}

func TestAReportWithoutADiagnosisSaysNothingOfOne(t *testing.T) {
	if page := text(html(t, plain().survey())); strings.Contains(page, "Diagnosis") ||
		strings.Contains(page, "No finding") {
		t.Error("nobody has diagnosed this run, and the page says what was found")
	}
}

func TestALimitThatIsNotKnownIsNotNamed(t *testing.T) {
	page := text(diagnosed(t, &diagnose.Diagnosis{
		First: diagnose.Limit{What: "unknown", Why: "no resource was near its end"},
	}))
	if !strings.Contains(page, "The bottleneck is not known. No resource was near its end.") {
		t.Errorf("%.900s", page)
	}
}

func TestTwoFlameGraphsAreSmall(t *testing.T) {
	with, without := sick(), sick()
	without.Flames = nil
	difference := len(report.Compact(with.Flames))
	if difference > 120_000 {
		t.Errorf("two flame graphs of 2,000 nodes are %d bytes, more than 120,000", difference)
	}
	if page := len(diagnosed(t, with)) - len(diagnosed(t, without)); page > 140_000 {
		t.Errorf("with their tables they are %d bytes of the page", page)
	}
}

func TestAFlameGraphsNodesAreItsTree(t *testing.T) {
	tree := &profile.Node{
		Name:        "all",
		Weight:      2,
		Before:      1,
		Grain:       .01,
		GrainBefore: .02,
		Children: []*profile.Node{
			{Name: "main.a", Weight: 1.5, Before: .25, Children: []*profile.Node{{Name: "runtime.x", Weight: .5}}},
			{Name: "net/http.b", Weight: .5, Before: .75},
		},
	}
	for _, c := range []struct {
		difference bool
		want       string
	}{
		{
			true,
			`{"names":["all","main.a","runtime.x","net/http.b"],"origins":"2021","graphs":[{"title":"T","unit":"u","difference":true,"whole":2,"parts":1000000,"grain":[5000,10000],` +
				`"nodes":[0,2,1000000,500000,1,1,750000,125000,2,0,250000,0,3,0,250000,375000]}]}`,
		},
		{
			false,
			`{"names":["all","main.a","runtime.x","net/http.b"],"origins":"2021","graphs":[{"title":"T","unit":"u","whole":2,"parts":1000000,` +
				`"nodes":[0,2,1000000,1,1,750000,2,0,250000,3,0,250000]}]}`,
		},
	} {
		if got := report.Compact([]diagnose.Flame{{
			Title:      "T",
			Unit:       "u",
			Root:       tree,
			Difference: c.difference,
		}}); got != c.want {
			t.Errorf("%s\nnot %s", got, c.want)
		}
	}
}

func TestWithoutAScriptTheHeaviestFunctionsAreInATable(t *testing.T) {
	leaf := func(name string, weight, before float64) *profile.Node {
		return &profile.Node{Name: name, Weight: weight, Before: before}
	}
	root := leaf("all", 1, .8)
	work := leaf("main.work", .6, .3)
	work.Children = []*profile.Node{
		leaf("main.work", .2, .1), leaf("main.helper", .3, .1), leaf(profile.Folded, .05, 0),
	}
	root.Children = []*profile.Node{work, leaf("main.other", .4, .5)}
	d := healthy()
	d.Flames = []diagnose.Flame{
		{Title: "At the line", Root: root, Unit: "processor seconds a second"},
		{Title: "Moved", Root: root, Unit: "u", Difference: true},
	}
	var out bytes.Buffer
	if err := report.WriteWith(&out, plain().survey(), d, web.Assets{
		Theme: web.Report().Theme,
	}); err != nil {
		t.Fatal(err)
	}
	page := text(out.Bytes())
	for _, want := range []string{
		"In processor seconds a second; all of it is 1.",
		"main.other 0.4 40.0 % 0.4 main.helper 0.3 30.0 % 0.3 main.work 0.25 25.0 % 0.6",
		"In u; all of it is 0.8 before and 1 after.",
		"main.helper 0.1 0.3 +0.2 0.1 0.3 main.other 0.5 0.4 −0.1 0.5 0.4 main.work 0.2 " +
			"0.25 +0.05 0.3 0.6",
	} {
		if !strings.Contains(page, want) {
			at := strings.Index(page, "Flame graphs")
			t.Errorf("the page does not say %q: %s", want, page[at:min(len(page), at+1200)])
		}
	}
	if strings.Contains(out.String(), "data-flame") {
		t.Error("a page without a script has places for flame graphs")
	}
}

// cruel is a diagnosis whose every text is evil.
func cruel() *diagnose.Diagnosis { return claiming(evil) }

// claiming is a diagnosis whose every text is the same.
func claiming(text string) *diagnose.Diagnosis {
	facts := []diagnose.Fact{{What: text, Value: text, Threshold: text, Reason: text}}
	action := diagnose.Action{Text: text, Command: text}
	return &diagnose.Diagnosis{
		First: diagnose.Limit{What: text, Why: text},
		Findings: []diagnose.Finding{{
			Rule:     text,
			Claim:    text,
			Evidence: facts,
			Against:  facts,
			Where:    []profile.Place{{Function: text, File: text, Line: 1, Share: .5, Of: text}},
			Advice:   []diagnose.Action{action},
			Gain:     diagnose.Gain{Factor: 2, Why: text},
			Verify:   action,
		}},
		HeldBack:  []diagnose.HeldBack{{Rule: text, Claim: text, Why: text}},
		NotJudged: []diagnose.NotJudged{{Rule: text, Missing: text}},
		Flames: []diagnose.Flame{{
			Title:      text,
			Unit:       text,
			Difference: true,
			Root: &profile.Node{Name: text, Weight: 2, Before: 1,
				Children: []*profile.Node{{Name: text, Weight: 1, Before: 1}}},
		}},
	}
}

func TestTextsOfADiagnosisCannotLeaveTheirPlace(t *testing.T) {
	page := string(diagnosed(t, cruel()))
	body := strings.Replace(page[strings.Index(page, "<body"):], web.Report().Script, "", 1)
	for _, broken := range []string{"<img", "onerror=\"document", "<!--"} {
		if strings.Contains(body, broken) {
			t.Errorf("%q is on the page as it is", broken)
		}
	}
	if n, clean := strings.Count(page, "<script"),
		strings.Count(string(html(t, plain().survey())), "<script"); n != clean {
		t.Errorf("%d scripts, a harmless page has %d", n, clean)
	}
	_, after, _ := strings.Cut(page, `<script type="application/json" id="data">`)
	raw, _, _ := strings.Cut(after, "</script>")
	var got report.Data
	if err := json.Unmarshal([]byte(raw), &got); err != nil || got.Flames == nil ||
		got.Flames.Names[0] != evil || got.Diagnosis.Findings[0].Claim != evil {
		t.Errorf("the data on the page is not that of the diagnosis: %v", err)
	}
}

func TestAPageIsSmallWhateverTheDiagnosis(t *testing.T) {
	long := strings.Repeat("é", 1<<18)
	d := cruel()
	for i := range 400 {
		f := d.Findings[0]
		f.Rule, f.Claim = fmt.Sprint(i, long), long
		for range 100 {
			f.Evidence, f.Where = append(f.Evidence, f.Evidence[0]), append(f.Where, f.Where[0])
		}
		d.Findings = append(d.Findings, f)
		d.HeldBack = append(d.HeldBack, diagnose.HeldBack{Why: long})
		d.Flames = append(d.Flames, diagnose.Flame{
			Title: long,
			Unit:  long,
			Root:  &profile.Node{Name: long, Weight: 1},
		})
	}
	if n := len(diagnosed(t, d)); n > 2<<20 {
		t.Errorf("a page of %d bytes", n)
	}
	if len(d.Findings) != 401 || d.Findings[1].Claim != long || len(d.Findings[1].Evidence) != 101 {
		t.Error("the diagnosis itself was changed")
	}
}

func TestAFlameGraphsUnitSuitsItsWeights(t *testing.T) {
	for _, c := range []struct {
		weight     float64
		unit, want string
	}{
		{1.83, "processor seconds a second", "In processor seconds a second; all of it is 1.83."},
		{.00212, "processor seconds a request", "In processor milliseconds a request; all of it is 2.12."},
		{.0000424, "processor seconds a request", "In processor microseconds a request; all of it is 42.4."},
		{.0424, "waits a second", "In waits a second; all of it is 0.0424."},
	} {
		d := healthy()
		d.Flames = []diagnose.Flame{{
			Title: "T",
			Unit:  c.unit,
			Root:  &profile.Node{Name: "all", Weight: c.weight},
		}}
		if page := text(diagnosed(t, d)); !strings.Contains(page, c.want) {
			t.Errorf("%v %s: the page does not say %q", c.weight, c.unit, c.want)
		}
	}
}

func TestAFlameGraphOfNothingIsLeftOut(t *testing.T) {
	d := healthy()
	d.Flames = []diagnose.Flame{{Title: "none"}, {Title: "light", Root: &profile.Node{Name: "all"}}}
	if page := text(diagnosed(t, d)); strings.Contains(page, "Flame graphs") {
		t.Error("there is a section of flame graphs without one")
	}
}

// The colours of a difference differ in lightness too, all one way from less to more, for those who
// see no red or no blue.
func TestFlameGraphsCanBeReadInEveryTheme(t *testing.T) {
	named := regexp.MustCompile(`--([a-z0-9-]+): #([0-9a-f]{6});`)
	for i, block := range regexp.MustCompile(`(?s)\{[^{}]*--paper: #[^{}]*\}`).FindAllString(
		web.Report().Theme, -1,
	) {
		of := map[string]float64{}
		for _, m := range named.FindAllStringSubmatch(block, -1) {
			of[m[1]] = luminance(t, m[2])
		}
		for _, pair := range []struct{ ink, grounds string }{
			{"flame-ink", "flame-own flame-standard flame-runtime faint less3 less2 less1 same more1"}, {"more-ink", "more2 more3"},
		} {
			for _, ground := range strings.Fields(pair.grounds) {
				x, y := of[pair.ink], of[ground]
				if contrast := (max(x, y) + .05) / (min(x, y) + .05); contrast < 4.5 {
					t.Errorf("theme %d: text on %s has a contrast of %.2f, less than 4.5",
						i, ground, contrast)
				}
			}
		}
		steps := strings.Fields("less3 less2 less1 same more1 more2 more3")
		rising := of["more3"] > of["less3"]
		for j := range steps[1:] {
			if a, b := of[steps[j]], of[steps[j+1]]; a == b || b > a != rising {
				t.Errorf("theme %d: the lightness turns between %s and %s", i, steps[j], steps[j+1])
			}
		}
	}
}
