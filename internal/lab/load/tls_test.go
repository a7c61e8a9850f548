package load_test

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

// secure is an https server, and a file with its authority.
func secure(t testing.TB) (s *httptest.Server, ca string) {
	t.Helper()
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if size := len(r.URL.Path) * 1000; size > 1000 {
			w.Write(make([]byte, size))
			return
		}
		io.WriteString(w, "ok")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return s, ca
}

func TestHTTPSIsLoadedAsHTTPIs(t *testing.T) {
	s, ca := secure(t)
	for _, path := range []string{"/", "/" + strings.Repeat("x", 200)} {
		o := get(t, s.URL+path)
		o.Target = target(t, s.URL+path, load.TLSOptions{CA: ca})
		o.Arrivals, o.Loops = every(100, ms), 2
		totals, _ := run(t, o)
		want(t, totals, map[measure.Kind]uint64{measure.OK: 100})
		if totals.ConnectionsMade != 4 || totals.Reused != 96 {
			t.Errorf("%d connections, %d requests used one again", totals.ConnectionsMade, totals.Reused)
		}
	}
}

func TestSessionsAreResumedUnlessToldNot(t *testing.T) {
	s, ca := secure(t)
	for _, never := range []bool{false, true} {
		o := get(t, s.URL)
		o.Target = target(t, s.URL, load.TLSOptions{CA: ca, NoResumption: never})
		o.Connections, o.PerConnection, o.Arrivals = 1, 1, every(10, 5*ms)
		totals, _ := run(t, o)
		want(t, totals, map[measure.Kind]uint64{measure.OK: 10})
		if resumed := totals.Resumed; never && resumed != 0 || !never && resumed < 5 {
			t.Errorf("resumption refused: %v; of %d handshakes %d resumed a session", never, totals.ConnectionsMade, resumed)
		}
	}
}

func TestTLSThatCannotBeSpokenIsAnError(t *testing.T) {
	s, ca := secure(t)
	plain := serve(t, send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
	for _, c := range []struct {
		url    string
		secure load.TLSOptions
		text   string
	}{
		{s.URL, load.TLSOptions{}, "unknown authority"},
		{s.URL, load.TLSOptions{CA: ca, ServerName: "elsewhere.test"}, "elsewhere.test"},
		{"https://" + plain.address, load.TLSOptions{CA: ca}, "TLS"},
	} {
		o := get(t, c.url)
		o.Target = target(t, c.url, c.secure)
		o.Duration = time.Second
		_, err := load.Run(t.Context(), o)
		if err == nil {
			t.Errorf("%s: no error", c.text)
			continue
		}
		contains(t, err.Error(), c.text)
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %v", err)
		}
	}
	o := get(t, s.URL)
	o.Target = target(t, s.URL, load.TLSOptions{Insecure: true})
	o.Arrivals = every(5, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 5})
}

func TestAHandshakeThatHangsIsGivenUp(t *testing.T) {
	listener := listen(t)
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	o := get(t, "https://"+listener.Addr().String())
	o.Target.TLS = &tls.Config{InsecureSkipVerify: true}
	o.Timeout = 50 * time.Millisecond
	_, err := load.Run(t.Context(), o)
	if err == nil {
		t.Fatal("a target that says nothing was loaded")
	}
	contains(t, err.Error(), "timeout")
}

// A server of plain TCP that ends the connection at the first bytes of TLS, as many do.
func TestTLSToAServerThatEndsTheConnectionIsExplained(t *testing.T) {
	s := accept(t, func(_ int64, c net.Conn) { c.Read(make([]byte, 1<<10)) })
	target, err := load.Resolve(t.Context(), "https://"+s.address+"/", load.TLSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = load.Run(t.Context(), load.Options{Target: target, Script: load.Static("GET /",
		[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false), Connections: 1,
		Duration: time.Second, Timeout: patience})
	if want := "no connection to " + s.address + ": it ended the connection when TLS " +
		"began: does the target speak http and not https?"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
