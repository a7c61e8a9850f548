// Command jackstays tells the crew how heavily a jackstay, the line that they clip themselves to,
// may be loaded. The certificate of a line comes from the service of the inspectors, which takes
// 6 ms, and the last few hundred are kept. One mutex guards what is kept, and it stays locked
// while a certificate that is not there is asked for. So all requests wait for that answer, those
// whose certificate is kept as well.
//
// Cured, the mutex is unlocked while the inspectors are asked.
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// lines are on all the ships, and the certificates of most of them are kept.
	lines, kept = 600, 480
	// weight of a person with a harness, in kilograms.
	weight = 110
)

func main() { ward.Main(rig) }

func rig(p *ward.Patient) (http.Handler, error) {
	address := os.Getenv("PATIENT_SERVICE")
	if address == "" {
		return nil, errors.New("PATIENT_SERVICE is not set: give it as 127.0.0.1:8080")
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: time.Minute}
	p.OnEnd(transport.CloseIdleConnections)
	l := &locker{
		inspectors: inspectors{
			url:    "http://" + address,
			client: &http.Client{Transport: transport, Timeout: 5 * time.Second},
		},
		certificates: make(map[int]certificate, kept),
		cured:        p.Cured,
	}
	for line := range kept {
		l.certificates[line] = read(line, nil)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := rand.IntN(lines)
		c, err := l.certificateOf(r.Context(), line)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "line %d of %d mm holds %d people\n%s\n", line, c.diameter, c.people(),
			work.Do(2))
	}), nil
}

// certificate is what the inspectors found out about a line.
type certificate struct {
	diameter int // in millimetres
	worn     int // in percent
}

// people are how many may clip themselves to the line at once.
func (c certificate) people() int {
	breaking := c.diameter * c.diameter * 20 * (100 - c.worn) / 100
	return breaking / 10 / weight
}

// locker keeps certificates. Any goroutine may call.
type locker struct {
	inspectors inspectors
	cured      bool

	mu           sync.Mutex
	certificates map[int]certificate
}

// certificateOf returns a line's certificate, and asks the inspectors for one that is not kept.
func (l *locker) certificateOf(ctx context.Context, line int) (certificate, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.certificates[line]; ok {
		return c, nil
	}
	c, err := l.fetch(ctx, line)
	if err != nil {
		return certificate{}, err
	}
	l.keep(line, c)
	return c, nil
}

// fetch is called with mu locked.
func (l *locker) fetch(ctx context.Context, line int) (certificate, error) {
	if l.cured {
		l.mu.Unlock()
		defer l.mu.Lock()
	}
	return l.inspectors.ask(ctx, line)
}

// keep has one certificate make room for the new one. It is called with mu locked.
func (l *locker) keep(line int, c certificate) {
	for old := range l.certificates {
		if len(l.certificates) < kept {
			break
		}
		delete(l.certificates, old)
	}
	l.certificates[line] = c
}

// inspectors is the service that knows all certificates.
type inspectors struct {
	url    string
	client *http.Client
}

func (i inspectors) ask(ctx context.Context, line int) (certificate, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("%s/certificates/%d", i.url, line), nil)
	if err != nil {
		return certificate{}, err
	}
	answer, err := i.client.Do(request)
	if err != nil {
		return certificate{}, fmt.Errorf("ask the inspectors: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err != nil {
		return certificate{}, fmt.Errorf("read what the inspectors answered: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return certificate{}, fmt.Errorf("the inspectors answered %s", answer.Status)
	}
	return read(line, body), nil
}

// read takes a certificate from the seal on the answer.
func read(line int, answer []byte) certificate {
	seal := crc32.ChecksumIEEE(fmt.Appendf(answer, " %d", line))
	return certificate{diameter: 10 + int(seal%8), worn: int(seal / 8 % 40)}
}
