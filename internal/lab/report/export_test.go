package report

import (
	"io"

	"plimsoll/internal/lab/record"
	"plimsoll/web"
)

// WriteWith is Write with another front end.
func WriteWith(w io.Writer, run *record.Run, front web.Assets) error {
	d := MakeData(run)
	return write(w, "run", makeView(run, d), d, front)
}
