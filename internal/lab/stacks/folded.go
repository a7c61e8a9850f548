package stacks

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// lines yields a text's lines with their numbers, starting at 1, without line ends.
func lines(data []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for n := 1; len(data) > 0; n++ {
			line, rest, _ := bytes.Cut(data, []byte("\n"))
			data = rest
			if !yield(n, strings.TrimSuffix(string(line), "\r")) {
				return
			}
		}
	}
}

// readFolded reads folded stacks: one line per stack with the root first, frames separated by ";",
// and after a space the number of samples.
func readFolded(data []byte, o Options) (*profile.Profile, error) {
	b := NewBuilder(o.Seconds)
	each := o.nanos(usualHertz)
	var stack []Frame
	for n, line := range lines(data) {
		if line = strings.TrimSpace(strings.TrimPrefix(line, "\uFEFF")); line == "" ||
			line[0] == '#' {
			continue
		}
		if strings.Trim(line, "0123456789") == "" {
			continue // py-spy's samples of a thread that had no frame at that moment
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("line %d: there is no number of samples after the stack: "+
				"folded stacks are lines such as main;handle;parse 42", n)
		}
		count, err := strconv.ParseInt(line[at+1:], 10, 64)
		if err != nil || count < 0 || count > mostCount {
			return nil, fmt.Errorf("line %d: %.40q is not a number of samples", n, line[at+1:])
		}
		if strings.Count(line[:at], ";") >= mostDepth {
			return nil, fmt.Errorf("line %d: the stack has more than %d frames", n, mostDepth)
		}
		if count == 0 {
			continue
		}
		stack = stack[:0]
		for rest := line[:at]; rest != ""; {
			i := strings.LastIndexByte(rest, ';')
			if f := foldedFrame(strings.TrimSpace(rest[i+1:])); f.Function != "" {
				stack = append(stack, f)
			}
			rest = rest[:max(i, 0)]
		}
		if err := b.Add(stack, count, count*each); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return b.finish()
}

// mostCount is the maximum number of samples of one stack: some weeks of samples of all processors.
// At 1 Hz or more, its product with the nanoseconds of a sample does not overflow.
const mostCount = 1_000_000_000

// foldedFrame parses a frame as the tools write it: rbspy "handle - shop/app.rb:12", py-spy "handle
// (shop/app.py:12)", async-profiler "shop/App.handle_[j]", perf's folding "handle_[k]".
func foldedFrame(text string) Frame {
	if i := strings.LastIndex(text, " ("); i > 0 && strings.HasSuffix(text, ")") {
		if file, line, ok := fileLine(text[i+2 : len(text)-1]); ok {
			return Frame{Function: text[:i], File: file, Line: line}
		}
	}
	if i := strings.LastIndex(text, " - "); i > 0 {
		if file, line, ok := fileLine(text[i+3:]); ok {
			return Frame{Function: text[:i], File: file, Line: line}
		}
	}
	if i := strings.LastIndex(text, "_["); i > 0 && strings.HasSuffix(text, "]") {
		switch kind := text[i+2 : len(text)-1]; kind {
		case "k":
			return Frame{Function: text[:i], Binary: kernelBinary}
		case "j", "i", "0", "1":
			return javaFrame(text[:i], 0)
		}
	}
	// Without annotations, async-profiler writes java/lang/Thread.run.
	if i := strings.LastIndexByte(text, '.'); i > 0 && strings.Contains(text[:i], "/") &&
		!strings.ContainsAny(text, " :()[]") && !strings.Contains(text[:i], ".") {
		return javaFrame(text, 0)
	}
	return Frame{Function: text}
}

// kernelBinary is the binary of kernel code.
const kernelBinary = "[kernel]"

// fileLine parses "shop/app.py:12", or "shop/app.py" without a line. ok is false if the last part
// of the path has no dot, no "<" at its beginning and no line: then it is not a source file.
func fileLine(text string) (file string, line int, ok bool) {
	file = text
	if i := strings.LastIndexByte(text, ':'); i > 0 {
		if n, err := strconv.Atoi(text[i+1:]); err == nil && n >= 0 {
			file, line = text[:i], n
		}
	}
	base := file[strings.LastIndexByte(file, '/')+1:]
	return file, line, strings.Contains(base, ".") || strings.HasPrefix(base, "<") || line > 0
}

// javaFrame returns the frame of a JVM method, whose class may be written with slashes. The file is
// the one that Java's rules give the class: named after the outermost class, before the first $.
func javaFrame(method string, line int) Frame {
	method = strings.ReplaceAll(method, "/", ".")
	class := method
	if i := strings.LastIndexByte(method, '.'); i > 0 {
		class = method[:i]
	}
	class, _, _ = strings.Cut(class, "$")
	file := ""
	if class != "" && !strings.ContainsAny(class, " <>()") {
		file = strings.ReplaceAll(class, ".", "/") + ".java"
	}
	return Frame{Function: method, File: file, Line: line}
}
