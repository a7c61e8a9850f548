package profile

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// How many things a profile may hold. A thing of two bytes becomes one of a hundred in memory, so
// they are counted before pprof's reader makes them.
const (
	mostTypes    = 100 // Go's have four
	mostSamples  = 200_000
	mostMappings = 1 << 16   // as many as Linux lets a process have, unless it is told otherwise
	mostOthers   = 500_000   // locations, lines of them, functions, and texts, each
	mostParts    = 8_000_000 // fields of all of these, and frames of all stacks
	mostLines    = mostDepth // inlined calls at one location
	// bytes that are read of a text: as long as a file's path may be, and more than is kept of any
	mostText = 4 << 10
)

// The fields of a profile's message that are read; see pprof's proto/profile.proto.
const (
	fieldType     protowire.Number = 1
	fieldSample   protowire.Number = 2
	fieldMapping  protowire.Number = 3
	fieldLocation protowire.Number = 4
	fieldFunction protowire.Number = 5
	fieldString   protowire.Number = 6
	// pprof's reader tells by it that there are two profiles in one
	fieldTime     protowire.Number = 9
	fieldDuration protowire.Number = 10

	fieldLine      protowire.Number = 4 // of a location
	fieldLocations protowire.Number = 1 // of a sample, packed
	fieldValues    protowire.Number = 2 // of a sample, packed
	fieldLabel     protowire.Number = 3 // of a sample, and not read
)

// fields are these, with how many of each there may be and what they are called.
var fields = map[protowire.Number]struct {
	most int
	name string
}{
	fieldType:     {mostTypes, "types"},
	fieldSample:   {mostSamples, "samples"},
	fieldMapping:  {mostMappings, "mappings"},
	fieldLocation: {mostOthers, "locations"},
	fieldFunction: {mostOthers, "functions"},
	fieldString:   {mostOthers, "texts"},
	fieldTime:     {mostOthers, "times"},
	fieldDuration: {mostOthers, "durations"},
}

var errNoProfile = errors.New("this is not a profile in pprof's format")

// lean is a profile with nothing in it that is not read here, as pprof's reader makes memory of it
// all: of each byte of the comments a text, and for a sample's labels three maps that have room for
// all of them. Texts are cut to what is read of them. An error says why a profile must not be read.
func lean(raw []byte) ([]byte, error) {
	out := make([]byte, 0, len(raw))
	counts := map[protowire.Number]int{}
	parts, lines := 0, 0
	for len(raw) > 0 {
		number, content, rest, err := field(raw)
		if err != nil {
			return nil, err
		}
		whole := raw[:len(raw)-len(rest)]
		raw = rest
		short, inside, here := content, 0, 0
		switch number {
		case fieldSample:
			short, inside, err = sample(content)
		case fieldLocation:
			inside, here, err = location(content)
		case fieldString:
			short = content[:min(len(content), mostText)]
		}
		if err != nil {
			return nil, err
		}
		if parts += 1 + inside; parts > mostParts {
			return nil, fmt.Errorf("the profile has more than %d parts", mostParts)
		}
		if lines += here; lines > mostOthers {
			return nil, fmt.Errorf("the profile has more than %d lines of code", mostOthers)
		}
		bound, ok := fields[number]
		if !ok {
			continue
		}
		if counts[number]++; counts[number] > bound.most {
			return nil, fmt.Errorf("the profile has more than %d %s", bound.most, bound.name)
		}
		if len(short) == len(content) {
			out = append(out, whole...)
		} else {
			out = protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType),
				short)
		}
	}
	return out, nil
}

// sample is a sample without its labels, and the number of its parts.
func sample(message []byte) (short []byte, parts int, err error) {
	short = make([]byte, 0, len(message))
	for len(message) > 0 {
		number, content, rest, err := field(message)
		if err != nil {
			return nil, 0, err
		}
		parts++
		if number == fieldLocations || number == fieldValues {
			parts += varints(content)
		}
		if number != fieldLabel {
			short = append(short, message[:len(message)-len(rest)]...)
		}
		message = rest
	}
	return short, parts, nil
}

// location counts the parts of a location, and the lines of code among them.
func location(message []byte) (parts, lines int, err error) {
	for len(message) > 0 {
		number, _, rest, err := field(message)
		if err != nil {
			return 0, 0, err
		}
		message = rest
		parts++
		if number == fieldLine {
			lines++
		}
	}
	if lines > mostLines {
		return 0, 0, fmt.Errorf("the profile has more than %d functions inlined at one place",
			mostLines)
	}
	return parts, lines, nil
}

// field takes the first field off a message. content is empty for a field that is a number.
func field(message []byte) (number protowire.Number, content, rest []byte, err error) {
	number, wire, n := protowire.ConsumeTag(message)
	if n < 0 {
		return 0, nil, nil, errNoProfile
	}
	message = message[n:]
	if wire == protowire.BytesType {
		content, n = protowire.ConsumeBytes(message)
	} else {
		n = protowire.ConsumeFieldValue(number, wire, message)
	}
	if n < 0 {
		return 0, nil, nil, errNoProfile
	}
	return number, content, message[n:], nil
}

// varints is how many numbers a packed list has.
func varints(packed []byte) (n int) {
	for _, b := range packed {
		if b < 0x80 {
			n++
		}
	}
	return n
}
