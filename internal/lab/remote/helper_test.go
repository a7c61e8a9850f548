package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"plimsoll/internal/lab/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipe is one end of a connection in memory.
type pipe struct {
	io.Reader
	io.WriteCloser
	closed func()
}

func (p *pipe) Close() error {
	err := p.WriteCloser.Close()
	if p.closed != nil {
		p.closed()
	}
	return err
}

// pipes are both ends. What is written to a closed one is an error on the other side, as with a
// process that has ended.
func pipes() (near, far *pipe) {
	a, b := io.Pipe()
	c, d := io.Pipe()
	near, far = &pipe{Reader: a, WriteCloser: d}, &pipe{Reader: c, WriteCloser: b}
	near.closed = func() { a.Close() }
	far.closed = func() { c.Close() }
	return near, far
}

// inProcess dials generators that are this process. They end with the test.
func inProcess(t *testing.T) func(context.Context, string) (Link, error) {
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	return func(context.Context, string) (Link, error) {
		near, far := pipes()
		serving.Go(func() {
			// A generator whose fleet has gone may be about to say something.
			err := Serve(context.Background(), far, far, "sum")
			if err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("a generator: %v", err)
			}
			far.Close()
		})
		return near, nil
	}
}

// target is a service that counts the paths it is asked for.
type target struct {
	url  string
	mu   sync.Mutex
	seen map[string]int
}

func serve(t *testing.T) *target {
	g := &target{seen: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.seen[r.URL.Path]++
		g.mu.Unlock()
		io.WriteString(w, "ok")
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// work is one GET to the target.
func (g *target) work(t *testing.T) *Work {
	t.Helper()
	resolved, err := load.Resolve(t.Context(), g.url, load.TLSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request, err := load.Prepare(resolved, "GET", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Work{URL: g.url, Request: &Request{Name: "GET /", Bytes: request}}
}

// open opens a fleet that ends with the test.
func open(t *testing.T, o Options) *Fleet {
	t.Helper()
	if o.Dial == nil {
		o.Dial = inProcess(t)
	}
	if o.Script == nil {
		o.Script = o.Work.Script()
	}
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// patience is for what only a hung test waits for.
const patience = time.Minute

func optionsOf(loops int) load.Options { return load.Options{Connections: 1000, Loops: loops} }
