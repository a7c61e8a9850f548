package record

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"plimsoll/internal/lab/measure"
)

// The geometry of every written histogram. It is that of measure.Histogram, bucket by bucket.
const (
	hdrLowest = 1
	hdrDigits = 2
)

// maxInterval is the largest line of an HDR log: each bucket may take nine bytes before compression
// and base64.
const maxInterval = 64 << 10

// interval is one line of an HDR log.
type interval struct {
	start, length int64 // nanoseconds since the log's start
	tag           string
	histogram     *measure.Sparse
}

// WriteHDR writes an HdrHistogram log (format 1.3) with a histogram for each window. which selects
// it, for example the response times. began is the wall-clock start of the step; the zero time
// omits it. Times in the log are milliseconds, values are nanoseconds.
func WriteHDR(
	w io.Writer, began time.Time, windows []measure.Window,
	which func(w *measure.Window) *measure.Sparse,
) error {
	all := make([]interval, len(windows))
	for i := range windows {
		all[i] = interval{windows[i].Start, windows[i].Length, "", which(&windows[i])}
	}
	return writeHDR(w, began, all)
}

func writeHDR(w io.Writer, began time.Time, all []interval) error {
	out := hdrhistogram.NewHistogramLogWriter(w)
	if err := out.OutputComment("[Logged by plimsoll; values are nanoseconds, " +
		"times since the step's start]"); err != nil {
		return err
	}
	if err := out.OutputLogFormatVersion(); err != nil {
		return err
	}
	if !began.IsZero() {
		if err := out.OutputStartTime(began.UnixMilli()); err != nil {
			return err
		}
	}
	if err := out.OutputLegend(); err != nil {
		return err
	}
	for _, i := range all {
		h, err := packed(i.histogram)
		if err != nil {
			return err
		}
		h.SetTag(i.tag)
		h.SetStartTimeMs(i.start / 1e6)
		h.SetEndTimeMs((i.start + i.length) / 1e6)
		if err := out.OutputIntervalPackedHistogram(h); err != nil {
			return err
		}
	}
	return nil
}

// packed converts a histogram to the library's type, which has the same buckets.
func packed(s *measure.Sparse) (*hdrhistogram.PackedHistogram, error) {
	h := hdrhistogram.NewPacked(hdrLowest, measure.Longest, hdrDigits)
	for _, c := range s.Cells {
		if c.Count > math.MaxInt64 {
			return nil, fmt.Errorf("a histogram's bucket %d holds %d durations, "+
				"more than an HDR log can say", c.Bucket, c.Count)
		}
		lowest, _ := measure.Bounds(int(c.Bucket))
		if err := h.RecordValues(lowest, int64(c.Count)); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// readInterval parses a line of an HDR log into its tag and buckets. ok is false for a line without
// a histogram.
func readInterval(line []byte) (tag string, cells []measure.Cell, ok bool, err error) {
	if len(line) == 0 || line[0] == '#' || line[0] == '"' {
		return "", nil, false, nil
	}
	fields := bytes.Split(line, []byte(","))
	if rest, tagged := bytes.CutPrefix(fields[0], []byte("Tag=")); tagged {
		tag = string(rest)
		fields = fields[1:]
	}
	if len(fields) != 4 {
		return "", nil, false, fmt.Errorf("a histogram's line has start, length, "+
			"maximum and histogram, and this one %d fields", len(fields))
	}
	if err := checkGeometry(fields[3]); err != nil {
		return "", nil, false, err
	}
	h, err := hdrhistogram.DecodePacked(fields[3])
	if err != nil {
		return "", nil, false, err
	}
	cells = make([]measure.Cell, 0, h.Populated())
	at := 0
	var total uint64
	for value, count := range h.ForEachBucket {
		if value > measure.Longest {
			return "", nil, false, fmt.Errorf("a histogram counts durations over %v",
				time.Duration(measure.Longest))
		}
		for _, highest := measure.Bounds(at); highest < value; _, highest = measure.Bounds(at) {
			at++
		}
		cells = append(cells, measure.Cell{Bucket: uint16(at), Count: uint64(count)})
		if total += uint64(count); total > math.MaxInt64 {
			return "", nil, false, errors.New("a histogram's counts are too large to add up")
		}
	}
	return tag, cells, true, nil
}

// checkGeometry checks a histogram's header before the library sees the rest: a header that claims
// other buckets than ours could make the library allocate 50 MB for a line of 64 KB.
func checkGeometry(payload []byte) error {
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(payload)))
	n, err := base64.StdEncoding.Decode(raw, payload)
	if err != nil {
		return err
	}
	const outer = 8 // cookie and length, before the compressed part
	if n < outer {
		return errors.New("a histogram is cut off")
	}
	z, err := zlib.NewReader(bytes.NewReader(raw[outer:n]))
	if err != nil {
		return err
	}
	defer z.Close()
	var header [hdrhistogram.ENCODING_HEADER_SIZE]byte
	if _, err := io.ReadFull(z, header[:]); err != nil {
		return fmt.Errorf("a histogram is cut off: %w", err)
	}
	digits := binary.BigEndian.Uint32(header[12:])
	lowest, highest := binary.BigEndian.Uint64(header[16:]), binary.BigEndian.Uint64(header[24:])
	if digits != hdrDigits || lowest != hdrLowest || highest != measure.Longest {
		return fmt.Errorf("a histogram goes from %d to %d with %d digits, "+
			"and not from %d to %d with %d",
			lowest, highest, digits, hdrLowest, int64(measure.Longest), hdrDigits)
	}
	return nil
}
