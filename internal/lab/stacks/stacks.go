// Package stacks reads the output of profilers of other languages (folded stacks, the text of perf
// script, speedscope, V8's .cpuprofile, the JSON of the JDK's jfr tool, pprof) and converts it to
// profiles in pprof's format, which the rest of the lab reads. It must know nothing of runs,
// processes and networks, and trusts no byte: files come from anywhere.
package stacks

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/google/pprof/profile"
)

// Limits on what is read. A profile that exceeds a limit is refused with an error that says so,
// because a profile with a missing part would name the wrong places.
const (
	// Most is the maximum size of a file in bytes, both compressed and uncompressed. A decoded
	// sample takes up to eight times its text.
	Most = 64 << 20

	mostStacks = 200_000   // different ones; package profile accepts no more
	mostFrames = 4_000_000 // in all of these stacks
	mostPlaces = 250_000   // different functions, files and lines
	mostDepth  = 10_000    // frames of one stack
	mostText   = 4 << 10   // bytes of a function's or a file's name; the rest is cut off
)

// mostWork is how many frames may be added, including those of stacks that exist already. It is a
// variable for tests.
var mostWork = 400_000_000

// Frame is one call of a stack.
type Frame struct {
	Function string // never empty
	File     string // as reported by the profiler; "" if it is not known
	Line     int    // 0 if it is not known
	// Binary is the program or library that the code is from, for code that was compiled ahead of
	// time: "/usr/sbin/nginx", "[kernel]".
	Binary string
}

// Options are what a file may not say about itself.
type Options struct {
	// Hertz is how many samples per second were taken, for formats that count samples and do not
	// say how long one lasts; 0 means the usual rate of the format's tools.
	Hertz float64
	// Seconds is how long the profile was taken; 0 means what the file says. If neither is known,
	// weights are of the whole profile and not per second.
	Seconds float64
}

// MostHertz is the maximum number of samples per second that Options may give.
const MostHertz = 1_000_000

// ValidHertz reports whether a rate is valid for Options.Hertz: 0, or 1 to MostHertz. At less than
// one sample a second the time of the samples of one stack could overflow (mostCount).
func ValidHertz(rate float64) bool { return rate == 0 || rate >= 1 && rate <= MostHertz }

// nanos returns how many nanoseconds one sample lasts.
func (o Options) nanos(usual float64) int64 {
	hertz := usual
	if o.Hertz > 0 {
		hertz = o.Hertz
	}
	return max(1, int64(1e9/hertz))
}

// The usual rates in samples per second: that of py-spy, rbspy and async-profiler's common setting,
// and that of the JDK's own settings (20 ms).
const (
	usualHertz = 100
	jfrHertz   = 50
)

// Format is the format of a file.
type Format string

// The formats that Read knows.
const (
	Pprof      Format = "pprof"
	Folded     Format = "folded stacks"
	PerfScript Format = "perf script"
	Speedscope Format = "speedscope"
	CPUProfile Format = "V8 cpuprofile"
	JFRPrint   Format = "jfr print --json"
)

// ErrRecording is the error for an unconverted recording of the JDK's flight recorder: only the
// JDK's jfr tool can read it.
var ErrRecording = errors.New("this is a flight recording: convert it with " +
	"jfr print --json --events jdk.ExecutionSample --stack-depth 64 FILE")

// Read converts a file's content to a profile. It detects the format from the first bytes. The
// profile's weights are "samples" and "cpu", which is processor time in nanoseconds, whatever the
// file calls it. Stacks in which a thread was idle are left out if the format marks them. An error
// is one line, and includes the line number in a text file.
//
// Read does not retain data, and may be called from any goroutine.
func Read(data []byte, o Options) (*profile.Profile, Format, error) {
	data, packed, err := unpack(data)
	if err != nil {
		return nil, "", err
	}
	if !ValidHertz(o.Hertz) {
		return nil, "", errors.New("the samples a second are 1 to 1,000,000")
	}
	if !(o.Seconds >= 0 && o.Seconds <= 1e6) {
		return nil, "", errors.New("the seconds are 0 to 1,000,000")
	}
	switch text := bytes.TrimLeft(data, " \t\r\n\uFEFF"); {
	case len(text) == 0:
		return nil, "", errors.New("there is nothing in it")
	case bytes.HasPrefix(data, []byte("FLR\x00")):
		return nil, "", ErrRecording
	case text[0] == '{':
		return readJSON(data, o)
	case packed && !isText(data) || !isText(data):
		p, err := readPprof(data, o)
		return p, Pprof, err
	case looksLikePerf(data):
		p, err := readPerf(data, o)
		return p, PerfScript, err
	}
	p, err := readFolded(data, o)
	return p, Folded, err
}

// unpack decompresses data if it is compressed.
func unpack(data []byte) (raw []byte, packed bool, err error) {
	if len(data) > Most {
		return nil, false, fmt.Errorf("it has more than %d MiB: profile for a shorter time, or less "+
			"often", Most>>20)
	}
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, false, nil
	}
	from, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, true, fmt.Errorf("its compression is damaged: %w", err)
	}
	raw, err = io.ReadAll(io.LimitReader(from, Most+1))
	if err != nil {
		return nil, true, fmt.Errorf("its compression is damaged, or it was cut short: %w", err)
	}
	if len(raw) > Most {
		return nil, true, fmt.Errorf("it unpacks to more than %d MiB", Most>>20)
	}
	return raw, true, nil
}

// isText reports whether a file's beginning can be text: pprof's messages have control characters
// in their first bytes.
func isText(data []byte) bool {
	for _, c := range data[:min(len(data), 512)] {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return true
}

// Builder makes a profile from stacks. It may be used by one goroutine only.
type Builder struct {
	out       *profile.Profile
	places    map[Frame]*profile.Location
	functions map[[2]string]*profile.Function
	binaries  map[string]*profile.Mapping
	stacks    map[string]*profile.Sample
	stack     []*profile.Location
	key       []byte
	frames    int
	work      int
}

// NewBuilder returns a Builder for a profile that was taken for some seconds; 0 if that is not
// known.
func NewBuilder(seconds float64) *Builder {
	return &Builder{
		out: &profile.Profile{
			SampleType: []*profile.ValueType{
				{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"},
			},
			PeriodType:    &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
			DurationNanos: int64(seconds * 1e9),
		},
		places:    map[Frame]*profile.Location{},
		functions: map[[2]string]*profile.Function{},
		binaries:  map[string]*profile.Mapping{},
		stacks:    map[string]*profile.Sample{},
	}
}

// Add adds a stack, the leaf first, that was seen in a number of samples, for a number of
// nanoseconds. It does not retain the slice. An error says that a limit is reached; then nothing
// was added.
func (b *Builder) Add(stack []Frame, samples, nanos int64) error {
	if len(stack) > mostDepth {
		return errDepth
	}
	b.stack = b.stack[:0]
	for _, f := range stack {
		l, err := b.place(f)
		if err != nil {
			return err
		}
		b.stack = append(b.stack, l)
	}
	return b.add(b.stack, samples, nanos)
}

var errDepth = fmt.Errorf("a stack has more than %d frames", mostDepth)

// add is Add for frames whose places are known. Looking up a place takes time proportional to the
// length of its names, and a small file can repeat the same deep stack many times.
func (b *Builder) add(stack []*profile.Location, samples, nanos int64) error {
	if len(stack) == 0 {
		return nil
	}
	if len(stack) > mostDepth {
		return errDepth
	}
	if b.work += len(stack); b.work > mostWork {
		return fmt.Errorf("the samples are too many for stacks as deep as these: "+
			"they have more than %d frames", mostWork)
	}
	b.key = b.key[:0]
	for _, l := range stack {
		b.key = binary.AppendUvarint(b.key, l.ID)
	}
	s, ok := b.stacks[string(b.key)]
	if !ok {
		if len(b.stacks) == mostStacks {
			return fmt.Errorf("there are more than %d different stacks", mostStacks)
		}
		if b.frames += len(stack); b.frames > mostFrames {
			return fmt.Errorf("the stacks have more than %d frames", mostFrames)
		}
		s = &profile.Sample{Value: []int64{0, 0}, Location: slices.Clone(stack)}
		b.stacks[string(b.key)] = s
		b.out.Sample = append(b.out.Sample, s)
	}
	s.Value[0], s.Value[1] = sum(s.Value[0], samples), sum(s.Value[1], nanos)
	return nil
}

// sum adds, and returns the largest int64 if the sum would overflow.
func sum(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// place returns a frame's location.
func (b *Builder) place(f Frame) (*profile.Location, error) {
	if l, ok := b.places[f]; ok {
		return l, nil
	}
	if len(b.places) == mostPlaces {
		return nil, fmt.Errorf("there are more than %d different functions and lines", mostPlaces)
	}
	name, file := f.Function[:min(len(f.Function), mostText)], f.File[:min(len(f.File), mostText)]
	fn, ok := b.functions[[2]string{name, file}]
	if !ok {
		fn = &profile.Function{
			ID: uint64(len(b.out.Function) + 1), Name: name, SystemName: name, Filename: file,
		}
		b.functions[[2]string{name, file}] = fn
		b.out.Function = append(b.out.Function, fn)
	}
	l := &profile.Location{
		ID:      uint64(len(b.places) + 1),
		Line:    []profile.Line{{Function: fn, Line: int64(f.Line)}},
		Mapping: b.binary(f.Binary),
	}
	b.places[f] = l
	b.out.Location = append(b.out.Location, l)
	return l, nil
}

// binary returns the mapping for a program or library; nil if there is none, or if there would be
// more than pprof's limit.
func (b *Builder) binary(name string) *profile.Mapping {
	const most = 1000
	if name == "" {
		return nil
	}
	m, ok := b.binaries[name]
	if !ok && len(b.binaries) < most {
		m = &profile.Mapping{ID: uint64(len(b.binaries) + 1), File: name, HasFunctions: true}
		b.binaries[name] = m
		b.out.Mapping = append(b.out.Mapping, m)
	}
	return m
}

// Profile returns what was added so far. The builder must not be used afterwards.
func (b *Builder) Profile() *profile.Profile { return b.out }

// finish refuses an empty profile.
func (b *Builder) finish() (*profile.Profile, error) {
	if len(b.out.Sample) == 0 {
		return nil, errNothing
	}
	return b.out, nil
}

var errNothing = errors.New("it has no stack in which anything ran")
