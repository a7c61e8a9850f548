package report

import (
	"fmt"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/profile"
)

// Bounds that keep a diagnosis readable in a page.
const (
	mostFindings = 50
	mostFacts    = 30 // in each list of a finding
)

// DiagnosisView is a diagnosis in words.
type DiagnosisView struct {
	First     string // the bottleneck; "" if unknown
	FirstWhy  string
	Spenders  []SpenderView
	Kernel    []diagnose.Fact
	Findings  []FindingView
	HeldBack  []diagnose.HeldBack
	NotJudged []diagnose.NotJudged
}

// FindingView is a finding in words. Its texts are the finding's, cut to the bounds of a page.
type FindingView struct {
	diagnose.Finding
	Number     int
	Tone, Says string // the mark of its rank, and what the rank means
	Sure       string
	Places     []PlaceView
	Expected   string // the expected line, and the reason
	Why        string
}

// PlaceView is a place in the code: "cart/cart.go:41".
type PlaceView struct{ Function, At, Share string }

// SpenderView is a function that uses processor time.
type SpenderView struct{ Function, At, Share, PerRequest, AtHalf string }

// few returns the beginning of a list.
func few[T any](list []T, most int) []T { return list[:min(len(list), most)] }

// boundedDiagnosis is a diagnosis without its flame graphs, cut to the bounds of a page.
func boundedDiagnosis(d *diagnose.Diagnosis) *diagnose.Diagnosis {
	short := *d
	short.Flames = nil
	short.Findings = append([]diagnose.Finding(nil), few(d.Findings, mostFindings)...)
	for i := range short.Findings {
		f := &short.Findings[i]
		f.Evidence, f.Against = few(f.Evidence, mostFacts), few(f.Against, mostFacts)
		f.Where, f.Advice = few(f.Where, mostFacts), few(f.Advice, mostFacts)
	}
	short.First.Where, short.Kernel = few(d.First.Where, mostFacts), few(d.Kernel, mostFacts)
	short.HeldBack, short.NotJudged = few(d.HeldBack, mostFindings), few(d.NotJudged, mostFindings)
	left := mostTexts
	short = bounded(short, &left)
	return &short
}

// diagnosisView describes a bounded diagnosis in words. line is the measured load line, 0 if there
// is none.
func diagnosisView(d *diagnose.Diagnosis, line float64) *DiagnosisView {
	v := &DiagnosisView{
		Kernel:    d.Kernel,
		HeldBack:  d.HeldBack,
		NotJudged: d.NotJudged,
		FirstWhy:  sentence(d.First.Why),
	}
	if what := d.First.What; what != "" && what != "unknown" {
		v.First = what
		if d.First.Share > 0 {
			v.First += ", " + format.Percent(d.First.Share) + " in use at the line"
		}
	}
	for _, s := range d.First.Where {
		at, half := placeView(s.Place), "not known"
		if s.AtHalf > 0 {
			half = format.Duration(s.AtHalf * 1e9)
		}
		v.Spenders = append(v.Spenders, SpenderView{
			s.Function, at.At, format.Percent(s.Share), format.Duration(s.PerRequest * 1e9), half,
		})
	}
	for i, f := range d.Findings {
		one := FindingView{
			Finding:  f,
			Number:   i + 1,
			Sure:     sure(f.Confidence),
			Expected: expected(f.Gain, line),
			Why:      sentence(f.Gain.Why),
		}
		one.Tone, one.Says = rank(f.Rank)
		for _, at := range f.Where {
			one.Places = append(one.Places, placeView(at))
		}
		v.Findings = append(v.Findings, one)
	}
	return v
}

func rank(r diagnose.Rank) (tone, says string) {
	switch r {
	case diagnose.Reach:
		return "fail", "Hides the load line"
	case diagnose.Binding:
		return "fail", "Sets the load line"
	case diagnose.Cost:
		return "undecided", "Raises the cost per request"
	}
	return "none", "A risk; it does not set the line"
}

// sure writes a confidence in words and as a number.
func sure(confidence float64) string {
	word := "possible"
	switch {
	case confidence >= .95:
		word = "almost certain"
	case confidence >= .8:
		word = "very likely"
	case confidence >= .6:
		word = "likely"
	}
	return word + " (" + format.Confidence(confidence) + ")"
}

// expected says what the line should become.
func expected(g diagnose.Gain, line float64) string {
	if g.Factor <= 0 {
		return ""
	}
	if g.Factor == 1 {
		return "The line is not expected to move."
	}
	text := "The line is expected to become " + short(g.Factor) + " times what it is"
	if line > 0 {
		text += ", " + number(line*g.Factor) + " requests a second"
	}
	if g.Low > 0 && g.High > g.Low {
		text += fmt.Sprintf(" (%s to %s times", short(g.Low), short(g.High))
		if line > 0 {
			text += fmt.Sprintf(", %s–%s", number(line*g.Low), number(line*g.High))
		}
		text += ")"
	}
	return text + "."
}

func placeView(at profile.Place) PlaceView {
	v := PlaceView{Function: at.Function, At: at.At()}
	if at.Share > 0 {
		v.Share = format.Percent(at.Share) + " " + at.Of
	}
	return v
}
