package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"plimsoll/internal/lab/format"
)

// Limits on a profile. The profiles of a large Go service have some ten thousand samples and are
// below a megabyte.
const (
	mostCompressed = 32 << 20 // bytes
	mostRaw        = 64 << 20 // bytes; mostParts of the usual size fill half of it
	mostName       = 300      // bytes of a function's or a file's name
	// A deeper stack keeps leafPart frames at the leaf and rootPart at the root, and Cut between
	// them. The leaf says where the weight is, and the root says who caused it.
	mostDepth = 512
	leafPart  = 384
	rootPart  = mostDepth - leafPart - 1
)

// Cut is the function of the frame that stands for the frames left out of a stack that is too deep.
const Cut = "… (too deep)"

// Parse parses a profile in pprof's format, compressed or not. It does not retain data. Its errors
// are one line, and say what is wrong with the profile.
func Parse(data []byte) (*Profile, error) {
	from, err := Read(data)
	if err != nil {
		return nil, err
	}
	return build(from)
}

// Read is like Parse, but returns pprof's own form, without what is not read here. It is for
// callers that make another profile from it.
func Read(data []byte) (*profile.Profile, error) {
	raw, err := unpack(data)
	if err != nil {
		return nil, err
	}
	if raw, err = lean(raw); err != nil {
		return nil, err
	}
	from, err := profile.ParseUncompressed(raw)
	if err != nil {
		return nil, fmt.Errorf("the profile is damaged: %s", format.Clean(err.Error()))
	}
	if err := from.CheckValid(); err != nil {
		return nil, fmt.Errorf("the profile contradicts itself: %s", format.Clean(err.Error()))
	}
	if len(from.SampleType) == 0 {
		return nil, errors.New("the profile does not say what it measured")
	}
	return from, nil
}

// unpack decompresses data if it is compressed.
func unpack(data []byte) ([]byte, error) {
	switch {
	case len(data) == 0:
		return nil, errors.New("the profile is empty")
	case len(data) > mostCompressed:
		return nil, fmt.Errorf("the profile has %d MiB, more than %d",
			len(data)>>20, mostCompressed>>20)
	case !bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		return data, nil
	}
	from, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the profile's compression is damaged: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(from, mostRaw+1))
	if err != nil {
		return nil, fmt.Errorf("the profile's compression is damaged, or it was cut short: %w", err)
	}
	if len(raw) > mostRaw {
		return nil, fmt.Errorf("the profile unpacks to more than %d MiB", mostRaw>>20)
	}
	return raw, nil
}

// builder turns pprof's graph of pointers into tables.
type builder struct {
	out   *Profile
	ids   map[Frame]int32
	lines map[*profile.Location][]int32
	cut   int32 // ID of the frame Cut; -1 if there is none yet
	names map[*profile.Function]Frame
	goes  bool // the profile is of a Go program
	// The results for long strings.
	functions, files, packages, binaries memo
}

// memo caches the results for long strings: half a million functions may have the same one. For a
// short string, computing the result is faster than looking it up.
type memo map[string]string

func (m memo) of(text string, become func(string) string) string {
	if len(text) <= mostName {
		return become(text)
	}
	short, ok := m[text]
	if !ok {
		short = become(text)
		m[text] = short
	}
	return short
}

func build(from *profile.Profile) (*Profile, error) {
	b := &builder{
		out:       &Profile{seconds: max(0, float64(from.DurationNanos)/1e9)},
		ids:       map[Frame]int32{},
		lines:     map[*profile.Location][]int32{},
		cut:       -1,
		goes:      ofGo(from),
		names:     map[*profile.Function]Frame{},
		functions: memo{},
		files:     memo{},
		packages:  memo{},
		binaries:  memo{},
	}
	for _, t := range from.SampleType {
		b.out.types = append(b.out.types, sampleType{clip(t.Type), per(t.Unit)})
	}
	frames := 0
	for _, s := range from.Sample {
		one := stack{b.stack(s.Location), s.Value}
		if frames += len(one.frames); frames > mostParts {
			return nil, fmt.Errorf("the profile's stacks have more than %d calls", mostParts)
		}
		b.out.stacks = append(b.out.stacks, one)
	}
	return b.out, nil
}

// per returns how many of a unit of time are a second. Bytes and counts stay as they are.
func per(unit string) float64 {
	switch unit {
	case "nanoseconds":
		return 1e9
	case "microseconds":
		return 1e6
	case "milliseconds":
		return 1e3
	}
	return 1
}

// stack returns a stack's frames, the leaf first.
func (b *builder) stack(locations []*profile.Location) []int32 {
	depth := 0
	for _, l := range locations {
		depth += len(b.location(l))
	}
	if depth <= mostDepth {
		all := make([]int32, 0, depth)
		for _, l := range locations {
			all = append(all, b.location(l)...)
		}
		return all
	}
	if b.cut < 0 {
		b.cut = b.id(Frame{Function: Cut})
	}
	all := make([]int32, mostDepth)
	n := 0
	for _, l := range locations {
		if n += copy(all[n:leafPart], b.location(l)); n == leafPart {
			break
		}
	}
	all[leafPart] = b.cut
	n = mostDepth
	for i := len(locations) - 1; n > leafPart+1; i-- {
		lines := b.location(locations[i])
		take := min(len(lines), n-leafPart-1)
		n -= take
		copy(all[n:], lines[len(lines)-take:])
	}
	return all
}

// location returns the frames of a location, the innermost inlined call first.
func (b *builder) location(l *profile.Location) []int32 {
	if known, ok := b.lines[l]; ok {
		return known
	}
	var all []int32
	for _, line := range l.Line {
		f, ok := b.names[line.Function]
		if !ok {
			f = Frame{
				Function: b.functions.of(line.Function.Name, clean),
				File:     b.files.of(line.Function.Filename, shortFile),
				Package:  b.packages.of(line.Function.Filename, packageOf),
			}
			if f.Function == "" {
				f.Function = b.functions.of(line.Function.SystemName, clean)
			}
			if f.Function == "" {
				f.Function = b.unnamed(l)
			}
			if !b.goes {
				f.whose = 1 + int8(foreign(f.Function, line.Function.Filename, binaryOf(l)))
			}
			b.names[line.Function] = f
		}
		f.Line = int(max(0, line.Line))
		all = append(all, b.id(f))
	}
	if all == nil {
		f := Frame{Function: b.unnamed(l)}
		if !b.goes {
			f.whose = 1 + int8(Runtime)
		}
		all = []int32{b.id(f)}
	}
	b.lines[l] = all
	return all
}

func (b *builder) id(f Frame) int32 {
	id, ok := b.ids[f]
	if !ok {
		id = int32(len(b.out.frames))
		b.ids[f] = id
		b.out.frames = append(b.out.frames, f)
	}
	return id
}

// unnamed returns the name for code without symbols: the binary that it was loaded from, or
// "[unknown]". Addresses would make every instruction a function.
func (b *builder) unnamed(l *profile.Location) string {
	if l.Mapping != nil && l.Mapping.File != "" {
		return b.binaries.of(l.Mapping.File, func(file string) string {
			return clip("[" + path.Base(file) + "]")
		})
	}
	return "[unknown]"
}

// binaryOf returns the program or library that code was loaded from; "" if it is not known.
func binaryOf(l *profile.Location) string {
	if l.Mapping == nil {
		return ""
	}
	return l.Mapping.File
}

// clip limits the length of a profile's string, and makes it one line of valid UTF-8.
func clip(s string) string {
	s = format.Clean(s)
	if len(s) <= mostName {
		return s
	}
	n := mostName
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
