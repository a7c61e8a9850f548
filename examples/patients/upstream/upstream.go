// Package upstream is the service that a patient asks: a process of its own, so that what happens
// in it is not seen in the patient's profiles. It is the patient's program started once more. It
// must know nothing of the patient but how many may be served at once, and how long that takes.
package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"plimsoll/examples/patients/ward"
)

// role is the environment variable that makes a program an upstream; its value says which.
const role = "PATIENT_UPSTREAM"

// connections to an upstream are kept, so many that none is opened twice, even when far too much is
// asked.
const connections = 10_000

// answerSize is how much an upstream answers: about what a small JSON document is.
const answerSize = 512

// Main is the main function of a patient that asks an upstream, and of the upstream: there it serves
// until its standard input ends, which it does when the patient is gone, however that came.
func Main(open func(p *ward.Patient) (http.Handler, error)) {
	if !here() {
		ward.Main(open)
	}
}

// here returns false at once in the patient itself; in the upstream it serves, and returns true.
func here() bool {
	which, ok := os.LookupEnv(role)
	if !ok {
		return false
	}
	if err := serve(which, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(2)
	}
	return true
}

// Upstream is an upstream that runs. Any goroutine may ask it.
type Upstream struct {
	url    string
	client *http.Client
}

// Start starts an upstream of so many workers, of which each takes that long for a request. It ends
// with the patient.
func Start(p *ward.Patient, workers int, service time.Duration) (*Upstream, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the patient's program: %w", err)
	}
	child := exec.Command(program)
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", role, workers, service))
	child.Stderr = os.Stderr
	in, inErr := child.StdinPipe()
	out, outErr := child.StdoutPipe()
	if err := errors.Join(inErr, outErr, child.Start()); err != nil {
		return nil, fmt.Errorf("start the upstream: %w", err)
	}
	p.OnEnd(func() {
		in.Close()
		child.Wait()
	})
	address, err := bufio.NewReader(io.LimitReader(out, 128)).ReadString('\n')
	if err != nil {
		return nil, errors.New("the upstream ended before it listened")
	}
	return to(strings.TrimSpace(address)), nil
}

// to is the upstream that listens at an address.
func to(address string) *Upstream {
	return &Upstream{
		url: "http://" + address,
		client: &http.Client{
			Timeout: 10 * time.Second,
			Transport: &http.Transport{
				MaxIdleConnsPerHost: connections,
				IdleConnTimeout:     time.Minute,
			},
		},
	}
}

// Through has the upstream be asked through another transport: for patients whose HTTP client is
// what is sick. It is called before the first Ask.
func (u *Upstream) Through(t *http.Transport) { u.client.Transport = t }

// Address is where it listens, HOST:PORT: for patients that ask by a client of their own.
func (u *Upstream) Address() string { return strings.TrimPrefix(u.url, "http://") }

// Ask sends a request and returns the answer. It gives up when the context ends, or after 10 s.
func (u *Upstream) Ask(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := u.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the upstream: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the upstream answered %s", answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, answerSize))
}

// serve prints where it listens, and serves until in ends.
func serve(which string, in io.Reader, out io.Writer) error {
	var workers int
	var length string
	if _, err := fmt.Sscan(which, &workers, &length); err != nil {
		return fmt.Errorf("%s=%q: %w", role, which, err)
	}
	service, err := time.ParseDuration(length)
	if err != nil || workers < 1 {
		return fmt.Errorf("%s=%q is not a number of workers and a time", role, which)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           handler(workers, service),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	fmt.Fprintln(out, l.Addr())
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	server.Close()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler lets so many requests in at once. Who goes away while he waits is not served.
func handler(workers int, service time.Duration) http.HandlerFunc {
	free := make(chan struct{}, workers)
	answer := []byte(strings.Repeat("x", answerSize))
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		time.Sleep(service)
		<-free
		w.Write(answer)
	}
}
