package http1_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
)

// A reading is everything that came of parsing a head, in text, so that two can be compared and
// shown.
type reading struct {
	n    int
	err  http1.Error
	text string
}

func describeFields(l *head.List) string {
	var b strings.Builder
	for i := range l.Len() {
		f := l.At(i)
		fmt.Fprintf(&b, " [%d %s=%q", f.ID, f.Name, f.Value)
		if f.Line != nil {
			fmt.Fprintf(&b, " line %q", f.Line)
		}
		b.WriteString("]")
	}
	return b.String()
}

// readRequest shows a parser in as many pieces as there are ends, growing, at one address.
func readRequest(in []byte, lim *http1.Limits, ends ...int) (reading, *http1.Request) {
	b, r := slices.Clone(in), new(http1.Request)
	for _, end := range ends {
		n, err := r.Parse(b[:end], lim)
		if err != http1.OK {
			return reading{err: err}, r
		}
		if n > 0 {
			return reading{n: n, text: fmt.Sprintf("%s %q host %q query %q length %d framing %d minor %d keep %v expect %v upgrade %q%s",
				r.Method, r.Target, r.Host, r.Query, r.Length, r.Framing, r.Minor, r.KeepAlive, r.Expect100, r.Upgrade,
				describeFields(&r.Fields))}, r
		}
	}
	return reading{}, r
}

func readResponse(in []byte, lim *http1.Limits, toHEAD bool, ends ...int) (reading, *http1.Response) {
	b, r := slices.Clone(in), new(http1.Response)
	for _, end := range ends {
		n, err := r.Parse(b[:end], lim, toHEAD)
		if err != http1.OK {
			return reading{err: err}, r
		}
		if n > 0 {
			return reading{n: n, text: fmt.Sprintf("%d length %d framing %d minor %d keep %v upgrade %q%s",
				r.Status, r.Length, r.Framing, r.Minor, r.KeepAlive, r.Upgrade, describeFields(&r.Fields))}, r
		}
	}
	return reading{}, r
}

// readBody shows a decoder the pieces of in, each with what it did not take before.
func readBody(in []byte, f http1.Framing, length int64, lim *http1.Limits, ends ...int) (reading, *http1.Body) {
	var data []byte
	d := new(http1.Body)
	d.Start(f, length, lim)
	used := 0
	result := func(err http1.Error) (reading, *http1.Body) {
		text := fmt.Sprintf("%q done %v", data, d.Done())
		if t := d.Trailers(); t != nil && err == http1.OK {
			text += describeFields(t)
		}
		return reading{used, err, text}, d
	}
	for _, end := range ends {
		for used < end && !d.Done() {
			got, n, err := d.Next(in[used:end])
			data = append(data, got...)
			if err != http1.OK {
				used = 0 // where the error stands in the piece is nobody's business
				return result(err)
			}
			if n == 0 {
				break
			}
			used += n
		}
	}
	return result(http1.OK)
}

// upTo is every length from 1 to n: a byte at a time.
func upTo(n int) []int {
	ends := make([]int, n)
	for i := range ends {
		ends[i] = i + 1
	}
	return ends
}

// anySplit reads n bytes in one piece, in every two pieces and byte by byte, and demands the same
// result of all.
func anySplit(t *testing.T, n int, read func(ends ...int) reading) reading {
	t.Helper()
	whole := read(n)
	for i := 1; i < n; i++ {
		if got := read(i, n); got != whole {
			t.Fatalf("split at %d gives %+v\nbut whole it is %+v", i, got, whole)
		}
	}
	if got := read(upTo(n)...); got != whole {
		t.Fatalf("byte by byte it is %+v\nbut whole it is %+v", got, whole)
	}
	return whole
}

func requestInAnySplit(t *testing.T, in string, lim *http1.Limits) (reading, *http1.Request) {
	t.Helper()
	got := anySplit(t, len(in), func(ends ...int) reading {
		r, _ := readRequest([]byte(in), lim, ends...)
		return r
	})
	_, r := readRequest([]byte(in), lim, len(in))
	return got, r
}

func responseInAnySplit(t *testing.T, in string, lim *http1.Limits, toHEAD bool) (reading, *http1.Response) {
	t.Helper()
	got := anySplit(t, len(in), func(ends ...int) reading {
		r, _ := readResponse([]byte(in), lim, toHEAD, ends...)
		return r
	})
	_, r := readResponse([]byte(in), lim, toHEAD, len(in))
	return got, r
}

func bodyInAnySplit(t *testing.T, in string, f http1.Framing, length int64, lim *http1.Limits) (reading, *http1.Body) {
	t.Helper()
	got := anySplit(t, len(in), func(ends ...int) reading {
		r, _ := readBody([]byte(in), f, length, lim, ends...)
		return r
	})
	_, d := readBody([]byte(in), f, length, lim, len(in))
	return got, d
}
