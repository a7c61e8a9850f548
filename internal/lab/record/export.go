package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"plimsoll/internal/lab/disk"
	"plimsoll/internal/lab/model"
)

// exported is the load line for other programs. docs/run-directory.md lists the keys; one that is
// there keeps its meaning within a schema_version.
type exported struct {
	SchemaVersion int          `json:"schema_version"`
	Tool          string       `json:"tool"`
	Target        string       `json:"target"`
	SLO           string       `json:"slo,omitempty"`
	Mix           string       `json:"mix,omitempty"`
	MeasuredAt    time.Time    `json:"measured_at"`
	Line          exportedLine `json:"line"`
	Peak          exportedPeak `json:"peak"`
	// Early is why the run ended before it was done.
	Early string `json:"early,omitempty"`
}

// exportedLine has no rate when it was not found.
type exportedLine struct {
	Found bool            `json:"found"`
	Rate  *model.Interval `json:"rate_per_second,omitempty"`
	Why   string          `json:"why,omitempty"`
}

// exportedPeak is the highest goodput, and the offered rates between which it was reached.
type exportedPeak struct {
	Found   bool            `json:"found"`
	Goodput float64         `json:"goodput_per_second,omitempty"`
	Rate    *model.Interval `json:"rate_per_second,omitempty"`
}

func intervalOf(found bool, i model.Interval) *model.Interval {
	if !found {
		return nil
	}
	return &i
}

// Export is the run's load line as a small JSON document, for programs that act on it. A run
// without a result has none.
func Export(r *Run) ([]byte, error) {
	if r.Result == nil {
		return nil, fmt.Errorf("the run in %s has no load line to export: "+
			"it was cut off before it had a result", r.Dir)
	}
	text, err := disk.Encode(exported{
		SchemaVersion: SchemaVersion,
		Tool:          r.Manifest.Tool,
		Target:        r.Manifest.Target,
		SLO:           r.Manifest.SLO,
		Mix:           r.Manifest.Mix,
		MeasuredAt:    r.Result.Ended.UTC(),
		Early:         r.Result.Early,
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
