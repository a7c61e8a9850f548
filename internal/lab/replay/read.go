package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Stats says what happened to the log's lines. Each line counts once: Lines = Blank + Unreadable +
// SkippedRange + SkippedHost + SkippedUnsafe + SkippedSampled + Arrivals.
type Stats struct {
	Lines uint64 `json:"lines"` // lines read; for a HAR, entries
	Blank uint64 `json:"blank"`
	// Unreadable lines could not be understood for certain, or ask for something that is not a
	// valid request. Examples shows the first few, with the reasons.
	Unreadable     uint64 `json:"unreadable"`
	SkippedRange   uint64 `json:"skipped_range"` // before From, or from To on
	SkippedHost    uint64 `json:"skipped_host"`
	SkippedUnsafe  uint64 `json:"skipped_unsafe"`
	SkippedSampled uint64 `json:"skipped_sampled"`
	// Arrivals are the requests made from lines. Taken are those that the generator has taken to
	// send so far. If the replay ends early, the difference had been read ahead.
	Arrivals uint64 `json:"arrivals"`
	Taken    uint64 `json:"taken"`
	// OutOfOrder counts the arrivals that came after a later one in the log. They were put back in
	// their place, except for Late ones, which were more than two seconds of the log behind. Those
	// are sent as soon as they are read.
	OutOfOrder uint64 `json:"out_of_order"`
	Late       uint64 `json:"late"`
	// WithoutAgent counts the requests sent without their User-Agent, because it was not a valid
	// one.
	WithoutAgent uint64   `json:"without_agent"`
	Examples     []string `json:"examples,omitempty"`
	// First and Last are the times of the first and the last arrival in the log.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Length is the time from the replay's start to the last arrival. Speed is how much faster that
	// is than in the log.
	Length time.Duration `json:"length_ns"`
	Speed  float64       `json:"speed"`
	// Ended says why the reading ended; empty while it continues.
	Ended string `json:"ended"`
}

// maxExamples and exampleLength bound what is shown of unreadable lines.
const maxExamples, exampleLength = 5, 160

// example is a line in a form that any terminal can show.
func example(line []byte) string {
	if len(line) > exampleLength {
		return fmt.Sprintf("%q…", line[:exampleLength])
	}
	return fmt.Sprintf("%q", line)
}

// reader makes items from a log: it reads, renders, filters and counts.
type reader struct {
	o        *Options
	form     *format
	source   source
	renderer renderer
	record   record
	stats    Stats
	unit     int64 // the finest unit of time seen
	begun    bool
	first    int64 // time of the first readable line
	passed   int   // items since the last sampled one
	name     string
	// noted is called with the counts after each line; it may be nil.
	noted func(*Stats)
}

func newReader(l *Log, authority string, noted func(*Stats)) *reader {
	r := &reader{
		o:      &l.o,
		form:   &l.form,
		source: l.form.open(l.in),
		unit:   secondNs,
		name:   l.name,
		noted:  noted,
	}
	r.renderer.authority, r.renderer.keepHost = []byte(authority), l.o.KeepHost
	r.stats.Speed = 1
	return r
}

// The outcomes of a line.
type outcome uint8

const (
	sent outcome = iota
	outside
	beyond // so far after To that nothing more will be sent
	skipped
)

// nothingError is ErrNothing with its reasons.
type nothingError struct{ text string }

func (e *nothingError) Error() string        { return e.text }
func (e *nothingError) Is(target error) bool { return target == ErrNothing }

// each calls made with every item, in the order of the log. The item is valid during the call. It
// returns the first error of made or of the log.
func (r *reader) each(made func(*item) error) error {
	var it item
	for {
		err := r.source.next(&r.record)
		if errors.Is(err, io.EOF) {
			r.stats.Ended = "the log's end"
			return nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s, after line %d: %w: the file is cut off",
				r.name, r.stats.Lines, err)
		}
		if err != nil {
			return fmt.Errorf("%s, after line %d: %w", r.name, r.stats.Lines, err)
		}
		r.stats.Lines++
		if r.record.bad == nil && len(r.record.line) == 0 {
			r.stats.Blank++
			continue
		}
		what, err := r.item(&it)
		if err != nil {
			r.unreadable(err)
		} else if what == sent {
			r.stats.Arrivals++
			if err := made(&it); err != nil {
				return err
			}
		}
		if r.noted != nil {
			r.noted(&r.stats)
		}
		if what == beyond && !r.form.sorted {
			r.stats.Ended = "the end of the part that was asked for"
			return nil
		}
	}
}

func (r *reader) unreadable(why error) {
	r.stats.Unreadable++
	if len(r.stats.Examples) < maxExamples {
		// Copy the slice: whoever was given the counts keeps theirs.
		r.stats.Examples = append(r.stats.Examples[:len(r.stats.Examples):len(r.stats.Examples)],
			fmt.Sprintf("line %d: %v: %s", r.stats.Lines, why, example(r.record.line)))
	}
}

// item makes an item from the record and says whether to send it. The error says why the line
// cannot be read.
func (r *reader) item(it *item) (outcome, error) {
	if r.record.bad != nil {
		return skipped, r.record.bad
	}
	at, unit, err := r.record.time()
	if err != nil {
		return skipped, err
	}
	if err := r.renderer.render(&r.record, it); err != nil {
		return skipped, err
	}
	it.at, r.unit = at, min(r.unit, unit)
	if !r.begun {
		r.begun, r.first = true, at
	}
	if in := r.within(at); in != sent {
		r.stats.SkippedRange++
		return in, nil
	}
	switch {
	case !r.ofHosts():
		r.stats.SkippedHost++
		return skipped, nil
	case it.name >= safeMethods && !r.o.Unsafe:
		r.stats.SkippedUnsafe++
		return skipped, nil
	}
	r.passed++
	if r.o.Sample > 1 && r.passed%r.o.Sample != 1 {
		r.stats.SkippedSampled++
		return skipped, nil
	}
	if r.renderer.withoutAgent {
		r.stats.WithoutAgent++
	}
	return sent, nil
}

// time is the time at which the record's request arrived.
func (r *record) time() (at, unit int64, err error) {
	if len(r.values[vTime]) == 0 {
		return 0, 0, errNoTime
	}
	s, ok := parseStamp(r.values[vTime])
	if !ok {
		return 0, 0, errTime
	}
	// A duration in milliseconds does not improve a time in whole seconds.
	if took := r.values[vTook]; s.unit < secondNs && len(took) > 0 && string(took) != "-" {
		ns, ok := parseSeconds(took)
		if !ok {
			return 0, 0, errTook
		}
		s.at -= ns
	}
	return s.at, s.unit, nil
}

// within says whether a time lies in the requested part of the log.
func (r *reader) within(at int64) outcome {
	if !r.o.From.none() && at < r.o.From.in(r.first) {
		return outside
	}
	if !r.o.To.none() {
		if to := r.o.To.in(r.first); at >= to+reorderWindow {
			return beyond
		} else if at >= to {
			return outside
		}
	}
	return sent
}

// ofHosts reports whether the record's host is one of the requested hosts.
func (r *reader) ofHosts() bool {
	if len(r.o.Hosts) == 0 {
		return true
	}
	host := r.renderer.host
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	for _, h := range r.o.Hosts {
		if strings.EqualFold(h, string(host)) {
			return true
		}
	}
	return false
}

// ErrNothing means that no line of a log is sent: the options and the log's content do not match.
var ErrNothing = errors.New("nothing to send")

// nothing is the error for a log without a line to send. It suggests a remedy for the most frequent
// reason.
func (r *reader) nothing() error {
	s := &r.stats
	text := fmt.Sprintf("%s: none of its %d lines can be sent: %d unreadable, "+
		"%d with a method that is not safe, %d outside the part asked for, %d for other hosts",
		r.name, s.Lines, s.Unreadable, s.SkippedUnsafe, s.SkippedRange, s.SkippedHost)
	switch most := max(s.Unreadable, s.SkippedUnsafe, s.SkippedRange, s.SkippedHost); {
	case most == 0:
	case most == s.Unreadable && len(s.Examples) > 0:
		text += "; " + s.Examples[0]
	case most == s.SkippedUnsafe:
		text += "; --unsafe sends all methods"
	case most == s.SkippedRange:
		text += "; choose another part with --from and --to"
	case most == s.SkippedHost:
		text += "; choose another --host, or leave it out"
	}
	return &nothingError{text}
}
