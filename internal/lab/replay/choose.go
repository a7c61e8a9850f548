package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// format is the chosen format.
type format struct {
	name string
	open func(in *bufio.Reader) source
	// sorted says that the whole document is sorted by time, as far as memory allows: the entries
	// of a HAR come in any order.
	sorted bool
}

const formats = `the formats are combined, common, json, har, and an nginx log_format ` +
	`such as '$remote_addr [$time_local] "$request" $status'`

// choose makes the requested format, or guesses it from the beginning of the log.
func choose(begin []byte, o *Options) (format, error) {
	name := strings.ToLower(o.Format)
	switch {
	case strings.Contains(o.Format, "$"):
		f, err := newLogFormat(strings.TrimSpace(o.Format))
		return byLine("log_format", f), err
	case len(bytes.TrimSpace(begin)) == 0:
		return format{}, errors.New("the log is empty")
	case name == "":
		var err error
		if name, err = guess(begin); err != nil {
			return format{}, err
		}
	}
	if len(o.Fields) > 0 && name != "json" {
		return format{}, fmt.Errorf("names of fields are for JSON lines, "+
			"and the log's format is %s", name)
	}
	switch name {
	case "combined":
		return byLine(name, known(combinedFormat)), nil
	case "common":
		return byLine(name, known(commonFormat)), nil
	case "json":
		j, err := newJSONLines(o.Fields, begin)
		return byLine(name, j), err
	case "har":
		return format{
			name:   name,
			sorted: true,
			open:   func(in *bufio.Reader) source { return newHAR(in) },
		}, nil
	}
	return format{}, fmt.Errorf("unknown format %q: %s", o.Format, formats)
}

func byLine(name string, p parser) format {
	return format{
		name: name,
		open: func(in *bufio.Reader) source { return &lines{in: in, parser: p} },
	}
}

// known makes one of the well-known formats.
func known(text string) *logFormat {
	f, err := newLogFormat(text)
	if err != nil {
		panic(err) // they are constants
	}
	f.extra = true
	return f
}

var beginsHAR = regexp.MustCompile(`^\s*\{\s*"log"\s*:\s*\{`)

// guess picks the format that fits most of the first lines.
func guess(begin []byte) (string, error) {
	switch {
	case beginsHAR.Match(begin):
		return "har", nil
	case bytes.TrimSpace(begin)[0] == '{':
		return "json", nil
	}
	combined, common := known(combinedFormat), known(commonFormat)
	var asCombined, asCommon int
	whole := begin[:bytes.LastIndexByte(begin, '\n')+1]
	if len(whole) == 0 {
		whole = begin
	}
	r := record{}
	for line := range bytes.Lines(whole) {
		line = bytes.TrimRight(line, "\r\n")
		if fits(combined, line, &r) {
			asCombined++
		}
		if fits(common, line, &r) {
			asCommon++
		}
	}
	switch {
	case asCommon == 0:
		line, _, _ := bytes.Cut(bytes.TrimSpace(begin), []byte("\n"))
		return "", fmt.Errorf("the first lines are of no known format, the first one is %s: "+
			"say which it is; %s", example(line), formats)
	case 2*asCombined >= asCommon:
		return "combined", nil
	}
	return "common", nil
}

func fits(f *logFormat, line []byte, r *record) bool {
	r.reset()
	if f.parse(line, r) != nil {
		return false
	}
	_, ok := parseStamp(r.values[vTime])
	return ok
}
