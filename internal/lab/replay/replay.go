// Package replay replays the requests of an access log, with the times between them. It reads the
// log during the run, in bounded memory, and gives the generator a schedule and a script. It must
// not know how requests are sent, nor what the results are used for.
//
// A line takes these steps. A source (lines of a log_format, JSON lines, a HAR document) makes a
// record from it. render turns the record into a request, which the project's own HTTP/1.1 parser
// must accept. order puts lines that are a little late back in their place, and spreads lines that
// the log's clock cannot distinguish. A feed carries batches of requests to each loop. Lines that
// cannot be read are counted and shown, and never guessed.
package replay

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options say which requests of a log are sent, and how fast. The zero value replays a log of a
// known format at its own speed, with safe methods only.
type Options struct {
	// Format is "combined", "common", "json", "har", or an nginx log_format, which contains a "$".
	// If empty, it is guessed from the first lines, which works for the named formats.
	Format string
	// Fields are the names of JSON lines' fields if they are not the usual ones. The keys are
	// "time", "method", "path", "query", "request", "host", "status", "user_agent" and
	// "request_time" (in seconds; the log's time is then that of the request's end). A dot leads
	// into an object.
	Fields map[string]string
	// Speed is how much faster than in the log the requests come, 0.001 to 1,000,000; the default
	// is 1. Rate chooses the speed instead, so that the mean is that many requests a second; bursts
	// and pauses keep their shape. For a rate the log is read twice, so it must be a file.
	Speed, Rate float64
	// From and To bound the part of the log that is sent; To is exclusive.
	From, To Moment
	// Sample sends every Sample-th of the remaining requests, beginning with the first; the default
	// is 1. Bursts keep their shape.
	Sample int
	// Unsafe sends all methods. If false, only GET, HEAD and OPTIONS are sent, because others may
	// change the target's data. An access log has no bodies, so requests from it are sent without
	// one; bodies in a HAR are sent.
	Unsafe bool
	// KeepHost sends the log's Host if the line has one. Otherwise the target's is sent.
	KeepHost bool
	// Hosts are the only hosts whose lines are sent, regardless of ports; empty for all. With
	// Hosts, lines without a host are skipped. A HAR of a page includes requests to all its third
	// parties.
	Hosts []string
	// MaxDuration ends the replay: no request is due after it. 0 for no limit.
	MaxDuration time.Duration
}

// Moment is a time in a log: absolute, or relative to the log's first line. The zero value means
// none.
type Moment struct {
	At    time.Time
	After time.Duration
}

func (m Moment) none() bool { return m.At.IsZero() && m.After == 0 }

// in is the moment's time in a log whose first line is at first, in Unix nanoseconds.
func (m Moment) in(first int64) int64 {
	if m.At.IsZero() {
		return first + int64(m.After)
	}
	return m.At.UnixNano()
}

// ParseMoment parses a moment such as 10m, 2026-11-20T08:00:00Z, 2026-11-20 08:00:00 (UTC) or
// 20/Nov/2026:08:00:00 +0000.
func ParseMoment(text string) (Moment, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return Moment{After: d}, nil
	}
	if s, ok := parseStamp([]byte(text)); ok && len(text) >= len("2006-01-02T15:04:05") {
		return Moment{At: time.Unix(0, s.at).UTC()}, nil
	}
	return Moment{}, fmt.Errorf("%q is not a moment of a log: "+
		"give the time since its first line, as 10m, or a time, as 2026-11-20T08:00:00Z", text)
}

// ParseSpeed parses a speed such as 2x, 0.5x or 10.
func ParseSpeed(text string) (float64, error) {
	speed, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	if err != nil || !(speed >= slowest && speed <= fastest) {
		return 0, fmt.Errorf("%q is not a multiple of the log's speed: give one from %vx to %dx, "+
			"such as 2x", text, slowest, fastest)
	}
	return speed, nil
}

// slowest and fastest bound the speed, as a multiple of the log's.
const slowest, fastest = 0.001, 1_000_000

// Log is an open log whose first lines have been read. One goroutine uses it, and calls Start or
// Close once.
type Log struct {
	name  string
	file  *os.File // nil in tests, which read from memory
	waits bool     // reading may wait forever for a writer
	input *hooked
	in    *bufio.Reader
	form  format
	o     Options
	close sync.Once
}

// inputBuffer is the longest readable line, and the size of one read.
const inputBuffer = 64 << 10

// Open opens a log. It returns an error if the log or the options are wrong. The path "-" is
// standard input; Open waits for its first line. A log that starts like gzip is decompressed.
func Open(path string, o Options) (*Log, error) {
	if err := o.check(path); err != nil {
		return nil, err
	}
	name, file := path, os.Stdin
	if path == "-" {
		name = "standard input"
	} else {
		var err error
		if file, err = os.Open(path); err != nil {
			return nil, fmt.Errorf("the log cannot be opened: %w", err)
		}
	}
	l := &Log{name: name, file: file, o: o}
	if err := l.regular(); err != nil {
		l.Close()
		return nil, err
	}
	if err := l.open(file); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// regular refuses what is not a log, and a rate for a log that can be read only once.
func (l *Log) regular() error {
	info, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("the log cannot be read: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a folder: name the log file in it", l.name)
	}
	if l.waits = !info.Mode().IsRegular(); l.waits && l.o.Rate > 0 {
		return fmt.Errorf("a rate needs the log's own mean rate, and %s can be read only once: "+
			"give a file, or a speed instead", l.name)
	}
	return nil
}

// open looks at the first bytes: compressed or not, and which format.
func (l *Log) open(r io.Reader) error {
	l.input = &hooked{in: r}
	l.in = bufio.NewReaderSize(l.input, inputBuffer)
	magic, err := l.in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s cannot be read: %w", l.name, err)
	}
	if string(magic) == "\x1f\x8b" {
		unpacked, err := gzip.NewReader(l.in)
		if err != nil {
			return fmt.Errorf("%s begins as gzip does and is not valid gzip: %w", l.name, err)
		}
		l.input = &hooked{in: unpacked}
		l.in = bufio.NewReaderSize(l.input, inputBuffer)
	}
	begin, err := begins(l.in)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", l.name, err)
	}
	if l.form, err = choose(begin, &l.o); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}

// begins returns the beginning of the input, with at least one whole line unless that is too long.
// It drops a byte order mark.
func begins(in *bufio.Reader) ([]byte, error) {
	if b, _ := in.Peek(3); string(b) == "\xef\xbb\xbf" {
		in.Discard(3)
	}
	for n := 1; ; n = in.Buffered() + 1 {
		b, err := in.Peek(min(n, inputBuffer))
		if len(b) < in.Buffered() {
			b, _ = in.Peek(in.Buffered())
		}
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case err != nil, len(b) == inputBuffer, hasLine(b):
			return b, nil
		}
	}
}

// Close closes the log, but not standard input, which the log does not own. A started log is closed
// by its source.
func (l *Log) Close() {
	if l.file != nil && l.file != os.Stdin {
		l.close.Do(func() { l.file.Close() })
	}
}

// again returns to the log's beginning.
func (l *Log) again() error {
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%s cannot be read a second time, which a rate needs: %w", l.name, err)
	}
	return l.open(l.file)
}

// check refuses options that make no sense for any log.
func (o *Options) check(path string) error {
	switch {
	case o.Speed != 0 && !(o.Speed >= slowest && o.Speed <= fastest):
		return fmt.Errorf("a speed of %v: it is between %v and %d times the log's",
			o.Speed, slowest, fastest)
	case o.Rate != 0 && !(o.Rate > 0 && o.Rate <= 1e8):
		return fmt.Errorf("a rate of %v: it must be above 0 and at most 100000000 requests a second",
			o.Rate)
	case o.Rate != 0 && o.Speed != 0:
		return errors.New("a speed and a rate: give one of them")
	case o.Rate != 0 && path == "-":
		return errors.New("a rate needs the log's own mean rate, and standard input can be read " +
			"only once: give a file, or a speed instead")
	case o.Sample < 0:
		return fmt.Errorf("a sample of %d: every N-th line is sent, so it is 1 or more", o.Sample)
	case o.MaxDuration < 0:
		return fmt.Errorf("a duration of %v: it is above 0", o.MaxDuration)
	case !o.From.At.IsZero() && !o.To.At.IsZero() && !o.From.At.Before(o.To.At),
		o.From.At.IsZero() && o.To.At.IsZero() && o.To.After != 0 && o.From.After >= o.To.After:
		return errors.New("the part of the log ends before it begins: " +
			"the end must be later than the beginning")
	}
	return nil
}

// hooked calls before ahead of each read. The read may have to wait, so the requests that are ready
// are sent on first.
type hooked struct {
	in     io.Reader
	before func() error
}

// Read implements io.Reader.
func (h *hooked) Read(b []byte) (int, error) {
	if h.before != nil {
		if err := h.before(); err != nil {
			return 0, err
		}
	}
	return h.in.Read(b)
}

// longestMeasured bounds the part of a log for which a mean rate is computed. Without it, one line
// with a wrong year would turn all other lines into one burst.
const longestMeasured = 366 * 24 * time.Hour

// measure reads the whole log and returns the speed at which its mean rate is the requested one.
func (l *Log) measure(ctx context.Context) (speed float64, err error) {
	r := newReader(l, "localhost", nil)
	l.input.before = ctx.Err
	var first, last int64 = math.MaxInt64, math.MinInt64
	if err := r.each(func(it *item) error {
		first, last = min(first, it.at), max(last, it.at)
		return nil
	}); err != nil {
		return 0, err
	}
	if r.stats.Arrivals == 0 {
		return 0, r.nothing()
	}
	if last-first > int64(longestMeasured) {
		return 0, fmt.Errorf("%s goes from %s to %s, and the mean rate of more than a year says "+
			"nothing: give a part of it with --from and --to, or a speed",
			l.name, time.Unix(0, first).UTC().Format(time.DateTime),
			time.Unix(0, last).UTC().Format(time.DateTime))
	}
	span := last - first + r.unit
	mean := float64(r.stats.Arrivals) / (float64(span) / 1e9)
	return l.o.Rate / mean, l.again()
}
