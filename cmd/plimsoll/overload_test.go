package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/demo"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

// foundLine is a run directory of a survey that found this line; 0 for none.
func foundLine(t *testing.T, rate float64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := record.Create(dir, record.Manifest{Kind: record.KindSurvey})
	if err != nil {
		t.Fatal(err)
	}
	line := record.Line{Found: rate > 0, Interval: model.Interval{Estimate: rate}, Why: "none"}
	if err := w.Result(&record.Result{Line: line}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheDemoOffersThreeTimesItsLoadLine(t *testing.T) {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusConflict) // sold out, which is an answer
		case r.URL.Path == "/api/v1/items":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.Write([]byte(`{"left": 1}`))
		}
	}))
	defer shop.Close()
	t.Chdir(t.TempDir())
	if err := os.Mkdir(runsFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	c := &console{out: &out, err: &errs}
	d := &demoCommand{HTTP: strings.TrimPrefix(shop.URL, "http://")}
	if err := d.overload(t.Context(), c, foundLine(t, 50), 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`\noffered 3× the load line \(150/s\): P0 (\S+) % served, P1 0 %, P2 (\S+) %\n`)
	if !want.MatchString(out.String()) {
		t.Errorf("printed:\n%s", out.String())
	}
	if err := d.overload(t.Context(), c, foundLine(t, 0), time.Second); err == nil ||
		!strings.Contains(err.Error(), "no load line") {
		t.Errorf("without a load line: %v", err)
	}
}

func TestWhatIsServedIsOnTimeAndAsWanted(t *testing.T) {
	var times measure.Histogram
	for _, ms := range []int64{10, 20, 400, 600} {
		times.Record(ms * 1e6)
	}
	requests := measure.RequestTotals{Response: times.Sparse()}
	requests.Ended[measure.OK], requests.Ended[measure.Timeout] = 4, 4
	totals := &measure.Totals{}
	for _, name := range []string{"P0", "P1", "P2"} {
		requests.Name = name
		totals.Requests = append(totals.Requests, requests)
	}
	const want = "P0 25.0 % served, P1 37.5 %, P2 50.0 %"
	if said := servedByClass(totals); said != want {
		t.Errorf("says %q, want %q", said, want)
	}
}

// The line that the demo prints counts by the classes' defaults.
func TestTheDemosClassesPromiseWhatTheirDefaultsDo(t *testing.T) {
	files, err := demo.WriteFiles(t.TempDir(), demo.Addresses{HTTP: "127.0.0.1:8080",
		HTTPS: "127.0.0.1:8443", Admin: "127.0.0.1:9900",
		Shop: [2]string{"127.0.0.1:9001", "127.0.0.1:9002"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	given, err := config.Load(files.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range []string{"P0", "P1", "P2"} {
		if is, by := given.SLA(class).Latency, (&config.Config{}).SLA(class).Latency; is != by {
			t.Errorf("%s promises %v, and by default %v", class, is, by)
		}
	}
}

func TestTheDemosGatewayReloadsWhatProtectsTheShop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plimsoll.yaml")
	if err := os.WriteFile(file, []byte("shop:\n  # "+demo.Adaptive+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, taken := http.StatusOK, ""
	api := http.NewServeMux()
	api.HandleFunc("GET /api/v1/config", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"file": %q}`, file)
	})
	api.HandleFunc("POST /api/v1/reload", func(w http.ResponseWriter, _ *http.Request) {
		text, _ := os.ReadFile(file)
		taken = string(text)
		w.WriteHeader(status)
	})
	gateway := httptest.NewServer(api)
	defer gateway.Close()
	var out bytes.Buffer
	d := &demoCommand{Admin: strings.TrimPrefix(gateway.URL, "http://")}
	if err := d.protect(t.Context(), &console{out: &out}); err != nil {
		t.Fatal(err)
	}
	if want := "shop:\n  " + demo.Adaptive + "\n"; taken != want {
		t.Errorf("the gateway reloaded %q, want %q", taken, want)
	}
	if !strings.Contains(out.String(), "\n  "+demo.Adaptive+"\n") {
		t.Errorf("the line is not in what was printed:\n%s", out.String())
	}
	status = http.StatusConflict
	if err := d.protect(t.Context(), &console{out: &out}); err == nil ||
		!strings.Contains(err.Error(), "409") {
		t.Errorf("a reload that was refused: %v", err)
	}
}
