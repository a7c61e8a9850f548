package gateway

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/config"
	"plimsoll/internal/loadline"
)

const surveyedLine = `{"schema_version": 2, "target": "http://%s/", "mix": "GET /", "line": {"found": true,
"rate_per_second": {"low": 900, "estimate": 1000, "high": 1100, "confidence": 0.95}}}`

func TestWhomRequestsMeetReachesTheEstimator(t *testing.T) {
	b := newBackend(t, "b")
	g := serveUntimed(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+b.address+`"]}}
routes: [{match: /, upstream: s, sla: P2}]
`)
	g.crowd(4, 50, "/")
	seen := map[loadline.Target]*loadline.Seen{}
	g.lookout.window.Lock()
	g.takeFlights(g.view(), seen)
	g.lookout.window.Unlock()
	s := seen[loadline.Target{Upstream: "s", Address: b.address}]
	if s == nil {
		t.Fatalf("nothing was seen: %v", seen)
	}
	var met uint64
	for _, m := range s.Met {
		met += m.Count
	}
	if met != 200 || s.Times.Count() != 200 || s.Failed != 0 || len(s.Met) > 4 {
		t.Errorf("of 200 requests %d met somebody or nobody, %d took some time, %d failed",
			met, s.Times.Count(), s.Failed)
	}
}

func TestASurveyedLineIsWhatTheEstimateBeginsWith(t *testing.T) {
	b := newBackend(t, "b")
	line := filepath.Join(t.TempDir(), "line.json")
	writeFile(t, line, fmt.Sprintf(surveyedLine, b.address))
	yaml := fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: [%q], load_line: %q}}
routes: [{match: /, upstream: s}]
`, b.address, line)
	g := serve(t, yaml)
	s := g.LoadLine()
	if c := s.Upstreams[0].Capacity; c == nil || *c != (loadline.Interval{Low: 900, Estimate: 1000, High: 1100}) ||
		s.Limit != "s" || !strings.Contains(s.Upstreams[0].How, "survey") {
		t.Errorf("%+v", s.Upstreams[0])
	}
	writeFile(t, line, fmt.Sprintf(surveyedLine, "192.0.2.1:80"))
	if err := g.reload(yaml); err != nil {
		t.Fatal(err)
	}
	if c := g.LoadLine().Upstreams[0].Capacity; c == nil || c.Low != 450 || c.High != 2200 {
		t.Errorf("the line of another service counts as %+v", c)
	}
	if log := g.logged.String(); !strings.Contains(log, "192.0.2.1:80 was surveyed") {
		t.Errorf("nothing is said of it:\n%s", log)
	}
}

func TestABrokenLineFileIsAnErrorWithItsPosition(t *testing.T) {
	for content, want := range map[string]string{
		"{":                      "not a line file",
		`{"schema_version": 99}`: "schema_version 99",
		`{"schema_version": 2, "target": "http://a/", "line": {"found": false, "why": "it ended"}}`: "it ended",
		strings.ReplaceAll(surveyedLine, "900", "1e9"):                                              "ascending",
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "line.json"), content)
		writeFile(t, filepath.Join(dir, "plimsoll.yaml"), `listeners: [{address: "127.0.0.1:0"}]
upstreams:
  s: {targets: ["127.0.0.1:1"], load_line: line.json}
routes: [{match: /, upstream: s}]
`)
		_, err := Check(filepath.Join(dir, "plimsoll.yaml"))
		wrong, _ := errors.AsType[config.Errors](err)
		if len(wrong) != 1 || wrong[0].Line != 3 || wrong[0].Path != "upstreams.s.load_line" ||
			!strings.Contains(wrong[0].Problem, want) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// Requests over HTTP/3 are those of their routes, at their targets, as all others, and what is done for
// them beside the loops takes processors.
func TestRequestsOverHTTP3CountInTheLoadLine(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(simple))
	b := serveH3(t, oneUpstream(s.address()))
	b.lookout.window.Lock()
	b.lookout.countRoutes(b.snapshot())
	b.lookout.window.Unlock()
	c := b.h3()
	for range 30 {
		c.get("/").answer()
	}
	seen := map[loadline.Target]*loadline.Seen{}
	b.lookout.window.Lock()
	defer b.lookout.window.Unlock()
	b.takeFlights(b.view(), seen)
	if len(seen) != 1 {
		t.Fatalf("requests were seen at %d targets", len(seen))
	}
	for target, at := range seen {
		if at.Requests() != 30 {
			t.Errorf("%d of 30 requests were seen at %v", at.Requests(), target)
		}
	}
	if counts := b.lookout.countRoutes(b.snapshot()); len(counts) != 1 || counts[0].Requests != 30 {
		t.Errorf("of 30 requests the routes have %+v", counts)
	}
	if cpu := processCPU(); cpu <= 0 {
		t.Errorf("the process has used %d ns of the processors", cpu)
	}
}
