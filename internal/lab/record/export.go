package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"plimsoll/internal/lab/disk"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
)

// LineFile is the load line for other programs, as survey --export writes it. docs/run-directory.md
// lists the keys. An existing key keeps its meaning within a schema_version.
type LineFile struct {
	SchemaVersion int          `json:"schema_version"`
	Tool          string       `json:"tool"`
	Target        string       `json:"target"`
	SLO           string       `json:"slo,omitempty"`
	Mix           string       `json:"mix,omitempty"`
	MeasuredAt    time.Time    `json:"measured_at"`
	Machine       exportedHost `json:"machine"`
	// Uncrowded is the mean time of a request that found no other in flight when it was sent. It
	// identifies this service and this mix.
	Uncrowded float64      `json:"uncrowded_seconds,omitempty"`
	Line      exportedLine `json:"line"`
	Peak      exportedPeak `json:"peak"`
	// Early is why the run ended before it was done.
	Early string `json:"early,omitempty"`
}

// exportedLine has no rate if the line was not found.
type exportedLine struct {
	Found bool            `json:"found"`
	Rate  *model.Interval `json:"rate_per_second,omitempty"`
	Why   string          `json:"why,omitempty"`
}

// exportedPeak is the highest goodput, and the interval of offered rates where it was reached.
type exportedPeak struct {
	Found   bool            `json:"found"`
	Goodput float64         `json:"goodput_per_second,omitempty"`
	Rate    *model.Interval `json:"rate_per_second,omitempty"`
}

// exportedHost describes the machine of the survey.
type exportedHost struct {
	Host        string `json:"host"`
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	TargetLocal bool   `json:"target_local"`
}

// uncrowded is the mean time in seconds of the requests that found no other in flight; 0 if there
// are too few.
func uncrowded(steps []measure.Step) float64 {
	const fewest = 100
	var count uint64
	sum := 0.0
	for i := range steps {
		s := &steps[i]
		if met := s.Totals.ConcurrencyAtSend; s.Plan.Rate > 0 && len(met) > 0 && met[0].Found == 0 {
			count, sum = count+met[0].Count, sum+met[0].Sum
		}
	}
	if count < fewest {
		return 0
	}
	return sum / float64(count) / 1e9
}

func intervalOf(found bool, i model.Interval) *model.Interval {
	if !found {
		return nil
	}
	return &i
}

// Export is the run's load line as a small JSON document, for programs that act on it. It fails if
// the run has no result.
func Export(r *Run) ([]byte, error) {
	if r.Result == nil {
		return nil, fmt.Errorf("the run in %s has no load line to export: "+
			"it was cut off before it had a result", r.Dir)
	}
	text, err := disk.Encode(LineFile{
		SchemaVersion: SchemaVersion,
		Tool:          r.Manifest.Tool,
		Target:        r.Manifest.Target,
		SLO:           r.Manifest.SLO,
		Mix:           r.Manifest.Mix,
		MeasuredAt:    r.Result.Ended.UTC(),
		Machine: exportedHost{
			r.Manifest.Machine.Host, r.Manifest.Machine.CPU, r.Manifest.Machine.Cores,
			r.Manifest.Machine.TargetLocal,
		},
		Uncrowded: uncrowded(r.Steps),
		Early:     r.Result.Early,
		Line: exportedLine{
			r.Result.Line.Found,
			intervalOf(r.Result.Line.Found, r.Result.Line.Interval),
			r.Result.Line.Why,
		},
		Peak: exportedPeak{
			r.Result.Peak.Found,
			r.Result.Peak.Goodput,
			intervalOf(r.Result.Peak.Found, r.Result.Peak.Rate),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("the load line cannot be exported: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
