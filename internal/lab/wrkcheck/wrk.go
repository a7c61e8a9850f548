package wrkcheck

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// maxOutput is the most of wrk's output that is kept; usually it is a dozen lines.
const maxOutput = 64 << 10

// Printed is the output of wrk for one run. Its latencies are corrected: wrk prints no others.
type Printed struct {
	Requests uint64 // answers, whatever their status
	// BadStatus and Timeouts are answers above 399, and late answers; Requests includes both.
	// SocketErrors are failures to connect, read and write; Requests does not include them.
	BadStatus, Timeouts, SocketErrors uint64
	PerSecond                         float64
	Mean, P99                         Latency
}

// Latency is a duration as wrk prints it, with two decimals of a unit.
type Latency struct {
	Nanoseconds float64
	Rounding    float64 // the largest possible rounding error, in nanoseconds
}

// Wrk runs wrk until it ends by itself or ctx ends. args are its arguments; --latency is added.
func Wrk(ctx context.Context, args ...string) (*Printed, error) {
	path, err := exec.LookPath("wrk")
	if err != nil {
		return nil, errors.New("wrk is not installed: install it (the package's name is wrk, " +
			"in Debian too), or leave out --verify")
	}
	var out, errs bounded
	command := exec.CommandContext(ctx, path, append([]string{"--latency"}, args...)...)
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		said, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return nil, fmt.Errorf("wrk %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return Parse(out.Bytes())
}

// bounded is a buffer that drops everything after maxOutput.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxOutput-b.Len())])
	return len(p), nil
}

// Parse parses the output of wrk --latency. It fails if a value is missing, or if there was no
// answer at all.
func Parse(output []byte) (*Printed, error) {
	p := &Printed{}
	lines := bufio.NewScanner(bytes.NewReader(output))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		if err := p.line(fields); err != nil {
			return nil, fmt.Errorf("wrk printed %q: %w", strings.TrimSpace(lines.Text()), err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("what wrk printed cannot be read: %w", err)
	}
	switch {
	case p.Requests == 0:
		return nil, errors.New("wrk got no answer: check the address with curl")
	case p.PerSecond == 0 || p.Mean.Nanoseconds == 0 || p.P99.Nanoseconds == 0:
		return nil, errors.New("wrk's output lacks its rate, its mean or its 99th percentile: " +
			"this program knows that of wrk 4")
	}
	return p, nil
}

// line parses one line, split into words. Its first words identify the line: the share in the
// column "+/- Stdev" looks like the name of a percentile, but is never the first word.
func (p *Printed) line(fields []string) (err error) {
	last := fields[len(fields)-1]
	switch first := fields[0]; {
	case first == "Latency" && len(fields) == 5:
		p.Mean, err = parseLatency(fields[1])
	case first == "99%" && len(fields) == 2:
		p.P99, err = parseLatency(last)
	case first == "Requests/sec:":
		p.PerSecond, err = strconv.ParseFloat(last, 64)
	case first == "Non-2xx":
		p.BadStatus, err = strconv.ParseUint(last, 10, 64)
	case first == "Socket" && fields[1] == "errors:":
		err = p.socketErrors(fields[2:])
	case len(fields) > 3 && fields[1] == "requests" && fields[2] == "in":
		p.Requests, err = strconv.ParseUint(first, 10, 64)
	}
	return err
}

// socketErrors parses "connect 0, read 0, write 0, timeout 3".
func (p *Printed) socketErrors(fields []string) error {
	for i := 0; i+1 < len(fields); i += 2 {
		n, err := strconv.ParseUint(strings.TrimSuffix(fields[i+1], ","), 10, 64)
		if err != nil {
			return err
		}
		if fields[i] == "timeout" {
			p.Timeouts += n
		} else {
			p.SocketErrors += n
		}
	}
	return nil
}

// units are the units of wrk's durations. If one name is a suffix of another, the longer comes
// first.
var units = []struct {
	name   string
	length time.Duration
}{
	{"us", time.Microsecond},
	{"ms", time.Millisecond},
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
}

// parseLatency parses "100.87us".
func parseLatency(text string) (Latency, error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		if n, err := strconv.ParseFloat(number, 64); err == nil && n >= 0 {
			return Latency{Nanoseconds: n * float64(u.length), Rounding: .005 * float64(u.length)},
				nil
		}
	}
	return Latency{}, fmt.Errorf("%q is not a duration", text)
}

// Success is the share of requests answered in time with a status below 400, 0 to 1.
func (p *Printed) Success() float64 {
	total := float64(p.Requests + p.SocketErrors)
	return max(0, float64(p.Requests)-float64(p.BadStatus+p.Timeouts)) / total
}
