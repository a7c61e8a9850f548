// Package replay sends the requests of an access log again, with the times between them. It reads
// the log while the run goes on, in bounded memory, and gives the generator what it needs: a
// schedule and a script. It must not know how requests are sent, nor what the figures are used for.
//
// A line takes these steps. A source (lines of a log_format, JSON lines, a HAR document) makes a
// record of it. render turns the record into a request, which the project's own HTTP/1.1 parser
// must accept. order puts lines that are a little late back in their place, and spreads those that
// the log's clock cannot distinguish. A feed carries batches of them to each loop. What cannot be
// read is counted and shown, and never guessed.
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

// Options say what of a log is sent, and how fast. The zero value replays a log of a known format
// at its own speed, safe methods only.
type Options struct {
	// Format is "combined", "common", "json", "har", or nginx's log_format, which has a "$". Empty
	// has the first lines tell, which works for the named ones.
	Format string
	// Fields are the names of JSON lines' fields where they are not the usual ones: by "time",
	// "method", "path", "query", "request", "host", "status", "user_agent" and "request_time"
	// (seconds; the log's time then is that of the request's end). A dot leads into an object.
	Fields map[string]string
	// Speed is how much faster than in the log the requests come, 0.001 to 1,000,000; 1. Rate
	// instead chooses the speed at which the mean is that many requests a second, bursts and pauses
	// keeping their shape. It needs to read the log twice, so the log must be a file.
	Speed, Rate float64
	// From and To bound the part of the log that is sent; To itself is not in it.
	From, To Moment
	// Sample sends every Sample-th of the requests that would be sent otherwise, the first among
	// them; 1. Bursts keep their shape.
	Sample int
	// Unsafe sends all methods. Without it only GET, HEAD and OPTIONS are sent, as the others may
	// change what the target keeps. An access log has no bodies, so that they are sent without one;
	// a HAR's are sent.
	Unsafe bool
	// KeepHost sends the log's Host where the line has one. Without it the target's is sent.
	KeepHost bool
	// Hosts, when there are any, are the only hosts whose lines are sent, ports left aside; lines
	// without a host are left out then. A HAR of a page has the requests to all its third parties.
	Hosts []string
	// MaxDuration ends the replay: no request is due after it. 0 means no limit.
	MaxDuration time.Duration
}

// Moment is a time in a log: absolute, or so long after the log's first line. The zero value is
// none.
type Moment struct {
	At    time.Time
	After time.Duration
}

func (m Moment) none() bool { return m.At.IsZero() && m.After == 0 }

// in is the moment in a log that begins at first, in Unix nanoseconds.
func (m Moment) in(first int64) int64 {
	if m.At.IsZero() {
		return first + int64(m.After)
	}
	return m.At.UnixNano()
}

// ParseMoment reads a moment as people write it: 10m, 2026-11-20T08:00:00Z, 2026-11-20 08:00:00
// (UTC), 20/Nov/2026:08:00:00 +0000.
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

// ParseSpeed reads a speed as people write it: 2x, 0.5x, 10.
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

// Log is a log that has been opened, and of which the first lines were looked at. One goroutine
// uses it, once: Start, or Close.
type Log struct {
	name  string
	file  *os.File // nil in tests, which read from memory
	waits bool     // reading may wait for somebody who writes, for ever
	input *hooked
	in    *bufio.Reader
	form  format
	o     Options
	close sync.Once
}

// inputBuffer bounds a line: one that is longer is unreadable. It is also what is read in one go.
const inputBuffer = 64 << 10

// Open opens a log, and says what is wrong with it or with the options. The path "-" is the
// standard input, whose first line it waits for. What begins as gzip does is unpacked.
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

// open looks at the first bytes: packed or not, and which format.
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

// begins is the beginning of the input, with at least one whole line if there is one that is not
// too long; a mark of the byte order is dropped.
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

// Close closes the log, but for standard input, which is not the log's own. A log that was started
// is closed by its source.
func (l *Log) Close() {
	if l.file != nil && l.file != os.Stdin {
		l.close.Do(func() { l.file.Close() })
	}
}

// again goes back to the log's beginning.
func (l *Log) again() error {
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%s cannot be read a second time, which a rate needs: %w", l.name, err)
	}
	return l.open(l.file)
}

// check refuses what makes no sense, whatever the log.
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

// hooked tells of each read before it is made: it may have to wait, so what is ready goes on its
// way first.
type hooked struct {
	in     io.Reader
	before func() error
}

// Read reads.
func (h *hooked) Read(b []byte) (int, error) {
	if h.before != nil {
		if err := h.before(); err != nil {
			return 0, err
		}
	}
	return h.in.Read(b)
}

// longestMeasured bounds the part of a log of which a mean rate is taken. One line with a wrong
// year would else make all the others one burst.
const longestMeasured = 366 * 24 * time.Hour

// measure reads the whole log for the speed at which its mean rate is the one that was asked for.
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
