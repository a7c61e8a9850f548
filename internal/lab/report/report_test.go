package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	escape "html"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/report"
	"plimsoll/web"
)

// evil tries to leave whatever text or attribute it is put into.
const evil = `"'><img src=x onerror="document.documentElement.dataset.pwned=1"></script></title></style><script>document.documentElement.dataset.pwned=1</script>` +
	"<!--<script>-->{{.}}\u2028`${1}`\\"

// hostile is a run whose every text is evil.
func hostile() *record.Run { return saying(evil) }

// saying is a run whose every text is the same.
func saying(text string) *record.Run {
	run := brief().survey()
	m := &run.Manifest
	m.Target, m.Mix, m.Tool, m.Command = text, text, text, []string{"plimsoll", text}
	m.Settings = map[string]string{text: text}
	m.Machine.Host, m.Machine.CPU, m.Machine.OS, m.Machine.Kernel = text, text, text, text
	run.Notes = []string{text}
	r := run.Result
	r.Early, r.Line.Why, r.Peak.Why, r.Collapse.Why, r.Recovery.Why = text, text, text, text, text
	r.Recovery.Recovered, r.Collapse.Found = false, false
	r.NotMeasured = []string{text}
	r.Validity = []record.Validity{{What: text, Why: text}}
	r.Model.Notes = []string{text}
	r.Model.Demands = append(r.Model.Demands, model.Demand{
		Resource: text,
		Unit:     text,
		How:      text,
		Bound:    model.Interval{Low: 1, Estimate: 2, High: 3},
	})
	r.Model.Predictions[0].How = text
	r.Model.Predictions[0].Limit = text
	r.Model.Predictions[0].Misses = text
	r.Model.Checks = []model.Check{{Step: 1, Law: text, Breach: true, Sentence: text}}
	for i := range r.Judgements {
		r.Judgements[i].Why = text
	}
	for i := range run.Steps {
		s := &run.Steps[i]
		s.Plan.Why, s.Plan.Phase = text, text
		s.Totals.Examples["timeout"] = text
		s.Totals.Requests = []measure.RequestTotals{{
			Name:     text,
			Ended:    s.Totals.Ended,
			Response: s.Totals.Response,
		}}
	}
	return run
}

// brief is the plain one with steps of two seconds, for tests that do not look at figures.
func brief() shop {
	s := plain()
	s.length = 2 * time.Second
	return s
}

// faster is a service that does a tenth more.
func faster() shop {
	s := plain()
	s.seed, s.service = 8, 1818*time.Microsecond
	return s
}

// lacking are runs that lack one thing or another.
func lacking() map[string]*record.Run {
	all := map[string]*record.Run{"nothing at all": {}}
	early := brief().survey()
	early.Result, early.Steps, early.Notes = nil, early.Steps[:3], []string{
		"the run was cut off after step 3",
	}
	all["cut off"] = early
	lost := plain().survey()
	lost.Result.Line = record.Line{Why: "above 2600, where the generator was the limit"}
	lost.Result.Model = model.Model{}
	lost.Result.Peak = record.Collapse{Why: "goodput still rose"}
	lost.Result.Collapse = record.Collapse{}
	lost.Steps[10].Totals.Generator.Invalid = "its busiest loop was at work 97 % of the time"
	lost.Result.Judgements[10].Verdict = record.Invalid
	all["no line"] = lost
	bare := brief().survey()
	for i := range bare.Steps {
		bare.Steps[i].Samples, bare.Steps[i].Windows = nil, nil
	}
	all["no windows"] = bare
	dead := brief().survey()
	dead.Steps = dead.Steps[:1]
	s := &dead.Steps[0]
	s.Totals.Ended = measure.Tally{measure.ConnectFailed: 100}
	s.Totals.Response, s.Windows = measure.Sparse{}, nil
	all["nothing answered"] = dead
	single := plain().survey()
	single.Manifest.Kind, single.Result, single.Steps = "load", nil, single.Steps[4:5]
	all["one load"] = single
	closed := plain().survey()
	closed.Manifest.Kind, closed.Result, closed.Steps = "load", nil, closed.Steps[4:5]
	closed.Steps[0].Plan.Rate = 0
	all["closed loop"] = closed
	return all
}

func TestTheVerdictComesFirstAndIsASentence(t *testing.T) {
	page := text(html(t, plain().survey()))
	want := "This service carries 1,905 requests a second (1,880–1,930, 95 %) " +
		"at p99\u00a0<\u00a050ms and errors\u00a0<\u00a00.1%."
	at := strings.Index(page, want)
	if at < 0 || at > strings.Index(page, "Peak goodput") {
		t.Errorf("the page does not begin with %q: %.600s", want, page)
	}
}

func TestAnUndecidedStepThatHeldSoFarIsShownAsThat(t *testing.T) {
	run := plain().survey()
	before := strings.Count(text(html(t, run)), string(record.SoFar))
	first := &run.Result.Judgements[0]
	if first.Verdict != record.Pass {
		t.Fatalf("the first step is judged %s", first.Verdict)
	}
	first.Verdict = record.Undecided
	if after := strings.Count(text(html(t, run)), string(record.SoFar)); after <= before {
		t.Errorf("with one more of them %q is there %d times, without it %d times", record.SoFar, after, before)
	}
}

var tags = regexp.MustCompile(`(?s)<style>.*?</style>|<script.*?</script>|<[^>]*>`)

// text is what a person reads of a page.
func text(page []byte) string {
	return strings.Join(
		strings.FieldsFunc(escape.UnescapeString(string(tags.ReplaceAll(page, []byte(" ")))),
			func(r rune) bool { return r == ' ' || r == '\n' }),
		" ",
	)
}

func TestARunWithoutALineSaysWhatIsKnown(t *testing.T) {
	runs := lacking()
	for name, want := range map[string][]string{
		"no line": {
			"The load line was not found.",
			"Above 2600, where the generator was the limit.",
			"The highest rate that passed is 1,900 requests a second, " +
				"the lowest that failed 2,000.",
			"INVALID",
		},
		"cut off":          {"cut off before it had a result", "the run was cut off after step 3"},
		"nothing answered": {"connect failed", "100 %"},
		"one load":         {"This service was offered 1,000 requests a second for 10 s; "},
		"closed loop":      {"In a closed loop over 64 connections this service answered 99"},
		"nothing at all":   {"Nothing measured"},
	} {
		page := text(html(t, runs[name]))
		for _, w := range want {
			if !strings.Contains(page, w) {
				t.Errorf("%s: the page does not say %q: %.900s", name, w, page)
			}
		}
	}
}

func TestAReportIsSmall(t *testing.T) {
	if n := len(html(t, plain().survey())); n > 500_000 {
		t.Errorf("%d bytes for twelve steps, more than 500,000", n)
	}
}

func TestTextsOfTheRunCannotLeaveTheirPlace(t *testing.T) {
	var compared bytes.Buffer
	if err := report.Compare(&compared, hostile(), brief().survey()); err != nil {
		t.Fatal(err)
	}
	clean := strings.Count(string(html(t, brief().survey())), "<script")
	for name, page := range map[string]string{
		"report":     string(html(t, hostile())),
		"comparison": compared.String(),
	} {
		for _, broken := range []string{"<img", "onerror=\"document", "<!--"} {
			if body := page[strings.Index(page, "<body"):]; strings.Contains(strings.Replace(body,
				web.Report().Script, "", 1), broken) {
				t.Errorf("%s: %q is on the page as it is", name, broken)
			}
		}
		if n := strings.Count(page, "<script"); n != clean {
			t.Errorf("%s: %d scripts, a harmless run has %d", name, n, clean)
		}
	}
}

func TestTheDataOnThePageIsTheRunsJSON(t *testing.T) {
	run := hostile()
	_, after, _ := strings.Cut(string(html(t, run)), `<script type="application/json" id="data">`)
	raw, _, _ := strings.Cut(after, "</script>")
	if strings.ContainsAny(raw, "<>\u2028") {
		t.Error("the data holds what may end its element")
	}
	var got report.Data
	if err := json.Unmarshal([]byte(raw), &got); err != nil {
		t.Fatal(err)
	}
	if got.Manifest.Target != evil || len(got.Steps) != len(run.Steps) ||
		got.Result.Line.Interval != run.Result.Line.Interval {
		t.Error("the data on the page is not that of the run")
	}
}

func TestWithoutAFrontEndThePageSaysSoAndHasAllFigures(t *testing.T) {
	var out bytes.Buffer
	if err := report.WriteWith(&out, plain().survey(), nil, web.Assets{
		Theme: web.Report().Theme,
	}); err != nil {
		t.Fatal(err)
	}
	page := text(out.Bytes())
	for _, want := range []string{
		"Charts are missing: this binary was built without the front end; run make web", "1,905",
		"Bound set by workers", "Raw numbers", "refine",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(out.String(), "data-chart") ||
		!strings.Contains(out.String(), "script-src &#39;none&#39;") {
		t.Error("a page without charts has places for them, or may run scripts")
	}
}

func TestNothingOnThePageIsFetched(t *testing.T) {
	page := string(html(t, plain().survey()))
	page = strings.ReplaceAll(page, web.Report().Script, "")
	if found := regexp.MustCompile(`(src|href)="?(https?:|//)|url\(|@import`).FindString(page); found != "" {
		t.Errorf("the page asks for something: %s", found)
	}
	if !strings.Contains(page, "default-src &#39;none&#39;") {
		t.Error("no policy that forbids it")
	}
}

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	run := brief().survey()
	run.Result.Line.Interval.High = math.NaN()
	if err := report.Write(io.Discard, run, nil); err == nil ||
		!strings.Contains(err.Error(), "JSON") {
		t.Errorf("a run with a NaN: %v", err)
	}
	if err := report.Write(full{}, brief().survey(), nil); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}

var errFull = errors.New("no space left on device")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var colour = regexp.MustCompile(`--([a-z0-9]+): #([0-9a-f]{6});`)

// luminance is that of WCAG 2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	v, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatalf("no colour %q", hex)
	}
	linear := func(c uint64) float64 {
		s := float64(c&255) / 255
		if s <= .03928 {
			return s / 12.92
		}
		return math.Pow((s+.055)/1.055, 2.4)
	}
	return .2126*linear(v>>16) + .7152*linear(v>>8) + .0722*linear(v)
}

func TestTextCanBeReadInEveryTheme(t *testing.T) {
	themes := 0
	for _, block := range regexp.MustCompile(`(?s)\{[^{}]*--paper: #[^{}]*\}`).FindAllString(
		web.Report().Theme, -1,
	) {
		themes++
		of := map[string]string{}
		for _, m := range colour.FindAllStringSubmatch(block, -1) {
			of[m[1]] = m[2]
		}
		for _, name := range []string{
			"ink", "muted", "accent", "pass", "fail", "undecided", "invalid", "p90", "p99", "p999",
			"a", "b",
		} {
			for _, ground := range []string{"card", "paper"} {
				x, y := luminance(t, of[name]), luminance(t, of[ground])
				contrast := (max(x, y) + .05) / (min(x, y) + .05)
				if contrast < 4.5 && (ground == "card" || name == "ink" || name == "muted") {
					t.Errorf("theme %d: %s on %s has a contrast of %.2f, less than 4.5",
						themes, name, ground, contrast)
				}
			}
		}
	}
	if themes != 3 {
		t.Errorf("%d themes, not light, dark, and dark by choice", themes)
	}
}
