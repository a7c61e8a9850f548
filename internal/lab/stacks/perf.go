package stacks

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

var (
	// "nginx  1234/1234 [001] 12345.678901:   10101010 cpu-clock:ppp: "; the count and the
	// processor are optional, depending on perf script's --fields.
	perfHeader = regexp.MustCompile(`^(\S.*?)\s+(?:\d+/)?\d+\s+(?:\[\d+\]\s+)?` +
		`(\d+\.\d+):\s+(?:(\d+)\s+)?([\w\-/:.]+):\s*(?:[0-9a-f]+\s.*)?$`)
	// "	ffffffff8104f45a tcp_sendmsg+0x1a ([kernel.kallsyms])"
	perfFrame = regexp.MustCompile(`^\s+([0-9a-f]+)\s+(.+?)(?:\+0x[0-9a-f]+)?\s+\((.*)\)$`)
)

// looksLikePerf reports whether a text is perf script's: its first line that is not a comment is
// the header of a sample.
func looksLikePerf(data []byte) bool {
	for _, line := range lines(data[:min(len(data), 64<<10)]) {
		if line == "" || line[0] == '#' {
			continue
		}
		return perfHeader.MatchString(line)
	}
	return false
}

// perfReader reads the text of perf script: for each sample a header, then a line for each frame
// with the leaf first, each optionally followed by a line with its place in the source, then an
// empty line.
type perfReader struct {
	b      *Builder
	each   int64
	worth  int64 // nanoseconds of the current sample
	stack  []Frame
	inside bool
	first  float64 // time of the first sample, in seconds; last is that of the last one
	last   float64
}

func readPerf(data []byte, o Options) (*profile.Profile, error) {
	r := &perfReader{b: NewBuilder(o.Seconds), each: o.nanos(usualHertz), first: -1}
	for n, line := range lines(data) {
		if err := r.line(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("the last sample: %w", err)
	}
	p, err := r.b.finish()
	if err == nil && o.Seconds == 0 && r.last > r.first && r.last-r.first < 1e6 {
		p.DurationNanos = int64((r.last - r.first) * 1e9)
	}
	return p, err
}

func (r *perfReader) line(line string) error {
	switch {
	case strings.TrimSpace(line) == "":
		return r.end()
	case line[0] == '#':
		return nil
	case line[0] != ' ' && line[0] != '\t', !r.inside && perfHeader.MatchString(strings.TrimLeft(line, " ")):
		return r.head(strings.TrimLeft(line, " "))
	case !r.inside:
		return fmt.Errorf("%.60q is a frame without a sample before it", strings.TrimSpace(line))
	}
	if m := perfFrame.FindStringSubmatch(line); m != nil {
		if len(r.stack) == mostDepth {
			return fmt.Errorf("the stack has more than %d frames", mostDepth)
		}
		r.stack = append(r.stack, nativeFrame(m[2], m[3]))
		return nil
	}
	if file, at, ok := fileLine(strings.TrimSpace(line)); ok && len(r.stack) > 0 {
		last := &r.stack[len(r.stack)-1]
		last.File, last.Line = file, at
		return nil
	}
	return fmt.Errorf("%.60q is not a frame: it has to be as perf script prints it, "+
		"an address, a symbol and (a file)", strings.TrimSpace(line))
}

// head begins a sample. Software clocks count nanoseconds. What other events count is not time.
func (r *perfReader) head(line string) error {
	if err := r.end(); err != nil {
		return err
	}
	m := perfHeader.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("%.60q is not the head of a sample as perf script prints it", line)
	}
	r.inside, r.worth = true, r.each
	if at, err := strconv.ParseFloat(m[2], 64); err == nil {
		if r.first < 0 {
			r.first = at
		}
		r.last = at
	}
	if strings.HasPrefix(m[4], "cpu-clock") || strings.HasPrefix(m[4], "task-clock") {
		if period, err := strconv.ParseInt(m[3], 10, 64); err == nil && period > 0 &&
			period < 100e9 {
			r.worth = period
		}
	}
	return nil
}

// end adds the sample that was read.
func (r *perfReader) end() error {
	stack := r.stack
	r.stack, r.inside = r.stack[:0], false
	return r.b.Add(stack, 1, r.worth)
}

// nativeFrame returns a frame from perf, which may be in code that was generated while the program
// ran.
func nativeFrame(symbol, binary string) Frame {
	binary, _, _ = strings.Cut(binary, " (deleted)")
	switch {
	case strings.HasPrefix(binary, "[kernel") || strings.HasPrefix(binary, "[guest.kernel"):
		return Frame{Function: symbol, Binary: kernelBinary}
	case symbol == "[unknown]":
		return Frame{Function: symbol, Binary: binary}
	}
	if strings.HasPrefix(binary, "/tmp/perf-") || strings.HasPrefix(binary, "//anon") {
		return Compiled(symbol)
	}
	return Frame{Function: symbol, Binary: binary}
}

// Compiled returns the frame for a symbol of code that was compiled while the program ran, as its
// runtime names it in /tmp/perf-PID.map: V8 "JS:*handle /srv/shop.js:12:3", CPython
// "py::handle:/srv/shop.py", the JVM's agents "Lshop/App;::handle".
func Compiled(symbol string) Frame {
	if rest, ok := strings.CutPrefix(symbol, "py::"); ok {
		name, file, _ := strings.Cut(rest, ":")
		return Frame{Function: name, File: file}
	}
	for _, prefix := range [...]string{"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"} {
		rest, ok := strings.CutPrefix(symbol, prefix)
		if !ok {
			continue
		}
		// The prefix says how the code was compiled: ~ interpreted, ^ and + baseline, * optimized.
		name, at, _ := strings.Cut(strings.TrimLeft(rest, "~^*+"), " ")
		f := Frame{Function: name}
		f.File, f.Line = scriptPlace(at)
		if f.Function == "" {
			f.Function = anonymous
		}
		return f
	}
	if class, method, ok := strings.Cut(symbol, ";::"); ok && strings.HasPrefix(class, "L") {
		return javaFrame(class[1:]+"."+method, 0)
	}
	if class, method, ok := strings.Cut(symbol, "::"); ok && strings.Contains(class, ".") &&
		!strings.ContainsAny(class, " <(") {
		method, _, _ = strings.Cut(method, "(")
		return javaFrame(class+"."+method, 0)
	}
	return Frame{Function: symbol}
}

// anonymous is the name of a function without a name.
const anonymous = "(anonymous)"

// scriptPlace parses "file:///srv/shop.js:12:3".
func scriptPlace(at string) (file string, line int) {
	file = strings.TrimPrefix(at, "file://")
	var numbers []int
	for len(numbers) < 2 {
		i := strings.LastIndexByte(file, ':')
		if i < 0 {
			break
		}
		n, err := strconv.Atoi(file[i+1:])
		if err != nil {
			break
		}
		numbers, file = append(numbers, n), file[:i]
	}
	if len(numbers) > 0 {
		line = max(numbers[len(numbers)-1], 0)
	}
	return file, line
}
