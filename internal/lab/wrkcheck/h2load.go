package wrkcheck

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"plimsoll/internal/lab/measure"
)

// H2load runs h2load until it ends by itself or ctx ends. args are its arguments. --log-file is
// added: the output of h2load has no percentiles, but its log has each request.
func H2load(ctx context.Context, args ...string) (*Printed, error) {
	path, err := exec.LookPath("h2load")
	if err != nil {
		return nil, errors.New("h2load is not installed: install it (the package's name is " +
			"nghttp2-client in Debian), or leave out --verify")
	}
	dir, err := os.MkdirTemp("", "plimsoll-h2load-")
	if err != nil {
		return nil, fmt.Errorf("a place for h2load's log: %w", err)
	}
	defer os.RemoveAll(dir)
	log := filepath.Join(dir, "log")
	var out, errs bounded
	command := exec.CommandContext(ctx, path, append([]string{"--log-file=" + log}, args...)...)
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		said, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return nil, fmt.Errorf("h2load %s: %w: %s", strings.Join(args, " "), err, said)
	}
	p, err := parseH2load(out.Bytes())
	if err != nil {
		return nil, err
	}
	f, err := os.Open(log)
	if err != nil {
		return nil, fmt.Errorf("h2load's log: %w", err)
	}
	defer f.Close()
	return p, p.readLog(f)
}

// parseH2load parses the counts in h2load's output. It fails if there was no answer at all.
func parseH2load(output []byte) (*Printed, error) {
	p := &Printed{}
	var done, succeeded uint64
	lines := bufio.NewScanner(bytes.NewReader(output))
	for lines.Scan() {
		line := lines.Text()
		if finished, ok := strings.CutPrefix(line, "finished in "); ok {
			fields := strings.Fields(finished)
			if len(fields) > 1 {
				p.PerSecond, _ = strconv.ParseFloat(fields[1], 64)
			}
		}
		counts, ok := strings.CutPrefix(line, "requests: ")
		if !ok {
			continue
		}
		for _, count := range strings.Split(counts, ", ") {
			number, what, _ := strings.Cut(count, " ")
			n, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("h2load printed %q: %w", line, err)
			}
			switch what {
			case "done":
				done = n
			case "succeeded":
				succeeded = n
			case "errored":
				p.SocketErrors = n
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("what h2load printed cannot be read: %w", err)
	}
	p.Requests = done - min(p.SocketErrors, done)
	p.BadStatus = p.Requests - min(succeeded, p.Requests)
	if p.Requests == 0 || p.PerSecond <= 0 {
		return nil, errors.New("h2load got no answer: check the address with curl --http2")
	}
	return p, nil
}

// readLog computes the mean and the 99th percentile from h2load's log. The log has a line for each
// request, with its start, its status and its microseconds.
func (p *Printed) readLog(log io.Reader) error {
	var times measure.Histogram
	sum, n := 0.0, uint64(0)
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 3 {
			return fmt.Errorf("h2load's log has the line %q: this program knows that of h2load 1",
				lines.Text())
		}
		us, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || us < 0 || us > measure.Longest/1000 {
			return fmt.Errorf("h2load's log has the time %q", fields[2])
		}
		times.Record(us * 1000)
		sum += float64(us) * 1000
		n++
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("h2load's log cannot be read: %w", err)
	}
	if n == 0 {
		return errors.New("h2load's log is empty")
	}
	all := times.Sparse()
	// Microseconds are truncated, by half of one on average; and a percentile is the value of a
	// bucket.
	p.Mean = Latency{Nanoseconds: sum/float64(n) + 500, Rounding: 500}
	p.P99 = Latency{Nanoseconds: float64(all.Quantile(.99)), Rounding: 1000}
	return nil
}
