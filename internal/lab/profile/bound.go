package profile

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// How many things a profile may hold. A thing of two bytes becomes one of a hundred in memory, so they are counted before pprof's reader makes them.
const (
	mostSamples = 200_000
	mostOthers  = 1_000_000 // locations, functions, mappings, and texts, each
	mostParts   = 8_000_000 // fields of all of these, and frames of all stacks
	mostLines   = mostDepth // inlined calls at one location
)

// The fields of a profile's message that are counted; see pprof's proto/profile.proto.
const (
	fieldSample    protowire.Number = 2
	fieldMapping   protowire.Number = 3
	fieldLocation  protowire.Number = 4
	fieldFunction  protowire.Number = 5
	fieldString    protowire.Number = 6
	fieldLine      protowire.Number = 4 // of a location
	fieldLocations protowire.Number = 1 // of a sample, packed
	fieldValues    protowire.Number = 2 // of a sample, packed
)

var fieldNames = map[protowire.Number]string{
	fieldSample: "samples", fieldMapping: "mappings", fieldLocation: "locations", fieldFunction: "functions", fieldString: "texts",
}

var errNoProfile = errors.New("this is no profile in pprof's format")

// bound says why a profile must not be read.
func bound(raw []byte) error {
	counts := map[protowire.Number]int{}
	parts := 0
	for len(raw) > 0 {
		number, content, rest, err := field(raw)
		if err != nil {
			return err
		}
		raw = rest
		parts++
		counts[number]++
		most := mostOthers
		if number == fieldSample {
			most = mostSamples
		}
		if counts[number] > most {
			return fmt.Errorf("the profile has more than %d %s", most, nameOf(number))
		}
		if number == fieldSample || number == fieldLocation {
			n, err := inside(number, content)
			if err != nil {
				return err
			}
			parts += n
		}
		if parts > mostParts {
			return fmt.Errorf("the profile has more than %d parts", mostParts)
		}
	}
	return nil
}

func nameOf(number protowire.Number) string {
	if name := fieldNames[number]; name != "" {
		return name
	}
	return fmt.Sprintf("fields %d", number)
}

// inside counts the parts of a sample or a location.
func inside(of protowire.Number, message []byte) (parts int, err error) {
	lines := 0
	for len(message) > 0 {
		number, content, rest, err := field(message)
		if err != nil {
			return 0, err
		}
		message = rest
		parts++
		if of == fieldSample && (number == fieldLocations || number == fieldValues) {
			parts += varints(content)
		}
		if of == fieldLocation && number == fieldLine {
			lines++
		}
	}
	if lines > mostLines {
		return 0, fmt.Errorf("the profile has more than %d functions inlined at one place", mostLines)
	}
	return parts, nil
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
