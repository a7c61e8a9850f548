package record

import (
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"plimsoll/internal/lab/measure"
)

// The bounds of a run. A writer refuses to exceed them, so that a reader can refuse it too: the run
// directory that it opens may come from anywhere.
const (
	maxSteps    = 10_000
	maxWindows  = 100_000   // of one step: seven hours of 250 ms
	maxSamples  = 100_000   // of one step
	maxRequests = 1_000     // kinds of request in a mix
	maxLine     = 1 << 20   // bytes of a line in steps.jsonl, windows.jsonl and samples.jsonl
	maxDocument = 16 << 20  // bytes of run.json and result.json
	maxRun      = 512 << 20 // bytes read of all files of a run
	maxCells    = 32 << 20  // buckets of all histograms of a run; 16 bytes each in memory
)

// The files of a run and of a step.
const (
	manifestFile = "run.json"
	stepsFile    = "steps.jsonl"
	stepsDir     = "steps"
	resultFile   = "result.json"

	windowsFile  = "windows.jsonl"
	responseFile = "response.hlog"
	serviceFile  = "service.hlog"
	lagFile      = "lag.hlog"
	totalsFile   = "totals.hlog"
	samplesFile  = "samples.jsonl"

	profileSuffix = ".pb.gz"
)

// Files are the types of the JSON files, for their schemas: of a whole file, or of a line of it.
func Files() map[string]reflect.Type {
	return map[string]reflect.Type{
		manifestFile: reflect.TypeFor[Manifest](),
		resultFile:   reflect.TypeFor[Result](),
		stepsFile:    reflect.TypeFor[stepLine](),
		windowsFile:  reflect.TypeFor[windowLine](),
		samplesFile:  reflect.TypeFor[measure.Sample](),
	}
}

// stepFiles are the files of a step, in the order of writing.
var stepFiles = []string{windowsFile, responseFile, serviceFile, lagFile, totalsFile, samplesFile}

// stepDir is the folder of a step.
func stepDir(number int) string { return filepath.Join("steps", fmt.Sprintf("%04d", number)) }

// stepLine is a line of steps.jsonl.
type stepLine struct {
	Began     time.Time        `json:"began,omitzero"`
	Plan      measure.StepPlan `json:"plan"`
	Totals    totalsLine       `json:"totals"`
	Windows   int              `json:"windows"` // lines of windows.jsonl and of each HDR log
	Samples   int              `json:"samples"` // lines of samples.jsonl
	Directory string           `json:"directory"`
	Files     []string         `json:"files,omitempty"`
}

// totalsLine is measure.Totals without what an HDR log already holds.
type totalsLine struct {
	measure.Totals
	Response exact         `json:"response"`
	Service  exact         `json:"service"`
	Lag      exact         `json:"lag"`
	Requests []requestLine `json:"requests,omitempty"`
}

// requestLine is measure.RequestTotals in the same way.
type requestLine struct {
	Name     string        `json:"name"`
	Ended    measure.Tally `json:"ended"`
	Response exact         `json:"response"`
}

// windowLine is a line of windows.jsonl.
type windowLine struct {
	measure.Window
	Response exact `json:"response"`
	Service  exact `json:"service"`
	Lag      exact `json:"lag"`
}

// exact holds the values that an HDR log rounds: the sum and the maximum of a histogram, in
// nanoseconds.
type exact struct {
	Sum uint64 `json:"sum_ns"`
	Max int64  `json:"max_ns"`
}

// possible reports whether a histogram can have this maximum.
func (e exact) possible() bool { return e.Max >= 0 && e.Max <= measure.Longest }

func exactOf(s *measure.Sparse) exact { return exact{s.Sum, s.Max} }

func lineOfWindow(w *measure.Window) windowLine {
	return windowLine{*w, exactOf(&w.Response), exactOf(&w.Service), exactOf(&w.Lag)}
}

// window joins the line with its histograms.
func (l *windowLine) window(response, service, lag []measure.Cell) measure.Window {
	w := l.Window
	w.Response = l.Response.sparse(response)
	w.Service = l.Service.sparse(service)
	w.Lag = l.Lag.sparse(lag)
	return w
}

func (e exact) sparse(cells []measure.Cell) measure.Sparse {
	return measure.Sparse{Cells: cells, Sum: e.Sum, Max: e.Max}
}

func lineOfTotals(t *measure.Totals) totalsLine {
	l := totalsLine{*t, exactOf(&t.Response), exactOf(&t.Service), exactOf(&t.Lag), nil}
	for i := range t.Requests {
		r := &t.Requests[i]
		l.Requests = append(l.Requests, requestLine{r.Name, r.Ended, exactOf(&r.Response)})
	}
	return l
}

// totals joins the line with the histograms of totals.hlog, in the order of histogramsOf.
func (l *totalsLine) totals(cells [][]measure.Cell) measure.Totals {
	t := l.Totals
	t.Response = l.Response.sparse(cells[0])
	t.Service = l.Service.sparse(cells[1])
	t.Lag = l.Lag.sparse(cells[2])
	t.Requests = nil
	for i, r := range l.Requests {
		t.Requests = append(t.Requests, measure.RequestTotals{
			Name:     r.Name,
			Ended:    r.Ended,
			Response: r.Response.sparse(cells[3+i]),
		})
	}
	return t
}

// histogramsOf returns the histograms of totals.hlog, in their order, with the tags that identify
// them.
func histogramsOf(t *measure.Totals) (all []*measure.Sparse, tags []string) {
	all = []*measure.Sparse{&t.Response, &t.Service, &t.Lag}
	for i := range t.Requests {
		all = append(all, &t.Requests[i].Response)
	}
	return all, totalTags(len(t.Requests))
}

// totalTags returns the tags of totals.hlog's lines for a mix with the given number of request
// kinds.
func totalTags(requests int) []string {
	tags := []string{"response", "service", "lag"}
	for i := range requests {
		tags = append(tags, fmt.Sprintf("request-%d", i))
	}
	return tags
}
