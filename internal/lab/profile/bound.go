package profile

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// How many things a profile may hold. A thing of two bytes takes a hundred in memory, so things are
// counted before pprof's parser makes them.
const (
	mostTypes    = 100 // Go's have four
	mostSamples  = 200_000
	mostMappings = 1 << 16   // Linux's default limit for a process
	mostOthers   = 500_000   // locations, their lines, functions, and strings, each
	mostParts    = 8_000_000 // fields of all of these, and frames of all stacks
	mostLines    = mostDepth // inlined calls at one location
	// bytes of a string that are read: the maximum length of a file's path, and more than is kept
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
	// A second one tells pprof's parser that there are two profiles in one.
	fieldTime     protowire.Number = 9
	fieldDuration protowire.Number = 10

	fieldLine      protowire.Number = 4 // of a location
	fieldLocations protowire.Number = 1 // of a sample, packed
	fieldValues    protowire.Number = 2 // of a sample, packed
	fieldLabel     protowire.Number = 3 // of a sample, not read
)

// fields are the fields of a profile, with the limit on their number, and their name.
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

// lean returns a profile without what is not read here, because pprof's parser allocates memory for
// all of it: a string for each byte of the comments, and for a sample's labels three maps that have
// room for all of them. Strings are cut to mostText. An error says why the profile must not be
// parsed.
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

// sample returns a sample without its labels, and the number of its parts.
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

// field splits the first field from a message. content is empty for a numeric field.
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

// varints returns how many numbers a packed list has.
func varints(packed []byte) (n int) {
	for _, b := range packed {
		if b < 0x80 {
			n++
		}
	}
	return n
}
