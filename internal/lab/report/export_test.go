package report

import (
	"encoding/json"
	"io"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/record"
	"plimsoll/web"
)

// WriteWith is Write with another front end.
func WriteWith(
	w io.Writer, run *record.Run, diagnosis *diagnose.Diagnosis, front web.Assets,
) error {
	return writeRun(w, run, diagnosis, front)
}

// Compact is the JSON of flame graphs as a page holds it.
func Compact(flames []diagnose.Flame) string {
	text, err := json.Marshal(makeFlames(flames))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
