package demo

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// standIn does what the demo's configuration asks of a gateway, for well-formed requests.
func standIn(shop http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "1")
		shop.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/api/v1" + r.URL.Path
		shop.ServeHTTP(w, r)
	})
	mux.Handle("GET /{$}", http.RedirectHandler("/api/v1/items", http.StatusTemporaryRedirect))
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	return mux
}

// visitGood sends the well-formed kinds to a gateway that is made of handler.
func visitGood(t *testing.T, handler http.Handler, stock int64) map[string]Row {
	t.Helper()
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	v := Visitor{HTTP: plain.Listener.Addr().String(), HTTPS: secure.Listener.Addr().String(), Stock: stock}
	rows := map[string]Row{}
	client := secure.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, k := range v.goodKinds(client) {
		rows[k.name] = k.run(t.Context())
	}
	client.CloseIdleConnections()
	return rows
}

func TestAGatewayThatPassesThingsOnIsFoundGood(t *testing.T) {
	shop := NewShop(NewStock(50), Options{})
	for name, row := range visitGood(t, standIn(shop), 50) {
		if !row.OK() {
			t.Errorf("%s: %v, want %v; %v", name, row.Statuses, row.Wanted, row.Problems)
		}
	}
}

func TestAGatewayThatSendsAPurchaseTwiceIsFoundOut(t *testing.T) {
	good := standIn(NewShop(NewStock(50), Options{}))
	twice := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			good.ServeHTTP(httptest.NewRecorder(), r)
		}
		good.ServeHTTP(w, r)
	})
	if row := visitGood(t, twice, 50)["POST buy until sold out"]; row.OK() {
		t.Errorf("not noticed: %v", row.Statuses)
	}
}

func TestAGatewayThatMixesUpAnswersIsFoundOut(t *testing.T) {
	for name, row := range visitGood(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"7"}`)
	}), 50) {
		// The gateway's own /health has no content to check, and chunked purchases are judged by
		// their status alone.
		if row.OK() && name != "GET /health, by the gateway" && name != "POST buy, chunked" {
			t.Errorf("%s: a wrong answer was taken for a right one", name)
		}
	}
}

// serveOnce answers one connection with answer and then, if closes, closes it; else it holds it
// until the client goes.
func serveOnce(t *testing.T, answer string, closes bool) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		for line := "x"; line != "\r\n"; {
			if line, err = r.ReadString('\n'); err != nil {
				return
			}
		}
		_, _ = io.WriteString(conn, answer)
		if !closes {
			_, _ = io.Copy(io.Discard, r)
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return listener.Addr().String()
}

func TestARefusalCountsOnlyWhenTheConnectionCloses(t *testing.T) {
	t.Parallel() // it waits, most of its time, for a connection that does not close
	const answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nno\n"
	status, err := raw(t.Context(), serveOnce(t, answer, true), "x\r\n\r\n")
	if status != 400 || err != nil {
		t.Errorf("closed: %d, %v; want 400 and no error", status, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if status, err = raw(ctx, serveOnce(t, answer, false), "x\r\n\r\n"); status != 400 || err == nil {
		t.Errorf("left open: %d, %v; want 400 and an error", status, err)
	}
}

func TestSilenceAndBrokenAnswersAreErrors(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing": "", "no HTTP": "hello\r\n\r\n", "cut body": "HTTP/1.1 400 Bad Request\r\nContent-Length: 30\r\n\r\nno\n",
	} {
		if _, err := raw(t.Context(), serveOnce(t, answer, true), "x\r\n\r\n"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTheTableSaysWhatWasWrong(t *testing.T) {
	rows := []Row{
		{Kind: "good", Over: "http", Sent: 2, Statuses: map[int]int{200: 2}, Wanted: map[int]int{200: 2}, P50: 1234567},
		{Kind: "bad", Over: "https", Sent: 3, Statuses: map[int]int{200: 1, 502: 2}, Wanted: map[int]int{200: 3}},
		{Kind: "broken", Over: "http", Sent: 1, Statuses: map[int]int{}, Wanted: map[int]int{200: 1}, Problems: []string{"no answer"}},
	}
	var b strings.Builder
	wrong, err := WriteTable(&b, rows)
	if wrong != 2 || err != nil {
		t.Errorf("%d wrong, %v; want 2", wrong, err)
	}
	for _, want := range []string{"1.23ms", "as expected", "200 ×1, 502 ×2", "WRONG, expected 200 ×3", "broken: no answer"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}

func TestPercentilesAreNearestRank(t *testing.T) {
	ds := make([]time.Duration, 200)
	for i := range ds {
		ds[i] = time.Duration(200 - i)
	}
	if p50, p99 := percentile(ds, 50), percentile(ds, 99); p50 != 100 || p99 != 198 {
		t.Errorf("p50 %d, p99 %d; want 100, 198", p50, p99)
	}
	if p := percentile(nil, 99); p != 0 {
		t.Errorf("of nothing: %d, want 0", p)
	}
}
