package load_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	codec "plimsoll/internal/http3"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

// identity is a certificate for 127.0.0.1, and a file with its authority.
func identity(t testing.TB) (tls.Certificate, string) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return s.TLS.Certificates[0], ca
}

// serve3 is quic-go's server of HTTP/3, and a run that speaks to it.
func serve3(t *testing.T, streams int, handler http.HandlerFunc) (*http3.Server, load.Options) {
	t.Helper()
	cert, ca := identity(t)
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http3.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		QUICConfig: &quic.Config{MaxIncomingStreams: int64(streams)}}
	go s.Serve(conn)
	t.Cleanup(func() {
		s.Close()
		conn.Close()
	})
	return s, over3(t, conn.LocalAddr().String(), ca)
}

// over3 makes a run speak HTTP/3 over one connection.
func over3(t *testing.T, address, ca string) load.Options {
	t.Helper()
	o := get(t, "https://"+address+"/x?y")
	o.Target = target(t, "https://"+address+"/x?y", load.TLSOptions{CA: ca, ServerName: "example.com"})
	o.Target.HTTP3, o.Connections, o.Streams = true, 1, 4
	return o
}

func TestLoadOverHTTP3(t *testing.T) {
	saw := make(chan string, 1000)
	_, o := serve3(t, 100, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		saw <- r.Proto + " " + r.Method + " " + r.RequestURI + " " + r.Header.Get("X-A") + " " + string(body)
		io.WriteString(w, strings.Repeat("x", 3000))
	})
	o.Arrivals = every(40, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 40})
	if got := <-saw; got != "HTTP/3.0 GET /x?y  " {
		t.Errorf("the target saw %q", got)
	}
	if totals.ConnectionsMade != 1 || totals.BytesIn < 40*3000 || totals.BytesOut == 0 {
		t.Errorf("%d connections, %d bytes in, %d out", totals.ConnectionsMade, totals.BytesIn, totals.BytesOut)
	}
}

// A target that allows fewer streams than asked for makes requests wait, and fails none.
func TestATargetOfHTTP3ThatAllowsFewStreams(t *testing.T) {
	both := make(chan bool)
	_, o := serve3(t, 2, func(http.ResponseWriter, *http.Request) {
		select { // each waits for another one
		case both <- true:
		case <-both:
		}
	})
	o.Streams = 10
	o.Arrivals = every(60, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 60})
}

func TestAClosedLoopOverHTTP3(t *testing.T) {
	_, o := serve3(t, 100, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	o.Connections, o.Streams, o.Duration = 2, 3, 200*time.Millisecond
	totals, _ := run(t, o)
	if totals.Ended[measure.OK] < 20 || len(totals.Examples) > 0 {
		t.Errorf("%v, %v", totals.Ended, totals.Examples)
	}
	if totals.Peak > 6 {
		t.Errorf("%d requests were under way at once", totals.Peak)
	}
}

func TestFailuresOverHTTP3AreCountedAsWhatTheyAre(t *testing.T) {
	var n atomic.Int64
	_, o := serve3(t, 100, func(w http.ResponseWriter, r *http.Request) {
		count := n.Add(1)
		switch count {
		case 1:
			w.WriteHeader(503)
		case 2:
			w.Write([]byte("some"))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case 3:
			<-r.Context().Done() // until the generator gives it up
		}
	})
	// A second stream, so that none waits behind the one that gets no answer.
	o.Streams, o.Timeout = 2, 3*time.Second
	o.Arrivals = every(6, 20*ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{
		measure.OK: 3, measure.BadStatus: 1, measure.ConnectionLost: 1, measure.Timeout: 1,
	})
}

// script3 is a target that says what a test wants on each stream.
func script3(t *testing.T, answer func(q *quic.Conn, s *quic.Stream)) load.Options {
	t.Helper()
	cert, ca := identity(t)
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tr := &quic.Transport{Conn: conn}
	ln, err := tr.Listen(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h3"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tr.Close()
		conn.Close()
	})
	go func() {
		for {
			q, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				for {
					s, err := q.AcceptStream(context.Background())
					if err != nil {
						return
					}
					go answer(q, s)
				}
			}()
		}
	}()
	return over3(t, ln.Addr().String(), ca)
}

func TestWhatBreaksTheRulesOfHTTP3IsBadHTTP(t *testing.T) {
	var e codec.Encoder
	head := func(pairs ...string) string {
		e.Begin()
		for i := 0; i < len(pairs); i += 2 {
			e.Field([]byte(pairs[i]), []byte(pairs[i+1]))
		}
		return string(e.AppendSection(nil))
	}
	data := string(codec.AppendFrame(nil, codec.Data, []byte("abc")))
	for name, c := range map[string]struct {
		answer string
		kind   measure.Kind
	}{
		"fine":               {head(":status", "200", "content-length", "3") + data, measure.OK},
		"an interim one":     {head(":status", "103") + head(":status", "200") + data + head("x", "y"), measure.OK},
		"nothing":            {"", measure.BadHTTP},
		"an interim alone":   {head(":status", "103"), measure.BadHTTP},
		"no status":          {head("x", "y"), measure.BadHTTP},
		"a connection field": {head(":status", "200", "connection", "close"), measure.BadHTTP},
		"data first":         {data, measure.BadHTTP},
		"too short":          {head(":status", "200", "content-length", "4") + data, measure.BadHTTP},
		"too long":           {head(":status", "200", "content-length", "2") + data, measure.BadHTTP},
		"half a frame":       {head(":status", "200") + data[:3], measure.BadHTTP},
		"a block":            {string(codec.AppendFrame(nil, codec.Headers, []byte{0, 0, 0xff, 0xff, 0xff})), measure.BadHTTP},
	} {
		t.Run(name, func(t *testing.T) {
			o := script3(t, func(_ *quic.Conn, s *quic.Stream) {
				io.Copy(io.Discard, s)
				io.WriteString(s, c.answer)
				s.Close()
			})
			o.Arrivals = every(3, ms)
			totals, _ := run(t, o)
			want(t, totals, map[measure.Kind]uint64{c.kind: 3})
		})
	}
}

func TestAConnectionOfHTTP3ThatEndsLosesItsRequestsAndIsMadeAgain(t *testing.T) {
	var n atomic.Int64
	var e codec.Encoder
	e.Begin()
	e.Field([]byte(":status"), []byte("200"))
	ok := e.AppendSection(nil)
	o := script3(t, func(q *quic.Conn, s *quic.Stream) {
		io.Copy(io.Discard, s)
		if n.Add(1) == 3 {
			q.CloseWithError(0x102, "")
			return
		}
		s.Write(ok)
		s.Close()
	})
	o.Streams = 1
	o.Arrivals = every(8, 20*ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 7, measure.ConnectionLost: 1})
	if totals.ConnectionsMade != 2 {
		t.Errorf("%d connections", totals.ConnectionsMade)
	}
}

func TestATargetWithoutHTTP3IsAnError(t *testing.T) {
	_, ca := identity(t)
	nobody, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	o := over3(t, nobody.LocalAddr().String(), ca)
	o.Timeout, o.Duration = 100*time.Millisecond, time.Second
	if _, err := load.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("got %v", err)
	}
	o.Target.TLS = nil
	if _, err := load.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "https://") {
		t.Errorf("without TLS: %v", err)
	}
}
